"""The HTTP connections to all servers: one pool, one TLS context, no cookies."""

import socket

import aiohttp
from aiohttp import AddrInfoType

from mcp_tools_proxy.downstream.mcp_client.error_mapping import Refused
from mcp_tools_proxy.downstream.mcp_client.http.redirects import redirect_refused
from mcp_tools_proxy.downstream.mcp_client.streams.websocket import refuse_redirects

CONNECT_S = 5.0
"""Time-out of one connect: a vanished host never refuses the connection."""

_KEEP_ALIVE_S = 4.0  # uvicorn closes an idle connection after 5: reusing it then loses a request
_DNS_CACHE_S = 60
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds, seconds, probes


class HttpClients:
    """Opens its clients at their first use, since they belong to the event loop."""

    def __init__(self, *, connect_s: float = CONNECT_S) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._http: aiohttp.ClientSession | None = None
        self._websockets: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<HttpClients open={self._http is not None}>"

    @property
    def http(self) -> aiohttp.ClientSession:
        """The client for requests."""
        if self._http is None:
            self._http = _session(
                aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_KEEP_ALIVE_S,
                    ttl_dns_cache=_DNS_CACHE_S,
                    socket_factory=_keepalive_socket,
                ),
                self._timeout,
            )
        return self._http

    @property
    def websockets(self) -> aiohttp.ClientSession:
        """The client for WebSockets; a trace keeps their handshakes from following redirects."""
        if self._websockets is None:
            self._websockets = _session(
                self.http.connector, self._timeout, refuse_redirects(_redirected)
            )
        return self._websockets

    async def close(self) -> None:
        """Close every connection."""
        for session in (self._websockets, self._http):
            if session is not None:
                await session.close()
        self._http = self._websockets = None


def _redirected(response: aiohttp.ClientResponse) -> Refused:
    return redirect_refused(response, response.url)


def _session(
    connector: aiohttp.BaseConnector | None,
    timeout: aiohttp.ClientTimeout,
    *traces: aiohttp.TraceConfig,
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        connector_owner=not traces,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        trace_configs=list(traces),
    )


def _keepalive_socket(address: AddrInfoType) -> socket.socket:
    """Create a socket with TCP keep-alive.

    An event stream may be silent for hours; without keep-alive a vanished peer is never noticed.
    """
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # not on every platform
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return opened
