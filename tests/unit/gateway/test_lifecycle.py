import asyncio

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase


async def woken_by(phase: Phase) -> bool:
    """Set a phase; return whether tasks waiting for the stop are woken."""
    lifecycle = Lifecycle()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(lifecycle.draining())
        lifecycle.phase = phase
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        is_over = waiting.done()
        waiting.cancel()
    return is_over


async def test_only_the_stop_wakes_tasks_that_wait_for_it() -> None:
    assert [phase for phase in Phase if await woken_by(phase)] == [Phase.STOPPING]
