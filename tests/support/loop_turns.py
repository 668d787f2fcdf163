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
"""CPU time of one iteration that the service promises for requests of up to 1 MiB."""

MEASUREMENTS = 10
"""A busy machine makes single measurements longer; a truly long iteration is long in each."""

_SAMPLE = json.dumps([{f"key {n}": [n, "some words", None]} for n in range(2_000)])

SAMPLE_S = 0.0007
"""Maximum CPU time of an idle machine to parse the sample."""


def unhurried_s(cpu_s: float) -> float:
    """Return CPU time just used, scaled to an idle machine.

    Other processes share the caches and the cores' units: beside four busy loops, an iteration of
    0.04 s took 0.055 s of CPU time. A constant amount of work measured directly afterwards shows
    the factor. A faster machine changes nothing.
    """
    return cpu_s / max(1.0, median(_sample_s() for _ in range(5)) / SAMPLE_S)


def _sample_s() -> float:
    started = time.thread_time()
    json.loads(_SAMPLE)
    return time.thread_time() - started


@dataclass
class Turns:
    """CPU time of each iteration in seconds, which is the same on a busy machine."""

    taken: list[float] = field(default_factory=list)

    @property
    def longest(self) -> float:
        return max(self.taken, default=0.0)

    def measuring(self, run_once: Callable[P, None]) -> Callable[P, None]:
        """Return a function that runs one iteration and records its time."""

        def measured(*args: P.args, **kwargs: P.kwargs) -> None:
            started = time.thread_time()
            run_once(*args, **kwargs)
            cpu_s = time.thread_time() - started
            self.taken.append(cpu_s if cpu_s < MOST_S / 2 else unhurried_s(cpu_s))

        return measured


@asynccontextmanager
async def measured_turns() -> AsyncIterator[Turns]:
    loop: Any = asyncio.get_running_loop()
    turns = Turns()
    gc.freeze()
    loop._run_once = turns.measuring(loop._run_once)
    await asyncio.sleep(0)  # this iteration started before
    try:
        yield turns
        await asyncio.sleep(0)
    finally:
        del loop._run_once
        gc.unfreeze()


async def in_short_turns(work: Callable[[], Awaitable[T]]) -> T:
    """Run some work and return its result, if no iteration of the event loop took long.

    Long iterations are measured again: beside four busy loops, an iteration of 0.04 s once took
    0.066 s. Raises AssertionError with the longest iteration of each measurement.
    """

    async def measure() -> tuple[T, float]:
        async with measured_turns() as turns:
            done = await work()
        return done, turns.longest

    return await measured_anew(measure)


async def measured_anew(measure: Callable[[], Awaitable[tuple[T, float]]]) -> T:
    """Repeat until it took less than MOST_S; return the result. Raises AssertionError."""
    longest = []
    for _ in range(MEASUREMENTS):
        done, longest_s = await measure()
        if longest_s < MOST_S:
            return done
        longest.append(longest_s)
    raise AssertionError(f"over {MOST_S} s of CPU time in each measurement: {longest}")
