"""Restricts a server of the SDK, which supports both eras, to one of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

Send = Callable[[SessionMessage], Awaitable[None]]
REFUSALS = {
    "legacy": ("server/discover", t.ErrorData(code=t.METHOD_NOT_FOUND, message="No such method")),
    "modern": (
        "initialize",
        t.ErrorData(
            code=t.UNSUPPORTED_PROTOCOL_VERSION,
            message="Unsupported protocol version",
            data={"supported": [LATEST_MODERN_VERSION]},
        ),
    ),
}


async def serve_streams(server: Server[Any], reads: Any, writes: Any, era: str) -> None:
    """Serve one duplex stream; the SDK's stream types are private, thus Any."""
    options = server.create_initialization_options()
    if era == "both":
        await server.run(reads, writes, options)
        return
    async with refusing(reads, writes.send, *REFUSALS[era]) as passed:
        await server.run(passed, writes, options)


@asynccontextmanager
async def refusing(
    reads: Any, send: Send, method: str, error: t.ErrorData
) -> AsyncIterator[anyio.abc.ObjectReceiveStream[SessionMessage | Exception]]:
    """Pass on the messages of ``reads``, but answer the requests of one method with ``error``."""
    to_server, passed = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        async for item in reads:
            message = item.message if isinstance(item, SessionMessage) else None
            if isinstance(message, t.JSONRPCRequest) and message.method == method:
                refusal = t.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
                await send(SessionMessage(refusal))
            else:
                await to_server.send(item)
        await to_server.aclose()

    async with reads, to_server, passed, anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        yield passed
        tasks.cancel_scope.cancel()


def refused_over_http(era: str, version: str | None) -> t.ErrorData | None:
    """Return why a streamable HTTP request with this MCP-Protocol-Version is refused."""
    modern = version in MODERN_PROTOCOL_VERSIONS
    if era == "both" or modern == (era == "modern"):
        return None
    return REFUSALS[era][1]
