import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def neighbour_task(steps: int) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task that needs ``steps`` turns of the event loop; cancel it at the end."""

    async def run() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run())
        yield task
        task.cancel()
