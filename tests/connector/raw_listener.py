"""A listener that sends exactly the bytes that a test chooses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.support.remote_backend.waits import Changes, bounded

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Its address and its number of connections."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self._changes = Changes()

    def url(self, scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/ws/gw"

    def on_connection(self) -> None:
        self.connections += 1
        self._changes.notify()

    async def dialled(self, count: int = 1) -> None:
        """Wait for this many connections."""
        async with bounded(f"{count} connections"):
            await self._changes.until(lambda: self.connections >= count)


@asynccontextmanager
async def listening(
    answer: bytes | Handler, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    """Answer each connection's request with bytes and close it, or run a handler for it."""
    listener = Listener()

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        assert isinstance(answer, bytes)
        writer.write(answer)
        await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.on_connection()
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await (write if isinstance(answer, bytes) else answer)(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener
