"""Whether the process still waits for the servers that it had at its start (contract §6)."""

import time
from collections.abc import Callable


class StartupWait:
    """Over once each of these servers was tried once, or when the time is; ``clock`` gives seconds.

    A server that a reload adds later changes nothing of it.
    """

    def __init__(self, wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait_s = wait_s
        self._clock = clock
        self._until = 0.0
        self._all_tried: Callable[[], bool] = lambda: True

    def begin(self, all_tried: Callable[[], bool]) -> None:
        """Wait from now on; ``all_tried`` says whether each server was tried."""
        self._until = self._clock() + self._wait_s
        self._all_tried = all_tried

    def is_over(self) -> bool:
        """Whether traffic may come; once true it stays true."""
        if self._all_tried() or self._clock() >= self._until:
            self._all_tried = _over
            return True
        return False


def _over() -> bool:
    return True
