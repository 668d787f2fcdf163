"""The requests of one connection that were read and are not answered yet."""

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
"""What a client said; an exception is a line that is no message."""

Ways = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]
"""The way in and the way out."""


class _In(AsyncIterable[Item], Protocol):
    async def aclose(self) -> None: ...


class _Out(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...

    async def aclose(self) -> None: ...


class PendingRequests:
    """Watches both ways of a connection, to tell when every answer was handed over."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._none = asyncio.Event()
        self._none.set()

    async def none(self) -> None:
        """Wait until no request waits for its answer; one that was cancelled gets none."""
        await self._none.wait()

    @asynccontextmanager
    async def watched(
        self,
        reader: _In,
        writer: _Out,
        over: Callable[[], Awaitable[None]] | None = None,
        at_end: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Ways]:
        """Yield both ways to who answers. At the end, what was said last still goes out.

        When ``over`` returns, nothing is read any more as soon as everything is answered. When
        ``reader`` ends, who answers learns of it after ``at_end``, and then answers nothing more.
        """
        read, said = anyio.create_memory_object_stream[Item](0)
        answer, answers = anyio.create_memory_object_stream[SessionMessage](0)
        async with said, answer, asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read(reader, read, at_end))
            tasks.create_task(self._write(answers, writer))
            ending = None if over is None else tasks.create_task(self._stop(reading, over))
            yield said, answer
            reading.cancel()
            if ending is not None:
                ending.cancel()
            answer.close()

    async def _stop(self, reading: asyncio.Task[None], over: Callable[[], Awaitable[None]]) -> None:
        await over()
        await self.none()
        reading.cancel()

    async def _read(
        self,
        reader: _In,
        read: MemoryObjectSendStream[Item],
        at_end: Callable[[], Awaitable[None]] | None,
    ) -> None:
        async with read, aclosing(reader):
            async for item in reader:
                match item.message if isinstance(item, SessionMessage) else None:
                    case JSONRPCRequest(id=id_):
                        self._ids.add(id_)
                        self._none.clear()
                    case JSONRPCNotification(
                        method="notifications/cancelled", params={"requestId": int() | str() as id_}
                    ):
                        self._end(id_)
                await read.send(item)
            if at_end is not None:
                await at_end()

    async def _write(
        self, answers: MemoryObjectReceiveStream[SessionMessage], writer: _Out
    ) -> None:
        async with answers, aclosing(writer):
            async for item in answers:
                # a client may leave before it has read all that was said
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await writer.send(item)
                match item.message:
                    case JSONRPCResponse(id=id_) | JSONRPCError(id=int() | str() as id_):
                        self._end(id_)

    def _end(self, id_: RequestId) -> None:
        self._ids.discard(id_)
        if not self._ids:
            self._none.set()
