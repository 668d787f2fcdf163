"""The time that one request may take, which does not run while its client is being asked."""

import asyncio


class PausableTimeout:
    """The time-out of one request."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._clock = asyncio.get_running_loop().time
        self._pauses = 0
        self._left_s = 0.0
        self._ended = False

    def pause(self, ends_at: float) -> None:
        """Let the time stand still until as many ``resume`` as ``pause`` were called.

        At ``ends_at``, on the loop's clock, it is over all the same.
        """
        self._pauses += 1
        if self._pauses == 1 and not self._ended:
            self._left_s = (self._timeout.when() or 0.0) - self._clock()
            self._timeout.reschedule(ends_at)

    def resume(self) -> None:
        """Let it run again."""
        self._pauses -= 1
        if not self._pauses and not self._ended and not self._timeout.expired():
            self._timeout.reschedule(self._clock() + self._left_s)

    def end(self) -> None:
        """The request is over: leave its time-out alone."""
        self._ended = True
