"""Redis timeouts that exclude the process's own work."""

import asyncio
import time
from types import TracebackType


def idle_clock() -> float:
    """Return seconds on a clock that stops while this thread is busy.

    In a burst of calls, a response can arrive long before the event loop reads it. With wall time
    Redis seemed to fail, budgets were counted in memory, and more than N calls passed (T-09). On
    this clock, only idle time of the loop counts as waiting.
    """
    return time.monotonic() - time.thread_time()


class io_timeout:  # noqa: N801 - used like asyncio.timeout
    """Raise TimeoutError when the body has waited ``seconds`` on the idle clock.

    A timer checks the deadline and is set again for the remaining idle time. ``asyncio.timeout`` in
    a generator took 10 µs, twice in each call with budgets in Redis.
    """

    __slots__ = ("_cancelled_before", "_ends", "_expired", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False

    async def __aenter__(self) -> None:
        if (task := asyncio.current_task()) is None:
            raise RuntimeError("a time-out needs a task")
        self._task = task
        self._cancelled_before = task.cancelling()
        self._ends = idle_clock() + self._seconds
        self._wait(max(self._seconds, 0))

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        left_s = self._ends - idle_clock()
        if left_s > 0:
            self._wait(left_s)
        else:
            self._expired = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if (
            self._expired
            and self._task.uncancel() <= self._cancelled_before
            and kind is not None
            and issubclass(kind, asyncio.CancelledError)
        ):
            raise TimeoutError from error
