"""One gateway's live WebSocket, and the faults that can be committed on it."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from tests.support.remote_backend.handshakes import Handshake
from tests.support.remote_backend.waits import bounded

CLOSING_TIMEOUT_S = 1.0
"""Time limit for a gateway's answer to a close frame."""


def new_socket(protocols: tuple[str, ...], max_frame_bytes: int) -> web.WebSocketResponse:
    """Build a WebSocket that leaves pings to the link; a limit of 0 means unlimited."""
    return web.WebSocketResponse(
        protocols=protocols,
        max_msg_size=max_frame_bytes,
        timeout=CLOSING_TIMEOUT_S,
        autoping=False,
        compress=False,
    )


class Link:
    """Up from a handshake until either side ends it; then ``on_closed`` is called."""

    def __init__(
        self,
        handshake: Handshake,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport,
        on_closed: Callable[["Link"], None],
    ) -> None:
        self.handshake = handshake
        self.socket = socket
        self.is_up = True
        self.pings = 0
        self._transport = transport
        self._on_closed = on_closed
        self._is_half_open = False

    @property
    def server_identifier(self) -> str:
        return self.handshake.server_identifier

    @property
    def close_code(self) -> int | None:
        """The code of the gateway's close frame; None or 1006 without one."""
        return self.socket.close_code

    async def send_raw(self, text: str) -> None:
        """Send any text as a frame; waits while the gateway does not read.

        ConnectionError when the link is ending.
        """
        if not self._is_half_open:
            async with bounded("the gateway reads what is sent"):
                await self.socket.send_str(text)

    async def send_binary(self, data: bytes) -> None:
        """Send a binary frame, in the same way."""
        if not self._is_half_open:
            async with bounded("the gateway reads what is sent"):
                await self.socket.send_bytes(data)

    def write(self, data: bytes) -> None:
        """Write raw bytes: a frame, many, or none."""
        self._transport.write(data)

    @property
    def unsent_bytes(self) -> int:
        """Written bytes that the system does not accept, because the gateway does not read."""
        return self._transport.get_write_buffer_size()

    async def pong(self, data: bytes) -> None:
        self.pings += 1
        if not self._is_half_open:
            await self.socket.pong(data)

    def stop_reading(self) -> None:
        """Stop reading, so that TCP blocks the gateway."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def half_open(self) -> None:
        """Vanish silently: stop reading, answering and writing.

        It stays among the gateways until the same identifier connects again, as with a real relay.
        """
        self._is_half_open = True
        self.stop_reading()

    def drop(self) -> None:
        self.leave()
        self._transport.abort()

    def hang_up(self) -> None:
        """Close the TCP connection after all writes, without a close frame."""
        self.leave()
        self._transport.close()

    async def close(self, code: int = 1001, reason: str = "") -> None:
        """Send a close frame and wait briefly for the gateway's."""
        self.leave()
        if self._is_half_open:
            self._transport.abort()
        else:
            await self.socket.close(code=code, message=reason.encode())

    def leave(self) -> None:
        if self.is_up:
            self.is_up = False
            self._on_closed(self)
