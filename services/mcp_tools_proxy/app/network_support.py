"""What the settings say of the addresses that the servers of mcp.json may have."""

from ipaddress import ip_network

from mcp_tools_proxy.config.loader import process_environment
from mcp_tools_proxy.config.network_rules import NetworkSupport
from mcp_tools_proxy.domain.proxies import Proxies
from mcp_tools_proxy.domain.server_networks import ServerNetworks
from mcp_tools_proxy.settings.settings import Settings


def network_support(settings: Settings) -> NetworkSupport:
    """Return what entries of mcp.json may dial."""
    networks = tuple(map(ip_network, settings.server_networks))
    return NetworkSupport(
        networks=ServerNetworks(networks=networks),
        proxies=Proxies.of(process_environment()),
        requires_tls=settings.server_require_tls,
    )
