"""How long a test waits for what has to come."""

import asyncio
import time
from collections.abc import Callable

BOUND_S = 90.0
"""Seconds after which a wait counts as a hang: several times what the longest takes alone.

A wait ends by what it waits for, and no test fails because the machine is busy. How soon the
program does a thing is measured by ``make bench``, or shown with a clock that the test moves.
"""


async def until(condition: Callable[[], object], what: str = "what the test waits for") -> None:
    """Wait until the condition holds; ``what`` names it when it never does."""
    ends = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < ends, f"never: {what}"
        await asyncio.sleep(0.005)
