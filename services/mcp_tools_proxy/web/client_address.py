"""From which address a request comes, also through proxies that are trusted to say so."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import Scope

FORWARDED_FOR = b"x-forwarded-for"

UNKNOWN = "unknown"
"""The peer of a request whose transport names no address."""

_Address = IPv4Address | IPv6Address


class Peers:
    """Knows who sent a request; ``trusted`` are the networks of proxies, as CIDRs.

    Of ``X-Forwarded-For`` the rightmost address counts that is no trusted proxy's: each proxy adds
    at the right whom it was asked by, and what stands left of that may be a lie. Without trusted
    proxies the header is not read.
    """

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = tuple(ip_network(network) for network in trusted)

    def address_of(self, scope: Scope) -> str:
        """Return the address of whoever sent the request."""
        client = scope.get("client")
        direct = UNKNOWN if client is None else client[0]
        if not self._trusted:
            return direct
        address = _parse(direct)
        if address is None or not self._is_trusted(address):
            return direct
        return str(self._beyond(address, scope["headers"]))

    def _beyond(self, proxy: _Address, headers: Iterable[tuple[bytes, bytes]]) -> _Address:
        """Return the first untrusted address before ``proxy``, or the last one that is readable."""
        lines = [value for name, value in headers if name == FORWARDED_FOR]
        for text in reversed(b",".join(lines).decode("latin-1").split(",")):
            address = _parse(text)
            if address is None:
                return proxy
            if not self._is_trusted(address):
                return address
            proxy = address
        return proxy

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def group_of(address: str) -> str:
    """Return what counts as one sender: an IPv4 address, or the /64 network of an IPv6 one.

    Whoever has one IPv6 address usually has all of its /64.
    """
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)


def _parse(text: str) -> _Address | None:
    """Read an address with or without a port or brackets; None for what is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
