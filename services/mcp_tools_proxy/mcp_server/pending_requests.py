"""Tracks the requests of one connection that were read and are not answered yet.

Both the stdio server and legacy HTTP+SSE end their connection only when every response has been
handed over; the SDK does not report that, so its two streams are watched here.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

Item = SessionMessage | Exception
"""What the SDK's transports yield for a client message; an exception for an invalid line."""

StreamPair = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]
"""The client's messages, and where the server's messages to it are sent."""


class _Reader(AsyncIterable[Item], Protocol):
    async def aclose(self) -> None: ...


class _Writer(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...

    async def aclose(self) -> None: ...


class PendingRequests:
    """Watches both streams of a connection, to know when every response was handed over."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    async def wait_empty(self) -> None:
        """Wait until no request is pending. Cancelled requests get no response and do not count."""
        await self._empty.wait()

    @asynccontextmanager
    async def track(
        self,
        reader: _Reader,
        writer: _Writer,
        on_shutdown: Callable[[], Awaitable[None]] | None = None,
        on_input_end: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[StreamPair]:
        """Yield streams for the server to use in place of ``reader`` and ``writer``.

        Reading stops when ``on_shutdown`` has returned and no request is pending. When ``reader``
        ends, the server sees that end only after ``on_input_end``, since the SDK stops answering
        then. On exit, messages that were sent already still reach ``writer``.
        """
        to_server, from_client = anyio.create_memory_object_stream[Item](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        async with from_client, to_client, asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read(reader, to_server, on_input_end))
            tasks.create_task(self._write(from_server, writer))
            stopping = (
                None if on_shutdown is None else tasks.create_task(self._stop(reading, on_shutdown))
            )
            yield from_client, to_client
            reading.cancel()
            if stopping is not None:
                stopping.cancel()
            to_client.close()

    async def _stop(
        self, reading: asyncio.Task[None], on_shutdown: Callable[[], Awaitable[None]]
    ) -> None:
        await on_shutdown()
        await self.wait_empty()
        reading.cancel()

    async def _read(
        self,
        reader: _Reader,
        to_server: MemoryObjectSendStream[Item],
        on_input_end: Callable[[], Awaitable[None]] | None,
    ) -> None:
        async with to_server, aclosing(reader):
            async for item in reader:
                match item.message if isinstance(item, SessionMessage) else None:
                    case JSONRPCRequest(id=id_):
                        self._ids.add(id_)
                        self._empty.clear()
                    case JSONRPCNotification(
                        method="notifications/cancelled", params={"requestId": int() | str() as id_}
                    ):
                        self._end(id_)
                await to_server.send(item)
            if on_input_end is not None:
                await on_input_end()

    async def _write(
        self, from_server: MemoryObjectReceiveStream[SessionMessage], writer: _Writer
    ) -> None:
        async with from_server, aclosing(writer):
            async for item in from_server:
                # the client may leave before it has read everything
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await writer.send(item)
                match item.message:
                    case JSONRPCResponse(id=id_) | JSONRPCError(id=int() | str() as id_):
                        self._end(id_)

    def _end(self, id_: RequestId) -> None:
        self._ids.discard(id_)
        if not self._ids:
            self._empty.set()
