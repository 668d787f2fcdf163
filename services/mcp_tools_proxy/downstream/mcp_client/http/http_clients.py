"""The HTTP connections to all servers: one pool without a proxy, one for each proxy."""

from dataclasses import dataclass

import aiohttp

from mcp_tools_proxy.domain.proxies import Proxy
from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks
from mcp_tools_proxy.downstream.mcp_client.error_mapping import Refused
from mcp_tools_proxy.downstream.mcp_client.http.redirects import redirect_refused
from mcp_tools_proxy.web_client.proxied_requests import CONNECT_S as CONNECT_PROXY_S
from mcp_tools_proxy.web_client.proxied_requests import session_options
from mcp_tools_proxy.web_client.tcp_sockets import checked_sockets, keepalive_sockets
from mcp_tools_proxy.web_client.websocket_client import websocket_client

CONNECT_S = 5.0
"""Time-out of one connect: a vanished host never refuses the connection."""

_KEEP_ALIVE_S = 4.0  # uvicorn closes an idle connection after 5: reusing it then loses a request
_DNS_CACHE_S = 60


class HttpClients:
    """Opens its clients at their first use, since they belong to the event loop."""

    def __init__(
        self, networks: ServerNetworks = ANY_NETWORK, *, connect_s: float | None = None
    ) -> None:
        """Create the clients without opening them; ``connect_s`` is CONNECT_S by default.

        ``networks`` are those that servers may be in.
        """
        self._networks = networks
        limit_s = CONNECT_S if connect_s is None else connect_s
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=limit_s)
        self._opened: dict[Proxy | None, _Clients] = {}

    def __repr__(self) -> str:
        return f"<HttpClients open={len(self._opened)}>"

    def of(self, proxy: Proxy | None) -> "_Clients":
        """Return the clients whose requests go through a proxy, or directly."""
        if proxy not in self._opened:
            self._opened[proxy] = self._open(proxy)
        return self._opened[proxy]

    async def close(self) -> None:
        """Close every connection."""
        opened, self._opened = self._opened, {}
        for clients in opened.values():
            await clients.websockets.close()
            await clients.http.close()
            await clients.connector.close()

    def _open(self, proxy: Proxy | None) -> "_Clients":
        networks, timeout, options = self._networks, self._timeout, {}
        if proxy is not None:
            options = session_options(
                proxy.url, networks.allows, allows_unresolved=not networks.networks
            )
            timeout = aiohttp.ClientTimeout(
                total=None, connect=CONNECT_PROXY_S, sock_connect=timeout.sock_connect
            )
            # a proxy of the environment may be anywhere; one of mcp.json is where servers may be
            networks = networks if proxy.is_own else ANY_NETWORK
        connector = aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=_KEEP_ALIVE_S,
            ttl_dns_cache=_DNS_CACHE_S,
            socket_factory=checked_sockets(networks.allows, keepalive_sockets()),
        )
        return _Clients(
            connector=connector,
            http=aiohttp.ClientSession(
                connector=connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
                **options,
            ),
            websockets=websocket_client(
                connector, _redirected, timeout=timeout, owns_connector=False, options=options
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clients:
    """The clients for requests and for WebSockets, which share a pool."""

    connector: aiohttp.TCPConnector
    http: aiohttp.ClientSession
    websockets: aiohttp.ClientSession


def _redirected(response: aiohttp.ClientResponse) -> Refused:
    return redirect_refused(response, response.url)
