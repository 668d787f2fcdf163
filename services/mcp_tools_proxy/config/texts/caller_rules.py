"""Which parts of the caller an entry may use where, by what its sessions separate.

What is fixed for the life of a session must be the same for all its callers: a header with the
user, of a session that a tenant shares, would show one user's tickets to the next.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from mcp_tools_proxy.config.auth_rules import OAuthSupport, auth_faults
from mcp_tools_proxy.config.json_file import Location
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.wire.mcp_protocol import is_transport_header

Fault = tuple[Location, str]
"""A place in an entry, and what is wrong there."""

_OVER_HTTP = (Transport.HTTP, Transport.STREAMABLE_HTTP, Transport.SSE)
_FIXED_HEADERS = (Transport.SSE, Transport.WEBSOCKET)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitySupport:
    """What the settings of this process make possible."""

    has_secrets: bool = False
    """Whether there is a folder of secrets."""
    can_sign: bool = False
    """Whether there are a key and an issuer for assertions."""
    oauth: OAuthSupport = field(default_factory=OAuthSupport)
    has_several_tenants: Callable[[], bool] = lambda: False
    """Returns whether callers may be of several tenants now; it blocks."""


def caller_faults(entry: ServerEntry, support: IdentitySupport) -> Iterator[Fault]:
    """Yield what an entry says of callers that cannot be, or that would show one to another."""
    for place, template in _fixed_texts(entry):
        yield from _fixed_faults(place, template, entry.isolation.separates)
    yield from _discovery_faults(entry)
    for place, template in _templates(entry):
        if template.has_secret and not support.has_secrets and _is_enabled(entry):
            yield (
                place,
                "has ${secret:…}, but the folder of secrets is not set; set "
                "MCP_PROXY_SECRETS_DIR and restart the gateway",
            )
    yield from _header_faults(entry)
    yield from _assertion_faults(entry, support)
    yield from auth_faults(entry, support.oauth)


def _is_enabled(entry: ServerEntry) -> bool:
    return entry.enabled and not entry.disabled


def _fixed_texts(entry: ServerEntry) -> Iterator[tuple[Location, CallerTemplate]]:
    """Yield the templates that are filled in once for a session, whatever its era."""
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
    """Yield the arguments and the folder that the session has no value for that discovers.

    A variable and a header it leaves out; an argument that is missing moves those behind it.
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
    """Return whether each segment has one part of the caller at most.

    Else tenant "a" and user "bc" would have the folder of tenant "ab" and user "c".
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
    if not support.can_sign and _is_enabled(entry):
        yield (
            ("assertion",),
            "needs a key and an issuer; set MCP_PROXY_SIGNING_KEY_FILE and "
            "MCP_PROXY_PUBLIC_URL, and restart the gateway",
        )
    name = entry.assertion.header.lower()
    if is_transport_header(name) or name in (it.lower() for it in entry.headers):
        yield ("assertion", "header"), "is the name of another header; choose a different one"
