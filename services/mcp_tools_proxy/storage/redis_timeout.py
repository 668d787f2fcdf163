"""A time-out of a wait for Redis in which the process's own work does not count."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def idle_clock() -> float:
    """Return seconds on a clock that stands still while this thread works.

    In a burst of calls an answer may have arrived long before the event loop gets to it. Wall time
    would call that a failing Redis: budgets counted in memory instead, and more than N calls passed
    (T-09). On this clock only time in which the loop had nothing to do counts as waiting.
    """
    return time.monotonic() - time.thread_time()


@asynccontextmanager
async def io_timeout(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError when the body has waited ``seconds`` on the idle clock."""
    loop = asyncio.get_running_loop()
    ends = idle_clock() + seconds
    async with asyncio.timeout(None) as scope:
        timer: asyncio.TimerHandle

        def check_deadline() -> None:
            nonlocal timer
            left = ends - idle_clock()
            if left > 0:
                timer = loop.call_later(left, check_deadline)
            else:
                scope.reschedule(loop.time())

        timer = loop.call_later(max(seconds, 0), check_deadline)
        try:
            yield
        finally:
            timer.cancel()
