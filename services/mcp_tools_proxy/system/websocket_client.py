"""Opens WebSockets by aiohttp: without cookies, and no handshake follows a redirect."""

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
"""Seconds for the other side to confirm that a WebSocket is closed."""

FRAMES_PER_TURN = 8
"""Frames that are received in one turn of the event loop.

Frames that have arrived are received without waiting: 256 kB of pings or of small requests at once
kept all other callers waiting for 250 ms and more.
"""


def websocket_client(
    connector: aiohttp.BaseConnector,
    redirect_error: Callable[[aiohttp.ClientResponse], Exception],
    *,
    timeout: aiohttp.ClientTimeout,
    owns_connector: bool = True,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> aiohttp.ClientSession:
    """Build the client that ``connect_websocket`` takes.

    A handshake's headers hold secrets, which are for one address: instead of following a redirect
    the client raises what ``redirect_error`` converts the redirecting response to. With
    ``owns_connector`` closing the client closes ``connector``, too. ``options`` are those of
    ``session_options``, for a proxy.
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
    """Open a WebSocket of the subprotocol ``mcp``. Raises aiohttp's errors, OSError, ValueError.

    A message of ``max_msg_size`` bytes or more ends it, and so does a ping that gets no answer;
    there is one each ``heartbeat_s``. ``trust`` replaces the certificates that are trusted. Read it
    by ``receive_frames``, which answers the other side's pings.
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

    None is the last one if what arrived is not WebSocket; the socket is closed then. Yields to the
    event loop between the frames of a flood.
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
                # it may be closed already, and the close code is still to be read
                with suppress(aiohttp.ClientError, OSError, ValueError):
                    await websocket.pong(frame.data)
            case aiohttp.WSMsgType.PONG:
                pass
            case _:
                yield None
                return
