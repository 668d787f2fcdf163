"""Bounding what a call waits for a store, without blaming the store for our own work."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def idle_clock() -> float:
    """Give seconds on a clock that stands still while this thread works.

    In a burst of calls an answer may have arrived long before the event loop gets to it. Wall time
    would call that a failing store, drop to memory limits and so let more than N calls pass (T-09);
    on this clock only time in which the loop had nothing to do counts as waiting.
    """
    return time.monotonic() - time.thread_time()


@asynccontextmanager
async def waiting_at_most(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError when the body has waited ``seconds`` on the idle clock."""
    loop = asyncio.get_running_loop()
    ends = idle_clock() + seconds
    async with asyncio.timeout(None) as scope:
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            left = ends - idle_clock()
            if left > 0:
                timer = loop.call_later(left, look)
            else:
                scope.reschedule(loop.time())

        timer = loop.call_later(max(seconds, 0), look)
        try:
            yield
        finally:
            timer.cancel()
