"""Rules for a server's entry that depend on the settings, this machine, or the entry's isolation.

An entry can use parts of the caller only if its sessions separate them, start only allowed programs
that this machine can confine, and contact only allowed targets.

Values that are fixed for a session must be the same for all its callers: a header with the user, in
a tenant's session, would show one user's tickets to the next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from urllib.parse import urlsplit

from mcp_tools_proxy.config.auth_rules import OAuthSupport, auth_faults, turns_oauth_off
from mcp_tools_proxy.config.json_file import Fault, Location
from mcp_tools_proxy.config.server_entry import ServerEntry, is_proxy_url
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate, SecretPath
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.networks import (
    ANY_NETWORK,
    DIRECT,
    NO_PROXIES,
    Proxies,
    Proxy,
    ServerNetworks,
    literal_address,
)
from mcp_tools_proxy.domain.server import ListedCommand, StdioMode, Transport
from mcp_tools_proxy.system.confinement import missing_for
from mcp_tools_proxy.wire.identifiers import is_loopback
from mcp_tools_proxy.wire.mcp_protocol import is_transport_header

_OVER_HTTP = (Transport.HTTP, Transport.STREAMABLE_HTTP, Transport.SSE)
_FIXED_HEADERS = (Transport.SSE, Transport.WEBSOCKET)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitySupport:
    """Features for caller identity that the settings enable."""

    has_secrets: bool = False
    """Whether a folder of secrets is set."""
    can_sign: bool = False
    """Whether a key and an issuer for assertions are set."""
    oauth: OAuthSupport = field(default_factory=OAuthSupport)
    has_several_tenants: Callable[[], bool] = lambda: False
    """Returns whether callers can currently belong to several tenants; blocks."""


def caller_faults(entry: ServerEntry, support: IdentitySupport) -> Iterator[Fault]:
    """Yield the faults in an entry's use of caller data, including leaks between callers."""
    for place, template in _fixed_texts(entry):
        yield from _fixed_faults(place, template, entry.isolation.separates)
    yield from _discovery_faults(entry)
    for place, template in _templates(entry):
        if template.has_secret and not support.has_secrets and entry.is_enabled:
            yield (
                place,
                "has ${secret:…}, but the folder of secrets is not set; set "
                "MCP_PROXY_SECRETS_DIR and restart the gateway",
            )
    yield from _header_faults(entry)
    yield from _assertion_faults(entry, support)
    yield from auth_faults(entry, support.oauth)


def _fixed_texts(entry: ServerEntry) -> Iterator[tuple[Location, CallerTemplate]]:
    """Yield the templates that are filled in once per session, in any era."""
    if entry.effective_transport is Transport.STDIO:
        yield from _process_texts(entry)
    elif entry.effective_transport in _FIXED_HEADERS:
        yield from _of_keys("headers", entry.headers.items())


def _process_texts(entry: ServerEntry) -> Iterator[tuple[Location, CallerTemplate]]:
    yield from _of_keys("args", enumerate(entry.args))
    yield from _of_keys("env", entry.env.items())
    if isinstance(entry.cwd, CallerTemplate):
        yield ("cwd",), entry.cwd
    if entry.sandbox is not None:
        for key, paths in (("read", entry.sandbox.read), ("write", entry.sandbox.write)):
            for (_, step), template in _of_keys(key, enumerate(paths or ())):
                yield ("sandbox", key, step), template


def _templates(entry: ServerEntry) -> Iterator[tuple[Location, CallerTemplate]]:
    yield from _process_texts(entry)
    yield from _of_keys("headers", entry.headers.items())


def _of_keys(
    key: str, texts: Iterable[tuple[int | str, str | CallerTemplate]]
) -> Iterator[tuple[Location, CallerTemplate]]:
    for step, text in texts:
        if isinstance(text, CallerTemplate):
            yield (key, step), text


def _fixed_faults(
    place: Location, template: CallerTemplate, separates: frozenset[CallerPart]
) -> Iterator[Fault]:
    beyond = sorted(part.value for part in template.caller_parts - separates)
    if beyond:
        names = ", ".join(f"${{caller.{name}}}" for name in beyond)
        yield (
            place,
            f"has {names}, but is fixed for a session that several callers share; set isolation "
            "to separate them",
        )
    if place[0] in {"cwd", "sandbox"} and not is_path(template):
        yield place, "has two parts of the caller in one segment; put a / between them"


def _discovery_faults(entry: ServerEntry) -> Iterator[Fault]:
    """Yield arguments and folders that lack a value in the discovery session.

    Missing variables and headers are omitted, but a missing argument would shift the later ones.
    """
    if entry.effective_transport is not Transport.STDIO:
        return
    known = entry.discovery_caller
    parts = {CallerPart.TENANT_ID} if known is not None else set()
    if known is not None and known.user_id is not None:
        parts.add(CallerPart.USER_ID)
    for place, template in _process_texts(entry):
        separated = template.caller_parts <= entry.isolation.separates
        if separated and place[0] != "env" and template.caller_parts - parts:
            yield (
                place,
                "has a part of the caller, which discovery lacks; name that part in "
                '"discoveryCaller"',
            )


def is_path(template: CallerTemplate) -> bool:
    """Return whether each segment has at most one part of the caller.

    Otherwise tenant "a" with user "bc" would share a folder with tenant "ab" and user "c".
    """
    shown = "".join(it if isinstance(it, str) else "\0" for it in template.parts)
    return all(segment.count("\0") <= 1 for segment in shown.split("/"))


def _header_faults(entry: ServerEntry) -> Iterator[Fault]:
    names = [name.lower() for name in entry.headers]
    for name, text in entry.headers.items():
        if not isinstance(text, CallerTemplate):
            continue
        if names.count(name.lower()) > 1:
            yield ("headers", name), "appears twice, in upper and lower case; keep one of them"
        if is_transport_header(name):
            yield ("headers", name), "is set by the transport itself; remove it"


def _assertion_faults(entry: ServerEntry, support: IdentitySupport) -> Iterator[Fault]:
    if entry.assertion is None:
        return
    if entry.effective_transport not in _OVER_HTTP:
        yield ("assertion",), "needs a server over HTTP: it is a header of each call"
    if not support.can_sign and entry.is_enabled:
        yield (
            ("assertion",),
            "needs a key and an issuer; set MCP_PROXY_SIGNING_KEY_FILE and "
            "MCP_PROXY_PUBLIC_URL, and restart the gateway",
        )
    name = entry.assertion.header.lower()
    if is_transport_header(name) or name in (it.lower() for it in entry.headers):
        yield ("assertion", "header"), "is the name of another header; choose a different one"


ANY_ARGUMENT = "*"

_NOT_LISTED = "is not listed in MCP_PROXY_STDIO_COMMANDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSupport:
    """The programs that the settings of this process allow."""

    mode: StdioMode = StdioMode.ON
    commands: tuple[ListedCommand, ...] = ()
    """Used only with ``LISTED``."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def stdio_faults(entry: ServerEntry, support: StdioSupport) -> Iterator[Fault]:
    """Yield the reasons not to start the program of an enabled entry."""
    if entry.effective_transport is not Transport.STDIO or not entry.is_enabled:
        return
    if support.mode is StdioMode.OFF:
        yield ("command",), "is not allowed: MCP_PROXY_STDIO is off, so no program is started"
    elif support.mode is StdioMode.LISTED:
        yield from _listing_faults(entry, support.commands)
    yield from _sandbox_faults(entry)


def _listing_faults(entry: ServerEntry, listed: tuple[ListedCommand, ...]) -> Iterator[Fault]:
    """Yield the first part of an entry that differs from all listed commands."""
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
    """Return whether an argument is the listed one; ``*`` matches any except options."""
    return argument == listed or (listed == ANY_ARGUMENT and not argument.startswith(("-", "@")))


def _folder(entry: ServerEntry) -> str | None:
    return None if entry.cwd is None else _written(entry.cwd)


def _written(text: str | CallerTemplate) -> str:
    """Return a text as written in the file, with variables replaced."""
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
    sandbox = entry.sandbox
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
"""Parts of the names of known programs, and the state that they keep between calls."""


def shared_process(entry: ServerEntry) -> Iterator[str]:
    """Yield a warning if one process serves callers of several tenants."""
    if entry.effective_transport is not Transport.STDIO or entry.isolation.separates:
        return
    line = " ".join((entry.command or "", *map(_written, entry.args))).lower()
    kept = next((state for name, state in _STATEFUL.items() if name in line), None)
    what = "may keep data between calls" if kept is None else f"keeps {kept}"
    yield (
        f'is one process for the callers of all tenants, and {what}; set "isolation": '
        '"tenant" or "user", or "shared" if that is intended'
    )


READABLE = (
    "sends credentials (headers, auth or assertion) without TLS, so anyone on the network path "
    "can read them; use https:// or wss://"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSupport:
    """Network rules that the settings of this process set."""

    networks: ServerNetworks = ANY_NETWORK
    proxies: Proxies = NO_PROXIES
    requires_tls: bool = False
    """Refuse entries that send credentials without TLS beyond loopback."""


def network_faults(entry: ServerEntry, support: NetworkSupport) -> Iterator[Fault]:
    """Yield the reasons not to connect to an enabled entry's server.

    A host name is checked when connecting, because DNS can return different addresses.
    """
    if entry.effective_transport is Transport.STDIO or not entry.is_enabled:
        return
    if _is_refused(entry.url or "", support.networks):
        yield ("url",), _NOT_DIALLED
    proxy = support.proxies.find(entry.url or "", entry.proxy)
    if proxy is not None:
        yield from _proxy_faults(entry, proxy, support.networks)
    if support.requires_tls and has_readable_credentials(entry):
        yield ("url",), f"{READABLE}, as MCP_PROXY_SERVER_REQUIRE_TLS demands"


def _proxy_faults(entry: ServerEntry, proxy: Proxy, networks: ServerNetworks) -> Iterator[Fault]:
    """Yield the reasons not to use the proxy for a server."""
    place = "proxy" if proxy.is_own else "url"
    if not is_proxy_url(proxy.url):
        name = "proxy" if proxy.is_own else "HTTPS_PROXY or HTTP_PROXY"
        yield (
            (place,),
            f"cannot use {name}: it should be a URL that begins with http:// or https://",
        )
    elif proxy.is_own and _is_refused(proxy.url, networks):
        yield (place,), _NOT_DIALLED
    elif has_readable_credentials(entry):
        yield (
            ("url",),
            "would send credentials (headers, auth or assertion) without TLS to a proxy; use "
            "https:// or wss://, name the host in NO_PROXY, or set "
            f'"proxy": "{DIRECT}" in the entry',
        )


def _is_refused(url: str, networks: ServerNetworks) -> bool:
    address = literal_address(urlsplit(url).hostname or "")
    return address is not None and not networks.allows(address)


_NOT_DIALLED = (
    "has an address that is not allowed: link-local, a cloud metadata service, or outside "
    "MCP_PROXY_SERVER_NETWORKS"
)


def has_readable_credentials(entry: ServerEntry) -> bool:
    """Return whether an entry sends credentials without TLS beyond this machine."""
    parts = urlsplit(entry.url or "")
    host = parts.hostname or ""
    if parts.scheme.lower() not in {"http", "ws"}:
        return False
    if is_loopback(host) or host.endswith(".localhost"):
        return False
    has_auth = entry.auth is not None and not turns_oauth_off(entry)
    return bool(entry.headers or has_auth or entry.assertion or parts.username or parts.password)
