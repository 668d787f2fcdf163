"""Measures how much CPU time of its thread each turn of the event loop takes."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_S = 0.05
"""CPU time of one turn, as the service promises it for requests of up to 1 MiB."""

MEASUREMENTS = 3
"""A busy machine makes single measurements longer; a long turn is long in each."""

_SAMPLE = json.dumps([{f"key {n}": [n, "some words", None]} for n in range(2_000)])

SAMPLE_S = 0.0007
"""CPU time in which a machine with nothing else to do parses the sample, at most."""


def unhurried_s(cpu_s: float) -> float:
    """Return CPU time that was used just now as a machine with nothing else to do needs it.

    Neighbours share the caches and the cores' units: with four busy loops beside, a turn of 0.04 s
    took 0.055 s of its thread's CPU time. Work that is always the same shows by how much, just
    after. A faster machine changes nothing.
    """
    return cpu_s / max(1.0, median(_sample_s() for _ in range(5)) / SAMPLE_S)


def _sample_s() -> float:
    started = time.thread_time()
    json.loads(_SAMPLE)
    return time.thread_time() - started


@dataclass
class Turns:
    """CPU time of each turn in seconds, which is the same on a busy machine."""

    taken: list[float] = field(default_factory=list)

    @property
    def longest(self) -> float:
        return max(self.taken, default=0.0)

    def measuring(self, run_once: Callable[P, None]) -> Callable[P, None]:
        """Return what runs one turn and takes its time."""

        def measured(*args: P.args, **kwargs: P.kwargs) -> None:
            started = time.thread_time()
            run_once(*args, **kwargs)
            cpu_s = time.thread_time() - started
            self.taken.append(cpu_s if cpu_s < MOST_S / 2 else unhurried_s(cpu_s))

        return measured


@asynccontextmanager
async def measured_turns() -> AsyncIterator[Turns]:
    """Measure the turns of the running loop during the block.

    Garbage collection in a turn leaves out what other tests have left behind.
    """
    loop: Any = asyncio.get_running_loop()
    turns = Turns()
    gc.freeze()
    loop._run_once = turns.measuring(loop._run_once)
    await asyncio.sleep(0)  # this turn began before
    try:
        yield turns
        await asyncio.sleep(0)
    finally:
        del loop._run_once
        gc.unfreeze()


async def in_short_turns(work: Callable[[], Awaitable[T]]) -> T:
    """Do some work, and return what it returns, after no turn of the loop took long.

    One that took long is measured anew: with four busy loops beside, a turn of 0.04 s took 0.066 s
    once. Raises AssertionError with the longest turn of each measurement.
    """

    async def measure() -> tuple[T, float]:
        async with measured_turns() as turns:
            done = await work()
        return done, turns.longest

    return await measured_anew(measure)


async def measured_anew(measure: Callable[[], Awaitable[tuple[T, float]]]) -> T:
    """Measure until it took less than MOST_S; return what was done. Raises AssertionError."""
    longest = []
    for _ in range(MEASUREMENTS):
        done, longest_s = await measure()
        if longest_s < MOST_S:
            return done
        longest.append(longest_s)
    raise AssertionError(f"over {MOST_S} s of CPU time in each measurement: {longest}")
