"""Where an entry of mcp.json may send its requests, and whether its credentials are readable."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from urllib.parse import urlsplit

from mcp_tools_proxy.config.oauth.auth_rules import turns_oauth_off
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.config.texts.caller_rules import Fault
from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks
from mcp_tools_proxy.wire.identifiers import is_loopback

READABLE = (
    "sends credentials (headers, auth or assertion) without TLS, so everybody on the way can read "
    "them; use https:// or wss://"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSupport:
    """What the settings of this process allow."""

    networks: ServerNetworks = ANY_NETWORK
    requires_tls: bool = False
    """Refuse entries that send credentials without TLS beyond loopback."""


def network_faults(entry: ServerEntry, support: NetworkSupport) -> Iterator[Fault]:
    """Yield why an enabled entry must not be dialled.

    A host name is checked when it is dialled: DNS may give another address each time.
    """
    if entry.effective_transport is Transport.STDIO or not entry.enabled or entry.disabled:
        return
    address = _address_in(entry.url or "")
    if address is not None and not support.networks.allows(address):
        yield (
            ("url",),
            "has an address that may not be dialled: a link-local one, the metadata service of a "
            "cloud, or one outside MCP_PROXY_SERVER_NETWORKS",
        )
    if support.requires_tls and has_readable_credentials(entry):
        yield ("url",), f"{READABLE}, as MCP_PROXY_SERVER_REQUIRE_TLS demands"


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


def _address_in(url: str) -> str | None:
    """Return the IP address that a URL has as host, None for a name."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return str(ip_address(host))
    with suppress(OSError, ValueError):
        # 2852039166, 0xa9fea9fe, 0251.0376.0251.0376: as the system's resolver reads them
        return str(IPv4Address(socket.inet_aton(host)))
    return None
