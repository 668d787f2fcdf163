"""WebSocket connections with aiohttp, without cookies and redirects."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType, SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

SUBPROTOCOL = "mcp"

CLOSE_S = 1.0
"""Seconds for the peer to confirm that a WebSocket is closed."""

FRAMES_PER_TURN = 8
"""Frames received per turn of the event loop.

Frames that have arrived are received without waiting: 256 kB of pings or small requests delayed all
other callers by 250 ms and more.
"""


def websocket_client(
    connector: aiohttp.BaseConnector,
    redirect_error: Callable[[aiohttp.ClientResponse], Exception],
    *,
    timeout: aiohttp.ClientTimeout,
    owns_connector: bool = True,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> aiohttp.ClientSession:
    """Build the client for ``connect_websocket``.

    Handshake headers contain secrets for one address. Therefore the client does not follow
    redirects, but raises the error that ``redirect_error`` builds from the response. With
    ``owns_connector``, closing the client also closes ``connector``. ``options`` are the
    ``session_options`` of a proxy.
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
        **{**options, "trace_configs": [*options.get("trace_configs", ()), trace]},
    )


async def connect_websocket(
    http: aiohttp.ClientSession,
    url: str | URL,
    headers: Mapping[str, str],
    *,
    max_msg_size: int,
    heartbeat_s: float,
    trust: ssl.SSLContext | None = None,
) -> aiohttp.ClientWebSocketResponse[bool]:
    """Open a WebSocket with the subprotocol ``mcp``. Raises aiohttp's errors, OSError, ValueError.

    A message of ``max_msg_size`` bytes or more ends the connection, as does an unanswered ping;
    pings are sent every ``heartbeat_s``. ``trust`` replaces the trusted certificates. Read it with
    ``receive_frames``, which answers the peer's pings.
    """
    return await http.ws_connect(
        url,
        protocols=(SUBPROTOCOL,),
        headers=headers,
        max_msg_size=max_msg_size,
        heartbeat=heartbeat_s,
        timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
        ssl=trust or True,
        autoping=False,
        decode_text=False,
    )


async def receive_frames(
    websocket: aiohttp.ClientWebSocketResponse[bool],
) -> AsyncGenerator[tuple[bytes, bool] | None, None]:
    """Yield each frame's bytes and whether it is text, until either side closes.

    Invalid WebSocket data yields None at the end; the socket is then closed. Yields to the event
    loop between the frames of a flood.
    """
    received = 0
    async for frame in websocket:
        received += 1
        if received % FRAMES_PER_TURN == 0:
            await asyncio.sleep(0)
        match frame.type:
            case aiohttp.WSMsgType.TEXT | aiohttp.WSMsgType.BINARY:
                yield frame.data, frame.type is aiohttp.WSMsgType.TEXT
            case aiohttp.WSMsgType.PING:
                # even if it is already closed, the close code must be read
                with suppress(aiohttp.ClientError, OSError, ValueError):
                    await websocket.pong(frame.data)
            case aiohttp.WSMsgType.PONG:
                pass
            case _:
                yield None
                return
