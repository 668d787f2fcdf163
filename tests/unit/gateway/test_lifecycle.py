"""The phases of the process, and who waits for them."""

import asyncio

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase


async def woken_by(phase: Phase) -> bool:
    """Set a phase; return whether what waits for the stop is woken."""
    lifecycle = Lifecycle()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(lifecycle.stopping())
        lifecycle.phase = phase
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        is_over = waiting.done()
        waiting.cancel()
    return is_over


async def test_what_waits_for_the_stop_is_woken_by_the_stop_alone() -> None:
    assert [phase for phase in Phase if await woken_by(phase)] == [Phase.STOPPING]
