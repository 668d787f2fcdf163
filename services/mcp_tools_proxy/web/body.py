"""Reads request bodies within their limits."""

import asyncio
from dataclasses import dataclass

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from mcp_tools_proxy.domain.errors import PayloadTooLarge

DISCARD_MAX_BYTES = 64 * 1024 * 1024
DISCARD_MAX_S = 5.0
"""Bytes and seconds of a too large body that are still read: many clients read no response before
they have sent all, and would see a broken connection instead of a 413."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """The size of a body in bytes, and the number of values in its JSON."""

    max_bytes: int
    max_items: int


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """Read a whole body. Raises PayloadTooLarge over ``max_bytes``, ClientDisconnect."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= max_bytes:
        chunk, more = await _next_chunk(receive)
        chunks.append(chunk)
        size += len(chunk)
    if size > max_bytes:
        chunks.clear()
        if more:
            await discard(receive, size)
        raise PayloadTooLarge(
            f"the request body is over {max_bytes} bytes; send less at a time",
            details={"max_request_bytes": max_bytes},
        )
    return b"".join(chunks)


async def _next_chunk(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def discard(receive: Receive, size: int) -> None:
    """Read and drop the rest of a body, up to the limits above."""
    try:
        async with asyncio.timeout(DISCARD_MAX_S):
            more = True
            while more and size <= DISCARD_MAX_BYTES:
                chunk, more = await _next_chunk(receive)
                size += len(chunk)
    except TimeoutError:
        return
