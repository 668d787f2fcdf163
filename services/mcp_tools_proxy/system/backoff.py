"""Exponential back-off with jitter: pauses between attempts, also to open a stream again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_MAX_DOUBLINGS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from ``first_s`` up to ``longest_s``.

    Jitter keeps many gateways from coming back in step: a pause is a random part of its time, at
    least ``least_share`` of it and at least ``shortest_s``.
    """

    first_s: float
    longest_s: float
    least_share: float = 0.5
    shortest_s: float = 0.0

    def pause_s(self, failures: int, jitter: Callable[[], float] = random.random) -> float:
        """Return the pause after one more failure than ``failures``; ``jitter`` returns 0 … 1."""
        whole_s = min(self.longest_s, self.first_s * float(1 << min(failures, _MAX_DOUBLINGS)))
        least_s = max(self.shortest_s, self.least_share * whole_s)
        return least_s + (whole_s - least_s) * jitter()


LONGEST_DELAY_S = 30.0
_BACKOFF = Backoff(first_s=0.5, longest_s=LONGEST_DELAY_S)
_STEADY_S = 30.0  # a stream that stayed open this long resets the back-off

ReadStream = Callable[[Callable[[], None]], Awaitable[bool]]
"""Opens a stream and consumes it until it ends.

Calls its argument once the stream is open. Returns False when the stream must never be opened
again.
"""


async def keep_stream_open(
    read_stream: ReadStream,
    *,
    on_gap: Callable[[], None],
    least_delay_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Run ``read_stream`` again and again until it returns False.

    ``on_gap`` is called each time the stream is open again, since events may have been missed
    between the two streams. ``least_delay_s`` returns the pause that the server requests, which is
    honoured up to LONGEST_DELAY_S. A stream that stayed open longer than _STEADY_S resets the
    back-off.
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
