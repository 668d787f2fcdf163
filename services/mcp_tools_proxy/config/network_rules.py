"""Where an entry of mcp.json may send its requests, and whether its credentials are readable."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_tools_proxy.config.auth_rules import turns_oauth_off
from mcp_tools_proxy.config.server_entry import ServerEntry, is_proxy_url
from mcp_tools_proxy.config.texts.caller_rules import Fault
from mcp_tools_proxy.domain.proxies import DIRECT, NO_PROXIES, Proxies, Proxy
from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks, literal_address
from mcp_tools_proxy.wire.identifiers import is_loopback

READABLE = (
    "sends credentials (headers, auth or assertion) without TLS, so anyone on the network path "
    "can read them; use https:// or wss://"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSupport:
    """What the settings of this process allow."""

    networks: ServerNetworks = ANY_NETWORK
    proxies: Proxies = NO_PROXIES
    """The proxies of the environment."""
    requires_tls: bool = False
    """Refuse entries that send credentials without TLS beyond loopback."""


def network_faults(entry: ServerEntry, support: NetworkSupport) -> Iterator[Fault]:
    """Yield why an enabled entry must not be dialled.

    A host name is checked when it is dialled: DNS may give another address each time.
    """
    if entry.effective_transport is Transport.STDIO or not entry.enabled or entry.disabled:
        return
    if _is_refused(entry.url or "", support.networks):
        yield ("url",), _NOT_DIALLED
    proxy = support.proxies.find(entry.url or "", entry.proxy)
    if proxy is not None:
        yield from _proxy_faults(entry, proxy, support.networks)
    if support.requires_tls and has_readable_credentials(entry):
        yield ("url",), f"{READABLE}, as MCP_PROXY_SERVER_REQUIRE_TLS demands"


def _proxy_faults(entry: ServerEntry, proxy: Proxy, networks: ServerNetworks) -> Iterator[Fault]:
    """Yield why a server must not be reached through the proxy."""
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
    """Return whether a URL has a literal address that may not be dialled."""
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
