"""Finds the address that a request comes from, also through trusted proxies."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_network

from starlette.types import Scope

from mcp_tools_proxy.domain.audit.origin import Entry, Origin
from mcp_tools_proxy.wire.addresses import IpAddress, parse_address

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
