from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import anyio
import mcp_types as t
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage

from tests.support.bounds import BOUND_S


@asynccontextmanager
async def connected(
    entry: Mapping[str, Any], mode: str = "auto", **options: Any
) -> AsyncIterator[Client]:
    """Connect in ``mode`` (auto, legacy, or a version); ``options`` are Client's."""
    transport: Any
    match entry:
        case {"command": _}:
            transport = stdio_client(StdioServerParameters.model_validate(entry))
        case {"transport": "sse", "url": url}:
            transport = sse_client(url)
        case {"transport": "websocket", "url": url}:
            transport = websocket_client(url)
        case _:
            transport = entry["url"]
    async with Client(transport, mode=mode, read_timeout_seconds=BOUND_S, **options) as client:
        yield client


@asynccontextmanager
async def websocket_client(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """A WebSocket transport, which the SDK no longer has."""
    to_session, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writes, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with AsyncExitStack() as stack:
        for end in (to_session, reads, writes, from_session):
            stack.push_async_callback(end.aclose)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        socket = await stack.enter_async_context(http.ws_connect(url, protocols=["mcp"]))

        async def receive() -> None:
            async for frame in socket:
                message = t.jsonrpc_message_adapter.validate_json(frame.data, by_name=False)
                await to_session.send(SessionMessage(message))
            await to_session.aclose()

        async def send() -> None:
            async for item in from_session:
                await socket.send_str(
                    item.message.model_dump_json(by_alias=True, exclude_unset=True)
                )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            yield reads, writes
            tasks.cancel_scope.cancel()
