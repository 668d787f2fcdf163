"""WebSocket, subprotocol ``mcp``: one JSON-RPC message in each frame."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import anyio

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.connection import SessionAccess
from mcp_tools_proxy.downstream.mcp_client.error_mapping import HTTP_ERRORS, from_aiohttp
from mcp_tools_proxy.downstream.mcp_client.http_endpoint import (
    CHALLENGE,
    address_of,
    headers_of,
)
from mcp_tools_proxy.downstream.mcp_client.messages import MAX_MESSAGE_BYTES
from mcp_tools_proxy.system.websocket_client import (
    CLOSE_S,
    connect_websocket,
    receive_frames,
)

_HEARTBEAT_S = 20.0  # a vanished peer is noticed after one and a half of these


@asynccontextmanager
async def open_websocket(
    http: aiohttp.ClientSession, config: ServerConfig, access: SessionAccess | None = None
) -> AsyncIterator["WebSocket"]:
    """Connect and yield the transport. Raises ConnectionFailure.

    ``http`` is a ``websocket_client``. A refused token of ``access`` is renewed once.
    """
    token = {} if access is None else await access.header()
    try:
        try:
            socket = await _connect(http, config, token)
        except aiohttp.WSServerHandshakeError as error:
            challenges = () if error.headers is None else error.headers.getall(CHALLENGE, ())
            if access is None or not await access.renewed(token, error.status, challenges):
                raise
            socket = await _connect(http, config, await access.header())
    except (*HTTP_ERRORS, ValueError) as error:
        raise from_aiohttp(error) from None
    try:
        yield WebSocket(socket)
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await socket.close()


async def _connect(
    http: aiohttp.ClientSession, config: ServerConfig, token: Mapping[str, str]
) -> aiohttp.ClientWebSocketResponse[bool]:
    return await connect_websocket(
        http,
        address_of(config),
        {**headers_of(config), **token},
        max_msg_size=MAX_MESSAGE_BYTES,
        heartbeat_s=_HEARTBEAT_S,
    )


class WebSocket:
    """An open WebSocket as a DuplexTransport.

    A frame over the limit ends the connection: its rest cannot be separated from later frames.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._socket = socket

    def __repr__(self) -> str:
        return f"<WebSocket closed={self._socket.closed} code={self._socket.close_code}>"

    async def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield the server's frames until either side closes."""
        async for frame in receive_frames(self._socket):
            if frame is not None:
                yield frame[0], False

    async def send(
        self, data: bytes, *, is_request: bool, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send one text frame."""
        try:
            await self._socket.send_frame(data, aiohttp.WSMsgType.TEXT)
        except HTTP_ERRORS:
            raise anyio.BrokenResourceError from None

    async def end_reason(self) -> str:
        """Return how the connection ended."""
        match self._socket.close_code:
            case aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
                return f"the server sent a message over {MAX_MESSAGE_BYTES} bytes"
            case None | aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
                return "the WebSocket connection broke"
            case code:
                return f"the server closed the WebSocket with code {code}"
