"""How often other tasks had a turn on the event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A count that goes up with each turn of a task that does nothing else."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            self.count += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def counting_turns() -> AsyncIterator[Turns]:
    """Count the turns of another task while within."""
    turns = Turns()
    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(turns.run())
        yield turns
        counting.cancel()
