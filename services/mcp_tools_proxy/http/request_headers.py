"""Reads the trace, the cookies and the client address from headers (see ``wire.tracing``)."""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_network

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.spans import current_trace_id
from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT, choose_trace_id, valid_context
from mcp_tools_proxy.wire.uris import IpAddress, parse_address

TRACE_HEADER = "X-Trace-Id"

_TRACE_ID_HEADERS = frozenset({b"x-trace-id", b"traceparent"})
_CONTEXT_HEADERS = frozenset(name.encode() for name in TRACE_CONTEXT)


def trace_id_from(body: object, headers: Headers) -> str:
    """Return the trace id of the body, X-Trace-Id or traceparent, in this order, or a new one.

    A value other than a string or number counts as absent: refused bodies reach this too.
    """
    if isinstance(body, dict) and "trace_id" in body:
        chosen = choose_trace_id(body["trace_id"])
        if chosen is not None:
            return chosen
    return trace_id_of(headers)


def trace_id_of(headers: Headers, traceparent: object = None) -> str:
    """Return the trace id of X-Trace-Id, ``traceparent`` or its header, or a new one."""
    # most requests have neither header, and two look-ups would take longer
    for name, _ in headers.raw:
        if name in _TRACE_ID_HEADERS:
            given, parent = trace_header(headers), traceparent or headers.get("traceparent")
            return choose_trace_id(given, traceparent=parent) or new_trace_id()
    return choose_trace_id(traceparent=traceparent) or new_trace_id()


def trace_header(headers: Mapping[str, str]) -> str | None:
    """Return X-Trace-Id, which can be UTF-8: Starlette decodes every header as Latin-1."""
    value = headers.get("x-trace-id")
    if value is None or value.isascii():
        return value and value.strip(" \t")
    return value.strip(" \t").encode("latin-1", "replace").decode(errors="replace")


def only_header(headers: Headers, raw_name: bytes) -> str | None:
    """Return the text of a header, which is UTF-8; None without it. Raises ValueError for two."""
    values = [value for name, value in headers.raw if name == raw_name]
    if len(values) > 1:
        raise ValueError("is given twice; keep one")
    return values[0].strip(b" \t").decode(errors="surrogateescape") if values else None


def new_trace_id() -> str:
    """Return the id of the current trace or a new one, as 32 hex digits."""
    # not a secret, and the system's random bytes take a twentieth of a call
    return current_trace_id() or f"{random.getrandbits(128):032x}"


def trace_context_from(headers: Headers) -> Mapping[str, str]:
    """Return the request's W3C trace headers, to be forwarded to servers.

    A header in several lines is one list (RFC 9110 §5.3). Malformed values are omitted, and so is
    ``tracestate`` without a valid ``traceparent``.
    """
    found: dict[str, str] = {}
    for raw_name, value in headers.raw:
        if raw_name in _CONTEXT_HEADERS:
            name, text = raw_name.decode(), value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return valid_context(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """A cookie for all paths that scripts cannot read.

    Browsers accept a ``__Host-`` cookie only if it is secure and from this host.
    """

    name: str
    is_secure: bool = True
    same_site: str = "Lax"
    max_age_s: int | None = None
    """None to keep it until the browser closes."""

    def value_in(self, request: Request) -> str | None:
        """Return its value; None unless the browser sent exactly one.

        The name is compared exactly, since Starlette strips a no-break space: for browsers, a name
        after such a space lacks the prefix, so a neighbouring host could set the cookie.
        """
        pattern = re.compile(rf"[ \t]*{re.escape(self.name)}=([A-Za-z0-9_-]+)[ \t]*")
        pairs = ";".join(request.headers.getlist("cookie")).split(";")
        found = [pair[1] for pair in map(pattern.fullmatch, pairs) if pair is not None]
        return found[0] if len(found) == 1 else None

    def set_on(self, response: Response, value: str) -> None:
        """Send the cookie to the browser."""
        self._send(response, value, self.max_age_s)

    def drop_on(self, response: Response) -> None:
        """Remove the cookie from the browser."""
        self._send(response, "", 0)

    def _send(self, response: Response, value: str, max_age_s: int | None) -> None:
        age = "" if max_age_s is None else f"Max-Age={max_age_s}; "
        secure = "Secure; " if self.is_secure else ""
        attributes = f"{age}Path=/; {secure}HttpOnly; SameSite={self.same_site}"
        response.headers.append("Set-Cookie", f"{self.name}={value}; {attributes}")


MAX_CACHED = 1_000
"""Limit of cached origins."""

FORWARDED_FOR = b"x-forwarded-for"

MAX_PROXIES = 32
"""Proxies that are considered per request: parsing 7,000 took 50 ms."""

ENTRY = "mcp_tools_proxy.entry"
"""Key in the ASGI scope for the entry of a request made in process."""

UNKNOWN = "unknown"
"""The address of a request whose transport has none: a Unix socket, or a test."""


class Peers:
    """Finds the address of a request's sender; ``trusted`` are networks of proxies, as CIDRs.

    It is the rightmost address in ``X-Forwarded-For`` that is not a trusted proxy: each proxy
    appends its client's address, and everything to the left can be forged. Without trusted proxies
    the header is ignored.
    """

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = tuple(ip_network(network) for network in trusted)

    def address_of(self, scope: Scope) -> str:
        """Return the address of the sender of a request."""
        client = scope.get("client")
        direct = UNKNOWN if client is None else client[0]
        if not self._trusted:
            return direct
        address = parse_address(direct)
        if address is None or not self._is_trusted(address):
            return direct
        return str(self._beyond(address, scope["headers"]))

    def origin_of(self, scope: Scope, entry: Entry) -> Origin:
        """Return the origin of a request at an entry."""
        return Origin(entry, self.address_of(scope))

    def origin_at(self, entry: Entry) -> Callable[[Scope], Origin]:
        """Return a function that returns the origin of a request at an entry."""
        origin_of = lru_cache(MAX_CACHED)(Origin)
        return lambda scope: origin_of(scope.get(ENTRY, entry), self.address_of(scope))

    def _beyond(self, proxy: IpAddress, headers: Iterable[tuple[bytes, bytes]]) -> IpAddress:
        """Return the nearest untrusted address before ``proxy``, or the last that can be parsed."""
        lines = [value for name, value in headers if name == FORWARDED_FOR]
        texts = b",".join(lines).decode("latin-1").rsplit(",", MAX_PROXIES)
        for text in reversed(texts[-MAX_PROXIES:]):
            address = parse_address(text)
            if address is None:
                return proxy
            if not self._is_trusted(address):
                return address
            proxy = address
        return proxy

    def _is_trusted(self, address: IpAddress) -> bool:
        return any(address in network for network in self._trusted)
