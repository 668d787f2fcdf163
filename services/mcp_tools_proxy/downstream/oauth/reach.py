"""Which addresses a request of OAuth may be sent to: a server must not choose where secrets go.

An address that a server named (in a challenge, in its metadata) could be one of the inner network,
or the metadata service of a cloud, which gives credentials to whoever sends it a GET.
"""

from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address, ip_network

from yarl import URL

from mcp_tools_proxy.domain.server_networks import CLOUD_METADATA, TRANSLATED, Address

_GLOBAL_IPV6 = ip_network("2000::/3")
"""All that is given out; ``is_global`` is also of what once was site-local."""


class Zone(Enum):
    """Where an address is."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    FORBIDDEN = "forbidden"
    """Link-local, unspecified, multicast, reserved, translated, or a cloud's metadata service."""


def zone_of(text: str) -> Zone:
    """Return where an IP address is. One with a scope (``fe80::1%eth0``) is forbidden."""
    try:
        address = ip_address(text)
    except ValueError:
        return Zone.FORBIDDEN
    # newer releases of Python count a mapped one as loopback, too
    if address.is_loopback and getattr(address, "ipv4_mapped", None) is None:
        return Zone.LOOPBACK
    if _is_forbidden(address):
        return Zone.FORBIDDEN
    is_public = address.is_global and (address.version == 4 or address in _GLOBAL_IPV6)
    return Zone.PUBLIC if is_public else Zone.PRIVATE


def _is_forbidden(address: Address) -> bool:
    if address in CLOUD_METADATA or getattr(address, "scope_id", None):
        return True
    if any(address in network for network in TRANSLATED if network.version == address.version):
        return True
    return bool(
        address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or (address.is_reserved and address.version == 4)
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """Which zones, besides the public one, requests may be sent to."""

    private: bool = False
    loopback: bool = False

    def allows(self, zone: Zone) -> bool:
        """Return whether an address of a zone may be dialled."""
        match zone:
            case Zone.PUBLIC:
                return True
            case Zone.PRIVATE:
                return self.private
            case Zone.LOOPBACK:
                return self.loopback
            case Zone.FORBIDDEN:
                return False


def reach_of(url: URL, server: URL, configured: frozenset[URL]) -> Reach:
    """Return where requests to ``url`` may go.

    ``server`` is the server's own address, ``configured`` are the origins that the operator wrote.
    Those may be anywhere on the inner network; all others have to be public, or on loopback if the
    server is.
    """
    is_configured = url.origin() in configured
    return Reach(
        private=is_configured or url.origin() == server.origin(),
        loopback=is_configured or is_loopback_host(server),
    )


def is_loopback_host(url: URL) -> bool:
    """Return whether a URL's host is this machine, by its text alone."""
    host = url.host or ""
    return host == "localhost" or host.endswith(".localhost") or zone_of(host) is Zone.LOOPBACK
