"""The SDK's client over one session of the backend."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
from mcp.shared.message import SessionMessage

from tests.support.remote_backend.session import Json

LEAVING_S = 1.0
"""Time for a client's last message at its end."""


class ClientStreams:
    """A transport of the SDK's client: its writes are sent, received messages are read."""

    def __init__(self, send: Callable[[Json], Awaitable[None]]) -> None:
        self._send = send
        self._to_client, self._reads = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](1_000_000)

    def on_message(self, message: Json) -> None:
        try:
            parsed = t.jsonrpc_message_adapter.validate_python(message, by_name=False)
        except ValueError as error:
            self._to_client.send_nowait(error)
        else:
            self._to_client.send_nowait(SessionMessage(parsed))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams; the SDK's types of them are private, thus Any."""
        writes, from_client = anyio.create_memory_object_stream[SessionMessage](0)

        async def send_all() -> None:
            async for item in from_client:
                await self._send(
                    item.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                )

        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for end in (self._to_client, self._reads, writes, from_client):
                stack.push_async_callback(end.aclose)
            sending = tasks.create_task(send_all())
            try:
                yield self._reads, writes
            finally:
                await writes.aclose()
                await asyncio.wait({sending}, timeout=LEAVING_S)
                sending.cancel()
