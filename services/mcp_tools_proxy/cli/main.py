"""The ``mcp-tools-proxy`` command and its sub-commands (contract §8).

Examples and value names are added to each command's help.
"""

import gc

gc.disable()  # what is imported here stays: scanning it took 5 % of a start

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeVar, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException
from typer.main import get_command

from mcp_tools_proxy.app.start_checks import check_start
from mcp_tools_proxy.app.workers import (
    needs_private_redis,
    number_of_workers,
    settings_of_workers,
)
from mcp_tools_proxy.cli.options import agent_names, document_list, identifier, identifiers
from mcp_tools_proxy.cli.output import AsJson, echo, fail
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from mcp_tools_proxy.domain.identity import AssertedIdentity, roles_of
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.settings.auth import ClientSettings, TokensFileSettings
from mcp_tools_proxy.settings.documents import DocumentSettings
from mcp_tools_proxy.settings.observability import AuditSettings
from mcp_tools_proxy.settings.settings import ConfigDirSettings, Settings, SettingsError, load
from mcp_tools_proxy.settings.types import EnvironmentSettings, parse_workers
from mcp_tools_proxy.system.system_calls import hide_memory
from mcp_tools_proxy.telemetry.logging import configure_logging, silence_logs

gc.freeze()
gc.enable()

PROGRAM = "mcp-tools-proxy"

S = TypeVar("S", bound=EnvironmentSettings)


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"mcp-tools-proxy {version('mcp-tools-proxy')}")
        raise typer.Exit


def _workers(value: str | None) -> object:
    if value is None:
        return None
    try:
        return parse_workers(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Host = Annotated[str | None, typer.Option(help="Address to listen on [MCP_PROXY_HOST].")]
ConfigDir = Annotated[
    Path | None,
    typer.Option(
        exists=True, file_okay=False, help="The configuration folder [MCP_PROXY_CONFIG_DIR]."
    ),
]
Offers = Annotated[
    bool,
    typer.Option(
        "--offers", help="List the tools, prompts and resources of all servers, for use in presets."
    ),
]
Agent = Annotated[
    str | None,
    typer.Option(
        autocompletion=agent_names,
        help="List the items that this agent can use, and the others with the key that hides them.",
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(
        callback=identifier,
        help="The tenant of the calls [MCP_PROXY_DEFAULT_TENANT_ID].",
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        callback=identifiers,
        help="A role of the user, for documents with readers. May be repeated.",
    ),
]
User = Annotated[str, typer.Option(callback=identifier, help="The user of the calls.")]
McpAgent = Annotated[
    str | None,
    typer.Option(
        callback=identifier,
        autocompletion=agent_names,
        help="The agent whose profile applies.",
    ),
]
Documents = Annotated[
    list[str] | None,
    typer.Option(
        "--document",
        callback=document_list,
        help="A document that may be used. May be repeated. By default all.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Also show the log, including the stderr of servers.")
]
Upgrade = Annotated[
    bool,
    typer.Option(
        "--upgrade", help="List the changes of this version that affect this configuration."
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Only read settings and files, without connecting to servers or databases (for CI).",
    ),
]
Lock = Annotated[
    bool,
    typer.Option(
        "--lock",
        help="Accept the current definitions of the presets: write definitions.lock.json. Needs "
        "the servers.",
    ),
]
Labels = Annotated[
    bool,
    typer.Option(
        "--labels",
        help="List the tools without labels, and suggest entries for labels.json from their "
        "annotations. Needs the servers.",
    ),
]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to listen on [MCP_PROXY_PORT].")
]

Workers = Annotated[
    str | None,
    typer.Option(
        callback=_workers,
        help="Processes that serve, a number or auto: one for each CPU [MCP_PROXY_WORKERS].",
    ),
]

Pretty = Annotated[
    bool,
    typer.Option(
        "--pretty",
        help="On a terminal: readable log lines, the addresses of the gateway and the console, and "
        "a call to try.",
    ),
]

app = typer.Typer(
    name="mcp-tools-proxy",
    help="Tool-execution gateway for LLM applications. The default command is serve.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def default(
    context: typer.Context, host: Host = None, port: Port = None, show_version: Version = False
) -> None:
    """Serve when no command is given."""
    if context.invoked_subcommand is None:
        serve_command(host, port)
    elif host is not None or port is not None:
        raise typer.BadParameter("--host and --port go after the command: serve --port …")


@app.command("version")
def version_command() -> None:
    """Show the version."""
    _show_version(True)


@app.command("serve")
def serve_command(
    host: Host = None, port: Port = None, workers: Workers = None, pretty: Pretty = False
) -> None:
    """Serve HTTP until SIGTERM or Ctrl+C.

    This is the default command. Settings come from MCP_PROXY_* and .env; the options override them.
    """
    settings = _load(Settings)
    overrides = {"host": host, "port": port, "workers": workers}
    settings = settings.model_copy(update=without_none(overrides))
    for_people = pretty and sys.stdout.isatty()
    configure_logging(settings.log_level, sys.stdout, for_people=for_people)
    gc.disable()  # imported objects stay; the server enables it again after its start
    from mcp_tools_proxy.server.connection_limit import raise_descriptor_limit  # noqa: PLC0415 - only serving needs it
    from mcp_tools_proxy.server.listener import listen  # noqa: PLC0415 - as above

    try:
        check_start(settings)
        prepare = _prepare_workers if number_of_workers(settings) > 1 else _prepare_server
        run = prepare(settings, greets=for_people)
        listener = listen(settings.host, settings.port)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(
            f"MCP_PROXY_HOST, MCP_PROXY_PORT: cannot listen on {settings.host}:{settings.port}: "
            f"{error.strerror}"
        )
    raise_descriptor_limit()
    run(listener)


def _prepare_server(settings: Settings, *, greets: bool) -> Callable[[socket.socket], None]:
    """Return a function that serves in this process. Raises ValueError."""
    from mcp_tools_proxy.server.uvicorn_server import build_server  # noqa: PLC0415 - only serving needs it

    server = build_server(settings, greets=greets)
    server.audit.open()
    return lambda listener: server.run(sockets=[listener])


def _prepare_workers(settings: Settings, *, greets: bool) -> Callable[[socket.socket], None]:
    """Return a function that serves in several processes. Raises ValueError."""
    from mcp_tools_proxy.server.private_redis import PrivateRedis  # noqa: PLC0415 - only workers need it
    from mcp_tools_proxy.server.supervisor import supervise  # noqa: PLC0415 - as above

    size = number_of_workers(settings)
    redis = PrivateRedis(settings) if needs_private_redis(settings) else None
    of_workers = settings_of_workers(settings, size, redis.url if redis else None)

    def run(listener: socket.socket) -> None:
        failure = supervise(of_workers, listener, size, redis=redis, greets=greets)
        if failure is not None:
            fail(failure)

    return run


@app.command("stdio")
def stdio_command(
    tenant: Tenant = None,
    user: User = "stdio",
    roles: Roles = None,
    agent: McpAgent = None,
    documents: Documents = None,
) -> None:
    """Serve MCP over stdin and stdout.

    For one local client, which starts this command. The log goes to stderr.
    """
    settings = _load(Settings)
    configure_logging(settings.log_level, sys.stderr)
    from mcp_tools_proxy.server.stdio_server import run_stdio  # noqa: PLC0415 - only stdio needs it

    try:
        check_start(settings, listens=False)
        run_stdio(
            settings,
            AssertedIdentity(
                tenant_id=tenant,
                user_id=user,
                roles=roles_of(roles or ()),
                agent=agent,
                documents=frozenset(documents) if documents else None,
            ),
        )
    except ValueError as error:
        fail(str(error))


@app.command("check")
def check_configuration(
    config_dir: ConfigDir = None,
    offers: Offers = False,
    agent: Agent = None,
    verbose: Verbose = False,
    upgrade: Upgrade = False,
    offline: Offline = False,
    as_json: AsJson = False,
    lock: Lock = False,
    labels: Labels = False,
) -> None:
    """Check the configuration and every server in it.

    Reads the files, including the tokens file, connects to every server, and shows problems and
    what each preset and agent gets. The preset that is active after a start has a star.

    Tries each configured dependency once, for at most 5 s: PostgreSQL (SELECT 1), the Redis of
    limits and of state (PING), the issuer's keys, the embeddings service (a short text), and the
    Retrieval Service (an unknown document; HTTP status 404 is a success).

    The last line is OK, or Failed with the number of problems of each kind and exit code 1.
    Warnings do not change the exit code.
    """
    if offline and (offers or agent is not None):
        raise typer.BadParameter("--offers and --agent need the servers: leave out --offline")
    if offline and (lock or labels):
        raise typer.BadParameter("--lock and --labels need the servers: leave out --offline")
    settings = _load(Settings)
    from mcp_tools_proxy.cli import check_command as command  # noqa: PLC0415 - only checking needs it

    options = command.CheckOptions(
        offers=offers,
        agent=agent,
        verbose=verbose,
        upgrade=upgrade,
        offline=offline,
        as_json=as_json,
        lock=lock,
        labels=labels,
    )
    try:
        good = command.check(settings, config_dir or settings.config_dir, options)
    except SettingsError as error:
        fail(str(error))
    except ConfigReadOnly as error:
        fail(error.message)
    if not good:
        raise typer.Exit(1)


@cache
def _add_other_commands() -> None:
    """Add the commands whose modules serve does not need: they took 5 % of its start."""
    from mcp_tools_proxy.cli.audit import audit_app  # noqa: PLC0415 - see above
    from mcp_tools_proxy.cli.call import add_call_commands  # noqa: PLC0415
    from mcp_tools_proxy.cli.config_init import config_app  # noqa: PLC0415
    from mcp_tools_proxy.cli.documents.documents_app import documents_app  # noqa: PLC0415
    from mcp_tools_proxy.cli.gateway_commands import (  # noqa: PLC0415
        add_console_command,
        add_gateway_commands,
    )
    from mcp_tools_proxy.cli.login_commands import add_login_commands  # noqa: PLC0415
    from mcp_tools_proxy.cli.settings_command import add_settings_command  # noqa: PLC0415
    from mcp_tools_proxy.cli.tokens import tokens_app  # noqa: PLC0415

    add_login_commands(app, lambda: _load_quietly(Settings))
    add_console_command(app, lambda: _load_quietly(Settings))
    add_call_commands(app, lambda: _load(ClientSettings))
    add_gateway_commands(app, lambda: _load(ClientSettings))
    add_settings_command(app, lambda: _load_quietly(Settings))
    app.add_typer(tokens_app(lambda: _load(TokensFileSettings).tokens_file), name="tokens")
    app.add_typer(audit_app(lambda: _load(AuditSettings)), name="audit")
    app.add_typer(config_app(lambda: _load(ConfigDirSettings).config_dir), name="config")
    app.add_typer(documents_app(lambda: _load_quietly(DocumentSettings)), name="documents")


def build_program(*, serves: bool = False) -> TyperGroup:
    """Build the program, with only the commands of this module if it ``serves``."""
    if not serves:
        _add_other_commands()
    program = cast("TyperGroup", get_command(app))
    _complete_help(program)
    return program


def _load_quietly(kind: type[S]) -> S:
    silence_logs()
    return _load(kind)


def _load(kind: type[S]) -> S:
    try:
        return load(kind)
    except SettingsError as error:
        fail(str(error))


def main() -> None:
    """Run the command line; errors are one line on stderr."""
    hide_memory()  # before secrets are read from .env
    try:
        program = build_program(serves=sys.argv[1:2] == ["serve"])
        sys.exit(program(prog_name=PROGRAM, standalone_mode=False))
    except typer.Abort:
        sys.exit(130)
    except TyperException as error:
        echo(f"mcp-tools-proxy: {error.format_message()}", err=True)
        sys.exit(error.exit_code)


EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "serve --port 8082",
        "check",
        "call read_doc_metadata --tenant acme --arg doc_id=handbook",
    ),
    "serve": ("serve", "serve --host 0.0.0.0 --port 8082", "serve --workers auto"),
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
    "documents edit": ("documents edit handbook --tenant acme --expires 365d",),
    "documents rights": ("documents rights handbook --tenant acme --role support",),
    "documents copy": ("documents copy --from documents --to postgresql://db/docs",),
    "documents migrate": ("documents migrate",),
}
"""Example command lines, without the program's name, by command."""

METAVARS: Mapping[str, str] = {
    **dict.fromkeys(("config_dir", "documents_path"), "FOLDER"),
    **dict.fromkeys(("tokens_file", "key_file"), "FILE"),
    **dict.fromkeys(("since", "until", "expires"), "TIME"),
    **dict.fromkeys(("lines", "limit", "workers"), "COUNT"),
    **dict.fromkeys(("document", "doc_id"), "DOC_ID"),
    **dict.fromkeys(("trace", "token"), "ID"),
    "may": "RIGHT",
}
"""Value names that differ from their option's name."""


def _complete_help(command: object, path: str = "") -> None:
    """Add examples and value names to the help of a command and its sub-commands."""
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
            _complete_help(below, f"{path} {name}".strip())


def _no_type(ctx: object) -> None:
    """Hide the type after the name of an argument."""


def _metavar(option: TyperOption) -> str:
    name = max(option.opts, key=len).lstrip("-").replace("-", "_")
    return METAVARS.get(name, name.upper())


if __name__ == "__main__":
    main()
