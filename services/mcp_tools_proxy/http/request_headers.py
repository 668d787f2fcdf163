"""Reads what headers say of a request: its trace, its cookies, the address that it comes from.

``wire.tracing`` has the rules of traces. An address is also found through trusted proxies.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_network

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.telemetry.spans import current_trace_id
from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT, choose_trace_id, valid_context
from mcp_tools_proxy.wire.uris import IpAddress, parse_address

TRACE_HEADER = "X-Trace-Id"

_TRACE_ID_HEADERS = frozenset({b"x-trace-id", b"traceparent"})
_CONTEXT_HEADERS = frozenset(name.encode() for name in TRACE_CONTEXT)


def trace_id_from(body: object, headers: Headers) -> str:
    """Return the body's trace_id, else X-Trace-Id, else traceparent's, else a new one.

    A value that is neither string nor number counts as absent: refused bodies get here too.
    """
    if isinstance(body, dict) and "trace_id" in body:
        chosen = choose_trace_id(body["trace_id"])
        if chosen is not None:
            return chosen
    for name, _ in headers.raw:  # most requests have neither: two look-ups would take longer
        if name in _TRACE_ID_HEADERS:
            parent = headers.get("traceparent")
            return choose_trace_id(trace_header(headers), traceparent=parent) or new_trace_id()
    return new_trace_id()


def trace_header(headers: Mapping[str, str]) -> str | None:
    """Return X-Trace-Id, which may be UTF-8: Starlette decodes every header as Latin-1."""
    value = headers.get("x-trace-id")
    if value is None or value.isascii():
        return value and value.strip(" \t")
    return value.strip(" \t").encode("latin-1", "replace").decode(errors="replace")


def new_trace_id() -> str:
    """Return that of the current trace, else create one; either has 32 hex digits."""
    # not a secret, and the system's random bytes take a twentieth of a call
    return current_trace_id() or f"{random.getrandbits(128):032x}"


def trace_context_from(headers: Headers) -> Mapping[str, str]:
    """Return the request's W3C trace headers, to be sent on to servers.

    A header in several lines is one list (RFC 9110 §5.3). Values that are not in W3C's form are
    left out, and so is ``tracestate`` without a valid ``traceparent``.
    """
    found: dict[str, str] = {}
    for raw_name, value in headers.raw:
        if raw_name in _CONTEXT_HEADERS:
            name, text = raw_name.decode(), value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return valid_context(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """One cookie for all paths, which no script reads.

    Browsers take a ``__Host-`` cookie, a secure one, from this very host alone.
    """

    name: str
    is_secure: bool = True
    same_site: str = "Lax"
    max_age_s: int | None = None
    """None to keep it until the browser closes."""

    def value_in(self, request: Request) -> str | None:
        """Return its value; None if the browser sent none, or several.

        Its name is compared as it was sent. Starlette strips a no-break space from names: with one
        before it the name has no prefix for browsers, so a neighbouring host could set the cookie.
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
"""Origins that are kept: a caller's is the same each time."""

FORWARDED_FOR = b"x-forwarded-for"

MAX_PROXIES = 32
"""Proxies that are believed of one request: to parse 7,000 took 50 ms."""

ENTRY = "mcp_tools_proxy.entry"
"""Key in the ASGI scope for the entry of a request that another one makes in process."""

UNKNOWN = "unknown"
"""The address of a request whose transport has none: a Unix socket, or a test."""


class Peers:
    """Finds the address of a request's sender; ``trusted`` are networks of proxies, as CIDRs.

    In ``X-Forwarded-For`` the rightmost address counts that is no trusted proxy's: each proxy
    appends the address of its own client, and everything to the left of that may be forged. Without
    trusted proxies the header is ignored.
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
        """Return the function that reads the origin of a request at an entry."""
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
