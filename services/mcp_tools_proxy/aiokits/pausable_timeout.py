"""A request's time-out that stands still while the request's client answers a question."""

import asyncio


class PausableTimeout:
    """Pauses an ``asyncio.Timeout`` that another part of the code entered."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._clock = asyncio.get_running_loop().time
        self._pauses = 0
        self._left_s = 0.0
        self._ended = False

    def pause(self, ends_at: float) -> None:
        """Stop the clock of the time-out until ``resume`` was called as often as ``pause``.

        Meanwhile the time-out expires at ``ends_at``, on the event loop's clock: a pause is
        bounded.
        """
        self._pauses += 1
        if self._pauses == 1 and not self._ended:
            self._left_s = (self._timeout.when() or 0.0) - self._clock()
            self._timeout.reschedule(ends_at)

    def resume(self) -> None:
        """Restart the clock with the seconds that were left, once the last pause is over."""
        self._pauses -= 1
        if not self._pauses and not self._ended and not self._timeout.expired():
            self._timeout.reschedule(self._clock() + self._left_s)

    def end(self) -> None:
        """Stop changing the time-out: after the request, rescheduling raises RuntimeError."""
        self._ended = True
