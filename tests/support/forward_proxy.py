"""A small HTTP proxy on loopback that connects every host name to 127.0.0.1."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from yarl import URL


@dataclass
class ForwardProxy:
    """``url`` is its address; ``requests`` are the request lines and ``headers`` those of each."""

    url: str = ""
    status: int = 200
    requests: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)

    @property
    def targets(self) -> set[str]:
        return {line.split(" ")[1] for line in self.requests}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, _, rest = head.partition("\r\n")
                self.requests.append(line)
                self.headers.append(rest)
                method, target, _ = line.split(" ")
                if method == "CONNECT" and self.status != 200:
                    writer.write(f"HTTP/1.1 {self.status} No\r\nContent-Length: 0\r\n\r\n".encode())
                    await writer.drain()
                    return
                port = int(target.rpartition(":")[2]) if method == "CONNECT" else URL(target).port
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
                if method == "CONNECT":
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    server_writer.write(head.encode())
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(_copy(reader, server_writer))
                        both.create_task(_copy(server_reader, writer))
                finally:
                    server_writer.close()
        finally:
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


@asynccontextmanager
async def running_proxy(status: int = 200) -> AsyncIterator[ForwardProxy]:
    proxy = ForwardProxy(status=status)
    running: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as handlers:

        def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            running.add(task := handlers.create_task(proxy.serve(reader, writer)))
            task.add_done_callback(running.discard)

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield proxy
        finally:
            server.close()
            for task in list(running):
                task.cancel()
