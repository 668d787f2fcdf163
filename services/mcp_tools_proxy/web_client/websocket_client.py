"""Opens WebSockets by aiohttp: without cookies, and no handshake follows a redirect."""

import ssl
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import aiohttp
from yarl import URL

SUBPROTOCOL = "mcp"

CLOSE_S = 1.0
"""Seconds for the other side to confirm that a WebSocket is closed."""


def websocket_client(
    connector: aiohttp.BaseConnector,
    redirect_error: Callable[[aiohttp.ClientResponse], Exception],
    *,
    timeout: aiohttp.ClientTimeout,
    owns_connector: bool = True,
) -> aiohttp.ClientSession:
    """Build the client that ``connect_websocket`` takes.

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


async def connect_websocket(
    http: aiohttp.ClientSession,
    url: str | URL,
    headers: Mapping[str, str],
    *,
    max_msg_size: int,
    heartbeat_s: float,
    trust: ssl.SSLContext | None = None,
    raw: bool = False,
) -> aiohttp.ClientWebSocketResponse[bool]:
    """Open a WebSocket of the subprotocol ``mcp``. Raises aiohttp's errors, OSError, ValueError.

    A message of ``max_msg_size`` bytes or more ends it, and so does a ping that gets no answer;
    there is one each ``heartbeat_s``. ``trust`` replaces the certificates that are trusted. With
    ``raw`` text frames stay bytes, and the other side's pings are the caller's to answer.
    """
    return await http.ws_connect(
        url,
        protocols=(SUBPROTOCOL,),
        headers=headers,
        max_msg_size=max_msg_size,
        heartbeat=heartbeat_s,
        timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
        ssl=trust or True,
        autoping=not raw,
        decode_text=not raw,
    )
