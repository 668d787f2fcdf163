"""Leaves a service alone for a while once it has failed."""

import time
from collections.abc import Callable

from mcp_tools_proxy.aiokits.backoff import Backoff

PAUSES = Backoff(first_s=1.0, longest_s=60.0)


class Circuit:
    """Knows when a service may be called: not for a while after a failure, then by one caller.

    The pauses grow with each failure in a row. ``clock`` returns seconds.
    """

    def __init__(
        self, *, pauses: Backoff = PAUSES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pauses = pauses
        self._clock = clock
        self._failures = 0
        self._next_call_at = 0.0
        self._is_tried = False

    def enter(self) -> bool:
        """Return whether the caller may call the service, and then has to ``leave``."""
        if self._failures == 0:
            return True
        if self._is_tried or self._clock() < self._next_call_at:
            return False
        self._is_tried = True
        return True

    def leave(self, *, has_failed: bool | None) -> None:
        """Note how a call ended; None for one that was cancelled.

        Calls that fail together are one failure.
        """
        self._is_tried = False
        if has_failed is False:
            self._failures = 0
        elif has_failed and self._clock() >= self._next_call_at:
            self._next_call_at = self._clock() + self._pauses.pause_s(self._failures)
            self._failures += 1
