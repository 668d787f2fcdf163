"""An event loop whose clock jumps to the next timer when idle.

Waits for seconds end immediately, in the right order; nothing is patched, and a test that hangs
fails quickly. ManualClock is for code that reads a clock without waiting.
"""

import asyncio
import selectors
from collections.abc import Mapping

_Ready = list[tuple[selectors.SelectorKey, int]]


class _Selector(selectors.DefaultSelector):
    """Passes the time-out to the clock instead of waiting."""

    now_s = 1000.0

    def select(self, timeout: float | None = None) -> _Ready:
        ready = super().select(0)
        if not ready and timeout:
            self.now_s += timeout
        if not ready and timeout is None:
            return super().select(None)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's name
        """Wait for the threads without a bound, because a bound would expire immediately."""
        await super().shutdown_default_executor()

    def time(self) -> float:
        return self._virtual.now_s


class ManualClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def clock() -> float:
    """Return the running loop's seconds."""
    return asyncio.get_running_loop().time()


BACKEND: tuple[str, Mapping[str, object]] = ("asyncio", {"loop_factory": VirtualLoop})
"""For the ``anyio_backend`` fixture."""
