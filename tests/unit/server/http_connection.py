"""One connection to BoundedProtocol on a real socket, and a service behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import uvicorn
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.server.http_protocol import BoundedProtocol
from tests.support.bounds import BOUND_S, until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


class ImpatientProtocol(BoundedProtocol):
    """Has timeouts short enough for a test."""

    arrival_timeout_s = 0.1
    stall_timeout_s = 0.1


class Service:
    """Records headers and bodies; answers with ``size`` bytes when ``gate`` is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.bodies: list[bytes] = []
        self.size = 0
        self.reads_bodies = True
        self.behind_head: Callable[[], object] = lambda: None
        self.waits_for_disconnect = False
        self.waiting, self.disconnected, self.stop_waiting = (asyncio.Event() for _ in range(3))
        self.disconnects = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", self.reads_bodies
        if self.waits_for_disconnect:
            await self._wait_for_disconnect(receive)
            more = False
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.headers.append(list(scope["headers"]))
        self.bodies.append(body)
        await self.gate.wait()
        await self._answer(send)

    async def _answer(self, send: Send) -> None:
        length = b"%d" % self.size
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        self.behind_head()
        await send({"type": "http.response.body", "body": b"x" * self.size})

    async def _wait_for_disconnect(self, receive: Receive) -> None:
        self.waits_for_disconnect = False
        self.waiting.set()
        async with asyncio.TaskGroup() as group:
            ends = {
                group.create_task(self.stop_waiting.wait()),
                group.create_task(self._disconnected(receive)),
            }
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()

    async def _disconnected(self, receive: Receive) -> bool:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnects += 1
        self.disconnected.set()
        return True


class Connected(NamedTuple):
    """The client's side of one connection, and the service."""

    service: Service
    server: uvicorn.Server
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """Read until the connection ends, also by a reset or a broken pipe."""
        data = bytearray()
        try:
            while piece := await self.reader.read(65536):
                data += piece
        except ConnectionError:
            pass
        return bytes(data)

    async def answers(self, number: int) -> None:
        """Read that many answers, all with empty bodies."""
        for _ in range(number):
            assert (await self.reader.readuntil(b"\r\n\r\n")).startswith(OK)


@asynccontextmanager
async def connected(
    protocol: type[BoundedProtocol] = BoundedProtocol, *, idle_s: float = 75
) -> AsyncIterator[Connected]:
    service = Service()
    config = uvicorn.Config(
        service, port=0, http=protocol, ws="none", lifespan="off", log_config=None
    )
    config.timeout_keep_alive = idle_s  # type: ignore[assignment]
    server = uvicorn.Server(config)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        group.create_task(server._serve())
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield Connected(service, server, reader, writer)
        finally:
            service.gate.set()
            writer.transport.abort()
            server.should_exit = True
