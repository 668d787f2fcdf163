"""The time that one request may take, which does not run while its client is being asked."""

import asyncio


class TimeLimit:
    """The time-out of one request."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._clock = asyncio.get_running_loop().time
        self._stops = 0
        self._left_s = 0.0
        self._over = False

    def stop(self, ends_at: float) -> None:
        """Let the time stand still until as many ``go_on`` as ``stop`` were called.

        At ``ends_at``, on the loop's clock, it is over all the same.
        """
        self._stops += 1
        if self._stops == 1 and not self._over:
            self._left_s = (self._timeout.when() or 0.0) - self._clock()
            self._timeout.reschedule(ends_at)

    def go_on(self) -> None:
        """Let it run again."""
        self._stops -= 1
        if not self._stops and not self._over and not self._timeout.expired():
            self._timeout.reschedule(self._clock() + self._left_s)

    def end(self) -> None:
        """The request is over: leave its time-out alone."""
        self._over = True
