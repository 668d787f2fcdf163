"""Whether the process still waits for the servers of its start (contract §6)."""

import time
from collections.abc import Callable


class StartupWait:
    """A wait that is over once each server was tried once, or ``wait_s`` seconds after ``begin``.

    Servers that a reload adds later are not waited for. ``clock`` is monotonic, in seconds.
    """

    def __init__(self, wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait_s = wait_s
        self._clock = clock
        self._until = 0.0
        self._all_tried: Callable[[], bool] = lambda: True

    def begin(self, all_tried: Callable[[], bool]) -> None:
        """Start the wait; ``all_tried`` returns whether each server was tried once."""
        self._until = self._clock() + self._wait_s
        self._all_tried = all_tried

    def is_over(self) -> bool:
        """Return whether the wait is over; once True, always True."""
        if self._all_tried() or self._clock() >= self._until:
            self._all_tried = _always
            return True
        return False


def _always() -> bool:
    return True
