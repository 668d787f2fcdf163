"""A network in front of a server that delays responses and counts connections."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SlowNetwork:
    """Forwards TCP on 127.0.0.1 to a port; responses of the server arrive ``delay_s`` later."""

    def __init__(self, target_port: int, *, delay_s: float) -> None:
        self.port = 0
        self.connections = 0
        self._target_port = target_port
        self._delay_s = delay_s
        self._forwarding: set[asyncio.Task[None] | None] = set()

    async def end(self) -> None:
        """End every connection, so that none of their tasks is left to the garbage collector."""
        tasks = [task for task in self._forwarding if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._forwarding.add(asyncio.current_task())
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._target_port)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):  # the test may end
            await asyncio.gather(self.from_server(theirs, writer), self._pass(reader, ours, 0))
        writer.close()
        ours.close()

    async def from_server(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Forward the server's responses."""
        await self._pass(source, sink, self._delay_s)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await source.read(65536):
            loop.call_later(delay_s, sink.write, data)
        loop.call_later(delay_s, sink.close)


class PostgresNetwork(SlowNetwork):
    """Forwards PostgreSQL's messages one at a time, so that one can be changed or lost."""

    async def from_server(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        sink.write(await source.readexactly(1))  # the answer to a request for TLS
        while True:
            head = await source.readexactly(5)
            kind, size = struct.unpack("!cI", head)
            body = self.message(kind, await source.readexactly(size - 4), sink)
            if body is not None:
                sink.write(head + body)

    def message(self, kind: bytes, body: bytes, sink: asyncio.StreamWriter) -> bytes | None:
        """Return the body for the client, of the same length; None for a lost message."""
        raise NotImplementedError


@asynccontextmanager
async def slow_network(
    target_port: int, *, delay_s: float = 0.0, kind: type[SlowNetwork] = SlowNetwork
) -> AsyncIterator[SlowNetwork]:
    network = kind(target_port, delay_s=delay_s)
    server = await asyncio.start_server(network.forward, "127.0.0.1", 0)
    network.port = server.sockets[0].getsockname()[1]
    async with server:
        yield network
        server.close()
        await network.end()
