"""A listener that is no backend: it says exactly what a test has it say."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.support.remote_backend.waits import Changes, bounded

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """What a test holds of it."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.heard: list[bytes] = []
        """What came over each connection, up to the end of an HTTP head."""
        self._changes = Changes()

    def url(self, scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/ws/gw"

    def came(self) -> None:
        self.connections += 1
        self._changes.notify()

    async def dialled(self, count: int = 1) -> None:
        """Wait for so many connections."""
        async with bounded(f"{count} connections"):
            await self._changes.until(lambda: self.connections >= count)


@asynccontextmanager
async def listening(
    says: bytes | Handler, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    """Answer each connection's first words with bytes, and close it; or do what a handler does."""
    listener = Listener()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.heard.append(await reader.readuntil(b"\r\n\r\n"))
        assert isinstance(says, bytes)
        writer.write(says)
        await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.came()
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await (answer if isinstance(says, bytes) else says)(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener
