"""The aiohttp client for WebSockets: without cookies, and it never follows a redirect."""

from collections.abc import Callable
from types import SimpleNamespace

import aiohttp

SUBPROTOCOL = "mcp"

CLOSE_S = 1.0
"""Seconds for the other side to confirm that a WebSocket is closed."""

CLOSE_TIMEOUT = aiohttp.ClientWSTimeout(ws_close=CLOSE_S)


def websocket_client(
    connector: aiohttp.BaseConnector,
    redirect_error: Callable[[aiohttp.ClientResponse], Exception],
    *,
    timeout: aiohttp.ClientTimeout,
    owns_connector: bool = True,
) -> aiohttp.ClientSession:
    """Build the client.

    A handshake's headers hold secrets, which are for one address: instead of following a redirect
    the client raises what ``redirect_error`` converts the redirecting response to. With
    ``owns_connector`` closing the client closes ``connector``, too.
    """

    async def refuse(
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        redirect: aiohttp.TraceRequestRedirectParams,
    ) -> None:
        raise redirect_error(redirect.response)

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return aiohttp.ClientSession(
        connector=connector,
        connector_owner=owns_connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        trace_configs=[trace],
    )
