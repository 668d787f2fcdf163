"""Which proxy a request to a server goes through."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from mcp_tools_proxy.domain.server_networks import literal_address

DIRECT = "none"
"""The value of ``proxy`` in an entry that connects without one."""

_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy; ``is_own`` is whether the entry in mcp.json names it, not the environment."""

    url: str = field(repr=False)
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """The proxies of the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

    http: str = field(default="", repr=False)
    https: str = field(default="", repr=False)
    excluded: tuple[str, ...] = ()
    """NO_PROXY: hosts with their subdomains, addresses, networks, each with a port or without."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Proxies":
        """Read the variables; as in curl, names in lower case come first."""

        def read(name: str) -> str:
            return (environment.get(name.lower()) or environment.get(name) or "").strip()

        return cls(
            http=_with_scheme(read("HTTP_PROXY")),
            https=_with_scheme(read("HTTPS_PROXY")),
            excluded=tuple(part.strip() for part in read("NO_PROXY").split(",") if part.strip()),
        )

    def find(self, url: str, own: str | None = None) -> Proxy | None:
        """Return the proxy for a URL, None for a direct connection.

        ``own`` is ``proxy`` of the entry. This machine is never reached through a proxy: it would
        be the proxy's machine.
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
    """Return whether a host is loopback by its text, in any spelling of an address."""
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
