import asyncio
from typing import cast

import aiohttp

from mcp_tools_proxy.downstream.transports.event_stream import EventParser
from mcp_tools_proxy.downstream.transports.http_body import read_events
from mcp_tools_proxy.downstream.transports.messages import MAX_ANSWER_BYTES


class Flood:
    """The content of an answer: thousands of events in one piece."""

    def __init__(self) -> None:
        self.content = self
        self._pieces = [b"data: {}\n\n" * 5000]

    async def readany(self) -> bytes:
        return self._pieces.pop() if self._pieces else b""


async def test_other_tasks_go_on_between_the_events_of_a_flood() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    flood = cast("aiohttp.ClientResponse", Flood())
    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count_turns())
        events = [event async for event in read_events(flood, EventParser(MAX_ANSWER_BYTES))]
        counting.cancel()

    assert (len(events), turns >= 100) == (5000, True)
