"""Holding a stream open: opened again for ever, ever less often while that does no good."""

import asyncio
import random
from collections.abc import Awaitable, Callable

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
_STEADY_S = 30.0  # a stream that lived this long was a good one

RunOnce = Callable[[Callable[[], None]], Awaitable[bool]]
"""Lives one life of a stream: calls its argument once it is open; False means never again."""


async def reconnect_forever(
    run_once: RunOnce,
    *,
    on_gap: Callable[[], None],
    least_delay_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Run ``run_once`` until it says never again; ``on_gap`` is called when it is open again.

    Between two attempts something may have been missed. ``least_delay_s`` is what the server asks
    to wait; it is heard up to LONGEST_DELAY_S.
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
