"""Time limits for waits in tests."""

import asyncio
import time
from collections.abc import Callable

BOUND_S = 90.0
"""Seconds after which a wait counts as a hang: several times the longest wait on an idle machine.

Waits end when their condition holds, so no test fails because the machine is busy. Speed is
measured by ``make bench``, or with a clock that the test moves.
"""


async def until(condition: Callable[[], object], what: str = "what the test waits for") -> None:
    """Wait until the condition holds; ``what`` names it on a time-out."""
    ends = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < ends, f"never: {what}"
        await asyncio.sleep(0.005)
