"""Exponential backoff with jitter for retries and for reopening streams."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from mcp_tools_proxy.domain.fast_dataclass import dataclass

_MAX_DOUBLINGS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from ``first_s`` up to ``longest_s``.

    Jitter prevents many gateways from retrying simultaneously: a pause is a random part of its
    duration, at least ``least_share`` of it and at least ``shortest_s``.
    """

    first_s: float
    longest_s: float
    least_share: float = 0.5
    shortest_s: float = 0.0

    def pause_s(self, failures: int, jitter: Callable[[], float] = random.random) -> float:
        """Return the pause after ``failures`` earlier failures; ``jitter`` returns 0 … 1."""
        whole_s = min(self.longest_s, self.first_s * float(1 << min(failures, _MAX_DOUBLINGS)))
        least_s = max(self.shortest_s, self.least_share * whole_s)
        return least_s + (whole_s - least_s) * jitter()


LONGEST_DELAY_S = 30.0
_BACKOFF = Backoff(first_s=0.5, longest_s=LONGEST_DELAY_S)
_STEADY_S = 30.0  # a stream open for longer resets the backoff

ReadStream = Callable[[Callable[[], None]], Awaitable[bool]]
"""Opens a stream and consumes it until it ends.

Calls its argument when the stream is open. Returns False if the stream must not be opened again.
"""


async def keep_stream_open(
    read_stream: ReadStream,
    *,
    on_gap: Callable[[], None],
    least_delay_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Run ``read_stream`` repeatedly until it returns False.

    ``on_gap`` is called each time the stream is reopened, because events may have been missed.
    ``least_delay_s`` returns the pause requested by the server, which is limited to
    LONGEST_DELAY_S. A stream open for longer than _STEADY_S resets the backoff.
    """
    clock = asyncio.get_running_loop().time
    failures = attempts = 0
    opened_at = 0.0

    def opened() -> None:
        nonlocal opened_at
        opened_at = clock()
        if attempts > 1:
            on_gap()

    while True:
        attempts += 1
        opened_at = clock()
        if not await read_stream(opened):
            return
        if clock() - opened_at > _STEADY_S:
            failures = 0
        await asyncio.sleep(max(_BACKOFF.pause_s(failures), min(least_delay_s(), LONGEST_DELAY_S)))
        failures += 1
