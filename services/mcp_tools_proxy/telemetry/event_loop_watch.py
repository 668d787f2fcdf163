"""Measures how long the event loop is blocked, without a cost for each callback."""

import asyncio
import time
from collections.abc import Callable

BEAT_S = 0.05
"""A turn that takes longer is noticed, whenever it begins."""

BLOCKED_S = 0.05
"""A beat that is later by more counts."""


async def watch_event_loop(observe: Callable[[float], None]) -> None:
    """Call ``observe`` with the seconds of each block, until cancelled."""
    while True:
        due = time.monotonic() + BEAT_S
        await asyncio.sleep(BEAT_S)
        late = time.monotonic() - due
        if late > BLOCKED_S:
            observe(late)
