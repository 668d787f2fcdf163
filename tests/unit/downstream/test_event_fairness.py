import asyncio
from typing import cast

import aiohttp

from mcp_tools_proxy.downstream.connection import ServerOutput
from mcp_tools_proxy.downstream.mcp_client.messages import MAX_MESSAGE_BYTES
from mcp_tools_proxy.downstream.mcp_client.response_body import EventParser, read_events
from mcp_tools_proxy.downstream.mcp_client.stdio_process import log_stderr
from tests.support.tables import each_row
from tests.unit.downstream.neighbour_task import neighbour_task


class Flood:
    """A response body that is available completely at once."""

    def __init__(self, content: bytes) -> None:
        self.content = self
        self._pieces = [content]

    async def readany(self) -> bytes:
        return self._pieces.pop() if self._pieces else b""


@each_row(
    ("content", "count"),
    [(b"data: {}\n\n" * 500, 500), (b"\n" * 200_000, 0), (b":\n" * 100_000, 0)],
    ids=["events", "empty lines", "comments"],
)
async def test_a_flood_of_events_does_not_block_other_tasks(content: bytes, count: int) -> None:
    flood = cast("aiohttp.ClientResponse", Flood(content))
    async with neighbour_task(steps=10) as neighbour:
        events = [event async for event in read_events(flood, EventParser(MAX_MESSAGE_BYTES))]
        assert (len(events), neighbour.done()) == (count, True)


async def test_a_flood_of_stderr_lines_does_not_block_other_tasks() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"\n" * 100_000)
    reader.feed_eof()
    async with neighbour_task(steps=10) as neighbour:
        await log_stderr(reader, "s1", ServerOutput(), lambda: None)
        assert neighbour.done()
