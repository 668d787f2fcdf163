"""What the help of each command has besides its own words: names of values, and examples."""

from collections.abc import Mapping, Sequence

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

PROGRAM = "mcp-tools-proxy"

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "serve --port 8082",
        "check",
        "call read_doc_metadata --tenant acme --arg doc_id=handbook",
    ),
    "serve": ("serve", "serve --host 0.0.0.0 --port 8082"),
    "stdio": ("stdio --tenant acme --user jo",),
    "check": (
        "check",
        "check --offline --json",
        "check --config-dir examples/agents --agent helpdesk",
    ),
    "login": ("login wiki", "login wiki --tenant acme --user jo --device"),
    "logins": ("logins", "logins --tenant acme --json"),
    "logout": ("logout wiki --tenant acme --user jo",),
    "console": ("console", "console --port 8092"),
    "call": (
        "call read_doc_metadata --tenant acme --arg doc_id=handbook",
        "call notes:search_notes --tenant acme --arg 'query=VPN port'",
    ),
    "explain": ("explain notes:add_note --tenant acme --agent helpdesk",),
    "tools": ("tools list --tenant acme",),
    "tools list": ("tools list --tenant acme", "tools list --tenant acme --agent helpdesk --json"),
    "servers": ("servers", "servers --url http://127.0.0.1:8092"),
    "presets": ("presets list", "presets use work"),
    "presets list": ("presets list",),
    "presets use": ("presets use work", "presets use work --no-persist"),
    "limits": (
        "limits --tenant acme",
        "limits --tenant acme --document handbook",
    ),
    "settings": ("settings", "settings --json"),
    "version": ("version",),
    "tokens": ("tokens create --tenant acme --expires 90d", "tokens list"),
    "tokens create": (
        "tokens create --tenant acme --expires 90d --note chat",
        "tokens create --may presets,audit --expires 2027-01-31",
    ),
    "tokens list": ("tokens list", "tokens list --json"),
    "tokens revoke": ("tokens revoke 3f9a2c71d0",),
    "audit": ("audit tail --follow", "audit find --tenant acme --code ACCESS_DENIED"),
    "audit tail": ("audit tail --lines 20 --follow",),
    "audit find": ("audit find --since 2026-11-28T14:00 --code TOOL_TIMEOUT",),
    "audit verify": ("audit verify", "audit verify audit.jsonl --key-file audit.key"),
    "config": ("config init",),
    "config init": ("config init", "config init examples/mine"),
    "documents": ("documents import handbook.pdf --tenant acme", "documents list --tenant acme"),
    "documents import": ("documents import handbook.pdf --tenant acme --tag vpn",),
    "documents list": ("documents list", "documents list --tenant acme --json"),
    "documents show": ("documents show handbook --tenant acme",),
    "documents remove": ("documents remove handbook --tenant acme --yes",),
    "documents rights": ("documents rights handbook --tenant acme --role support",),
    "documents copy": ("documents copy --from documents --to postgresql://db/docs",),
    "documents migrate": ("documents migrate",),
}
"""Command lines, without the program's name, by the command."""

METAVARS: Mapping[str, str] = {
    **dict.fromkeys(("config_dir", "documents_path"), "FOLDER"),
    **dict.fromkeys(("tokens_file", "key_file"), "FILE"),
    **dict.fromkeys(("since", "until", "expires"), "TIME"),
    **dict.fromkeys(("lines", "limit"), "COUNT"),
    **dict.fromkeys(("document", "doc_id"), "DOC_ID"),
    **dict.fromkeys(("trace", "token"), "ID"),
    "may": "RIGHT",
}
"""Names of values that are not those of their option."""


def complete_help(command: object, path: str = "") -> None:
    """Add examples to the help of a command and of those below it, and name all values alike."""
    if not isinstance(command, TyperCommand | TyperGroup):
        return
    for parameter in command.params:
        if isinstance(parameter, TyperOption):
            if not parameter.is_flag and parameter.metavar is None:
                parameter.metavar = _metavar(parameter)
        elif isinstance(parameter, TyperArgument):
            parameter.metavar = parameter.metavar or parameter.name.upper()
            parameter.display_type_rich = _no_type  # type: ignore[method-assign]
    lines = "\n".join(f"  {PROGRAM} {line}" for line in EXAMPLES.get(path, ()))
    command.epilog = f"\b\nExamples:\n{lines}" if lines else None
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            complete_help(below, f"{path} {name}".strip())


def _no_type(ctx: object) -> None:
    """Show no type behind the name of an argument."""


def _metavar(option: TyperOption) -> str:
    name = max(option.opts, key=len).lstrip("-").replace("-", "_")
    return METAVARS.get(name, name.upper())
