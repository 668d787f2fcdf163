"""Reconnects a stream for ever, with exponential back-off and jitter."""

import asyncio
import random
from collections.abc import Awaitable, Callable

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
_STEADY_S = 30.0  # a stream that stayed open this long resets the back-off

RunOnce = Callable[[Callable[[], None]], Awaitable[bool]]
"""Opens a stream and consumes it until it ends.

Calls its argument once the stream is open. Returns False when the stream must never be opened
again.
"""


async def reconnect_forever(
    run_once: RunOnce,
    *,
    on_gap: Callable[[], None],
    least_delay_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Run ``run_once`` again and again until it returns False.

    ``on_gap`` is called each time the stream is open again, since events may have been missed
    between the two streams. ``least_delay_s`` returns the pause that the server requests, which is
    honoured up to LONGEST_DELAY_S. A stream that stayed open longer than _STEADY_S resets the
    back-off.
    """
    clock = asyncio.get_running_loop().time
    delay_s = FIRST_DELAY_S
    opened_at = 0.0
    attempts = 0

    def opened() -> None:
        nonlocal opened_at
        opened_at = clock()
        if attempts > 1:
            on_gap()

    while True:
        attempts += 1
        opened_at = clock()
        if not await run_once(opened):
            return
        if clock() - opened_at > _STEADY_S:
            delay_s = FIRST_DELAY_S
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 - nothing to guess
        await asyncio.sleep(max(delay_s * jitter, min(least_delay_s(), LONGEST_DELAY_S)))
        delay_s = min(delay_s * 2, LONGEST_DELAY_S)
