"""Large bodies that complete simultaneously do not block the event loop together."""

import asyncio

from starlette.types import Message

from mcp_tools_proxy.http.body import PACED_BYTES, TURNS_APART, read_body
from tests.support.tables import each_row

BODIES = 64


async def turns_of_bodies(size: int) -> list[int]:
    """Return the turn of the event loop that returned each of BODIES bodies."""
    turn = 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * size, "more_body": False}

    async def read() -> int:
        assert len(await read_body(receive, 2 * PACED_BYTES)) == size
        return turn

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count_turns())
        reading = [tasks.create_task(read()) for _ in range(BODIES)]
        returned = [await it for it in reading]
        counting.cancel()
    return returned


async def test_large_bodies_are_returned_in_different_turns() -> None:
    returned = await turns_of_bodies(PACED_BYTES + 1)
    assert [it - returned[0] for it in returned] == [n * TURNS_APART for n in range(BODIES)]


@each_row("size", [0, 1, PACED_BYTES])
async def test_a_small_body_does_not_wait(size: int) -> None:
    assert len(set(await turns_of_bodies(size))) == 1


async def test_a_cancelled_request_gives_up_its_turn() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * (PACED_BYTES + 1), "more_body": False}

    async with asyncio.TaskGroup() as tasks:
        reading = [tasks.create_task(read_body(receive, 2 * PACED_BYTES)) for _ in range(BODIES)]
        await asyncio.sleep(0)
        for task in reading:
            task.cancel()
    assert len(set(await turns_of_bodies(PACED_BYTES + 1))) == BODIES
