"""Allowed IP addresses of servers in mcp.json, and the proxies to reach them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from mcp_tools_proxy.domain.fast_dataclass import dataclass

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

CLOUD_METADATA = frozenset(
    map(
        ip_address,
        (
            *("169.254.169.254", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"),
            *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
        ),
    )
)
"""AWS and most others; over IPv6: AWS, EKS pod credentials, Google, Scaleway; then Alibaba,
Azure, Oracle."""

_BY_LAST_BITS = ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
_LOCAL_NAT64: Sequence[Callable[[int], int]] = (
    lambda number: number >> 48 & 0xFFFF0000 | number >> 40 & 0xFFFF,
    lambda number: number >> 40 & 0xFF000000 | number >> 32 & 0xFFFFFF,
    lambda number: number >> 24,
    lambda number: number,
)
"""For prefixes of 48, 56, 64 and 96 bits, chosen by the operator; bits 64 to 71 are zero (RFC
6052, 8215)."""

_EMBEDDED: Mapping[Network, Sequence[Callable[[int], int]]] = {
    **{ip_network(network): (lambda number: number,) for network in _BY_LAST_BITS},
    ip_network("64:ff9b:1::/48"): _LOCAL_NAT64,
    ip_network("2002::/16"): (lambda number: number >> 80,),
    ip_network("2001::/32"): (lambda number: ~number,),
}
"""IPv6 forms of an IPv4 address: mapped, translated, NAT64, 6to4, Teredo."""

TRANSLATED = tuple(_EMBEDDED)
"""IPv6 networks whose addresses represent an IPv4 address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerNetworks:
    """The allowed networks of servers; an empty tuple allows all.

    Link-local addresses and cloud metadata services are never allowed: a user who edits mcp.json or
    answers a DNS query could obtain the machine's credentials.
    """

    networks: tuple[Network, ...] = ()

    def allows(self, text: str) -> bool:
        """Return whether the gateway may connect to an IP address."""
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return False
        meant = (address, *_embedded(address))
        if any(it.is_link_local or it in CLOUD_METADATA for it in meant):
            return False
        dialled = getattr(address, "ipv4_mapped", None) or address
        return not self.networks or any(dialled in network for network in self.networks)


ANY_NETWORK = ServerNetworks()


def literal_address(host: str) -> str | None:
    """Return the IP address in a URL's host; None for a name."""
    with suppress(ValueError):
        return str(ip_address(host))
    numbers = [_number_of(part) for part in host.split(".")]
    *first, last = numbers
    if len(numbers) > 4 or None in numbers or any((it or 0) > 255 for it in first):
        return None
    # 2852039166, 0xa9fea9fe, 0251.0376.43518: as inet_aton of the system's resolver reads them
    high = sum((it or 0) << 24 - 8 * place for place, it in enumerate(first))
    is_address = (last or 0) < 256 ** (5 - len(numbers))
    return str(IPv4Address(high + (last or 0))) if is_address else None


def _number_of(text: str) -> int | None:
    if re.fullmatch("0[xX][0-9A-Fa-f]+", text):
        return int(text, 16)
    if re.fullmatch("0[0-7]*", text):
        return int(text, 8)
    return int(text) if re.fullmatch("[1-9][0-9]{0,9}", text) else None


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address can be delivered to."""
    for network, spellings in _EMBEDDED.items():
        if address in network:
            for bits_of in spellings:
                yield IPv4Address(bits_of(int(address)) & 0xFFFF_FFFF)


DIRECT = "none"
"""The value of ``proxy`` in an entry that connects without one."""

_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy; ``is_own`` means that mcp.json names it and not the environment."""

    url: str = field(repr=False)
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """The proxies of the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

    http: str = field(default="", repr=False)
    https: str = field(default="", repr=False)
    excluded: tuple[str, ...] = ()
    """NO_PROXY: hosts with their subdomains, addresses and networks, each with an optional port."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Proxies":
        """Read the variables; as in curl, lowercase names take precedence."""

        def read(name: str) -> str:
            return (environment.get(name.lower()) or environment.get(name) or "").strip()

        return cls(
            http=_with_scheme(read("HTTP_PROXY")),
            https=_with_scheme(read("HTTPS_PROXY")),
            excluded=tuple(part.strip() for part in read("NO_PROXY").split(",") if part.strip()),
        )

    def find(self, url: str, own: str | None = None) -> Proxy | None:
        """Return the proxy for a URL; None for a direct connection.

        ``own`` is the entry's ``proxy``. Loopback addresses never use one: they would mean the
        proxy's machine.
        """
        if own == DIRECT:
            return None
        found = own or (self.https if _is_encrypted(url) else self.http)
        if not found or is_this_machine(_host_of(url)):
            return None
        if own is None and self._is_excluded(url):
            return None
        return Proxy(url=found, is_own=own is not None)

    def _is_excluded(self, url: str) -> bool:
        host = _host_of(url)
        port = urlsplit(url).port or _DEFAULT_PORTS.get(urlsplit(url).scheme.lower())
        return any(_fits(pattern, host, port) for pattern in self.excluded)


NO_PROXIES = Proxies()


def is_this_machine(host: str) -> bool:
    """Return whether a host is loopback, in any notation of an address, without a DNS query."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = literal_address(name)
    if address is None:
        return False
    parsed = ip_address(address)
    meant = getattr(parsed, "ipv4_mapped", None) or parsed
    return bool(meant.is_loopback or meant.is_unspecified)


def _fits(pattern: str, host: str, port: int | None) -> bool:
    if pattern == "*":
        return True
    address = literal_address(host)
    with suppress(ValueError):
        network = ip_network(pattern.strip("[]"), strict=False)
        return address is not None and ip_address(address) in network
    name, colon, of_port = pattern.rpartition(":")
    if colon and of_port.isdecimal():
        return int(of_port) == port and _fits(name, host, port)
    suffix = pattern.lower().removeprefix("*").strip(".")
    name = host.lower().rstrip(".")
    return bool(suffix) and (name == suffix or name.endswith(f".{suffix}"))


def _with_scheme(proxy: str) -> str:
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _is_encrypted(url: str) -> bool:
    return urlsplit(url).scheme.lower() in {"https", "wss"}


def _host_of(url: str) -> str:
    return urlsplit(url).hostname or ""
