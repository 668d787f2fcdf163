from typing import cast

import aiohttp

from mcp_tools_proxy.downstream.mcp_client.http.response_body import read_events
from mcp_tools_proxy.downstream.mcp_client.http.sse_parser import EventParser
from mcp_tools_proxy.downstream.mcp_client.messages import MAX_MESSAGE_BYTES
from tests.unit.downstream.neighbour_task import neighbour_task


class Flood:
    """The content of an answer: thousands of events in one piece."""

    def __init__(self) -> None:
        self.content = self
        self._pieces = [b"data: {}\n\n" * 5000]

    async def readany(self) -> bytes:
        return self._pieces.pop() if self._pieces else b""


async def test_other_tasks_go_on_between_the_events_of_a_flood() -> None:
    flood = cast("aiohttp.ClientResponse", Flood())
    async with neighbour_task(steps=100) as neighbour:
        events = [event async for event in read_events(flood, EventParser(MAX_MESSAGE_BYTES))]
        assert (len(events), neighbour.done()) == (5000, True)
