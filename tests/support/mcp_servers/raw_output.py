import asyncio
import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.support.mcp_servers.raw_tools import GARBAGE, HALF, Fault, Json

Outbox = asyncio.Queue[Json | Fault | None]
"""Pending messages for a client; None ends it."""
Write = Callable[[bytes], Awaitable[None]]
Crash = Callable[[], None]


async def event_stream(
    request: web.Request, outbox: Outbox, crash: Crash, *, headers: Json, first: str = ""
) -> web.StreamResponse:
    """Send ``first`` and then the outbox's messages as events, until None."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
    await response.prepare(request)
    if first:
        await response.write(first.encode())
    while (item := await outbox.get()) is not None:
        if item is Fault.GARBAGE:
            await response.write(event(GARBAGE))
        elif isinstance(item, Fault):
            await commit(item, request, crash, event(HALF).rstrip(), response.write)
            break
        else:
            await response.write(event(json.dumps(item)))
    return response


def event(data: str) -> bytes:
    return f"event: message\ndata: {data}\n\n".encode()


async def commit(
    fault: Fault, request: web.Request, crash: Crash, half: bytes, write: Write
) -> None:
    transport = request.transport
    if transport is None:
        return
    if fault is Fault.CRASH:
        crash()
        transport.abort()
    else:
        await write(half)
        transport.close()


PEER = ":peer"
"""The key beside the headers for the other end of the connection."""
SESSION = "mcp-session-id"
"""The session header of streamable HTTP; here also used for legacy SSE."""


def headers_of(request: web.Request) -> Json:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return {name.lower(): value for name, value in request.headers.items()} | {PEER: str(peer)}
