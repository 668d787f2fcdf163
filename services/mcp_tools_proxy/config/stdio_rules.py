"""Which programs mcp.json may start, and what this machine can confine of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.config.sandbox_entry import sandbox_of
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.config.texts.caller_rules import Fault
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate, SecretPath
from mcp_tools_proxy.domain.server import ListedCommand, StdioMode, Transport
from mcp_tools_proxy.sandbox.confinement import missing_for

ANY_ARGUMENT = "*"

_NOT_LISTED = "is not listed in MCP_PROXY_STDIO_COMMANDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSupport:
    """Which programs the settings of this process allow."""

    mode: StdioMode = StdioMode.ON
    commands: tuple[ListedCommand, ...] = ()
    """Used with ``LISTED`` alone."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that every program is given."""


def stdio_faults(entry: ServerEntry, support: StdioSupport) -> Iterator[Fault]:
    """Yield why the program of an enabled entry must not be started."""
    if entry.effective_transport is not Transport.STDIO or not entry.enabled or entry.disabled:
        return
    if support.mode is StdioMode.OFF:
        yield ("command",), "is not allowed: MCP_PROXY_STDIO is off, so no program is started"
    elif support.mode is StdioMode.LISTED:
        yield from _listing_faults(entry, support.commands)
    yield from _sandbox_faults(entry)


def _listing_faults(entry: ServerEntry, listed: tuple[ListedCommand, ...]) -> Iterator[Fault]:
    """Yield the first part of an entry by which it is none of the listed commands."""
    args = tuple(map(_written, entry.args))
    same = [it for it in listed if it.command == entry.command]
    if not same:
        yield ("command",), _NOT_LISTED
    elif not (same := [it for it in same if _fit(args, it.args)]):
        yield ("args",), f"{_NOT_LISTED} with this command"
    elif not (same := [it for it in same if it.cwd == _folder(entry)]):
        yield ("cwd",), f"{_NOT_LISTED} with this command and these arguments"
    elif not any(entry.env.keys() <= set(it.env) for it in same):
        yield ("env",), "has a variable that MCP_PROXY_STDIO_COMMANDS does not list for the command"


def _fit(args: tuple[str, ...], listed: tuple[str, ...]) -> bool:
    return len(args) == len(listed) and all(map(_fits, args, listed))


def _fits(argument: str, listed: str) -> bool:
    """Return whether an argument is the listed one; ``*`` is any that is not an option."""
    return argument == listed or (listed == ANY_ARGUMENT and not argument.startswith(("-", "@")))


def _folder(entry: ServerEntry) -> str | None:
    return None if entry.cwd is None else _written(entry.cwd)


def _written(text: str | CallerTemplate) -> str:
    """Return a text as it is written in the file, but with variables replaced."""
    return text if isinstance(text, str) else "".join(map(_part, text.parts))


def _part(part: str | CallerPart | SecretPath) -> str:
    match part:
        case CallerPart():
            return f"${{caller.{part.value}}}"
        case SecretPath():
            return f"${{secret:{''.join(map(_part, part.parts))}}}"
        case _:
            return part


def _sandbox_faults(entry: ServerEntry) -> Iterator[Fault]:
    sandbox = sandbox_of(entry.sandbox)
    if sandbox is None:
        return
    lack = missing_for(
        read=sandbox.read is not None,
        write=sandbox.write is not None,
        calls=not sandbox.network or sandbox.cpu is not None,
    )
    if lack is not None:
        yield (
            ("sandbox",),
            f"cannot be applied on this machine, so the server is not started: it needs {lack}",
        )


_BROWSER = "a browser with its cookies and pages"
_MEMORY = "what callers told it to remember"
_STATEFUL = {
    **dict.fromkeys(
        ("playwright", "puppeteer", "selenium", "stagehand", "chrome", "browser"), _BROWSER
    ),
    **dict.fromkeys(("memory", "mem0", "knowledge-graph"), _MEMORY),
    **dict.fromkeys(
        ("sequential-thinking", "sequentialthinking", "sequential_thinking"),
        "the thoughts of earlier calls",
    ),
    **dict.fromkeys(
        ("desktop-commander", "mcp-shell", "iterm", "tmux"), "terminals that it has opened"
    ),
    **dict.fromkeys(("jupyter", "ipython", "code-interpreter"), "the variables of earlier code"),
}
"""Parts of the names of known programs, and what they keep between calls."""


def shared_process(entry: ServerEntry) -> Iterator[str]:
    """Yield why one process for callers of several tenants may show one tenant to another."""
    if entry.effective_transport is not Transport.STDIO or entry.isolation.separates:
        return
    line = " ".join((entry.command or "", *map(_written, entry.args))).lower()
    kept = next((state for name, state in _STATEFUL.items() if name in line), None)
    what = "may keep data between calls" if kept is None else f"keeps {kept}"
    yield (
        f'is one process for the callers of all tenants, and {what}; set "isolation": '
        '"tenant" or "user", or "shared" if that is intended'
    )
