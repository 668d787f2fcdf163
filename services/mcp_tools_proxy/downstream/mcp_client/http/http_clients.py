"""The HTTP connections to all servers: one pool, one TLS context, no cookies."""

import aiohttp

from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks
from mcp_tools_proxy.downstream.mcp_client.error_mapping import Refused
from mcp_tools_proxy.downstream.mcp_client.http.redirects import redirect_refused
from mcp_tools_proxy.web_client.tcp_sockets import checked_sockets, keepalive_sockets
from mcp_tools_proxy.web_client.websocket_client import websocket_client

CONNECT_S = 5.0
"""Time-out of one connect: a vanished host never refuses the connection."""

_KEEP_ALIVE_S = 1.5  # gunicorn closes an idle connection after 2: reusing it then loses a request
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
        self._connector: aiohttp.TCPConnector | None = None
        self._http: aiohttp.ClientSession | None = None
        self._websockets: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<HttpClients open={self._http is not None}>"

    @property
    def http(self) -> aiohttp.ClientSession:
        """The client for requests."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=self._open_connector(),
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
            )
        return self._http

    @property
    def websockets(self) -> aiohttp.ClientSession:
        """The client for WebSockets."""
        if self._websockets is None:
            self._websockets = websocket_client(
                self._open_connector(), _redirected, timeout=self._timeout, owns_connector=False
            )
        return self._websockets

    async def close(self) -> None:
        """Close every connection."""
        for session in (self._websockets, self._http):
            if session is not None:
                await session.close()
        if self._connector is not None:
            await self._connector.close()
        self._http = self._websockets = self._connector = None

    def _open_connector(self) -> aiohttp.TCPConnector:
        """Return the pool that both clients share."""
        if self._connector is None:
            self._connector = aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEP_ALIVE_S,
                ttl_dns_cache=_DNS_CACHE_S,
                socket_factory=checked_sockets(self._networks.allows, keepalive_sockets()),
            )
        return self._connector


def _redirected(response: aiohttp.ClientResponse) -> Refused:
    return redirect_refused(response, response.url)
