"""Measures how much CPU time of its thread each turn of the event loop takes."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MOST_S = 0.05
"""CPU time of one turn, as the service promises it for requests of up to 1 MiB."""


@dataclass
class Turns:
    """CPU time of each turn in seconds, which is the same on a busy machine."""

    taken: list[float] = field(default_factory=list)

    @property
    def longest(self) -> float:
        return max(self.taken, default=0.0)


@asynccontextmanager
async def measured_turns() -> AsyncIterator[Turns]:
    """Measure the turns of the running loop during the block.

    The garbage collector waits meanwhile: what it walks through is mostly the test's own.
    """
    loop: Any = asyncio.get_running_loop()
    run_once: Callable[[], None] = loop._run_once
    turns = Turns()

    def measured() -> None:
        started = time.thread_time()
        run_once()
        turns.taken.append(time.thread_time() - started)

    loop._run_once = measured
    gc.collect()
    gc.disable()
    await asyncio.sleep(0)  # this turn began before
    try:
        yield turns
        await asyncio.sleep(0)
    finally:
        gc.enable()
        del loop._run_once
