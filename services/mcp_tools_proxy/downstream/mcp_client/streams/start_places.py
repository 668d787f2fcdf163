"""Places for starting stdio servers: 30 cold ``npx`` starts at once on 2 cores killed each other.

A place is for the start alone: a server that has sent its first byte needs none.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

PLACES_PER_CORE = 2
IDLE_S = 15.0
IDLE_CPU_S = 1.0
"""A start that used less CPU than this in IDLE_S waits for something other than the cores."""

_SAMPLES = 5
"""How often in IDLE_S the CPU is read."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class StartPlaces:
    """As many starts at once as the cores can run; ``cpu_s`` returns the CPU time of a process.

    ``count`` is 2 × cores by default.
    """

    def __init__(
        self,
        count: int | None = None,
        cpu_s: Callable[[int], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.count = count or PLACES_PER_CORE * _cores()
        self._free = asyncio.Semaphore(self.count)
        self._cpu_s = cpu_s or cpu_of_tree
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<StartPlaces {self.count} full={self._free.locked()}>"

    async def acquire(self) -> Callable[[], None]:
        """Wait for a place; return the function that gives it up, which may be called again."""
        await self._free.acquire()
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._free.release()

        return release

    async def wait_idle(self, pid: int) -> None:
        """Wait until the tree of a process used less than IDLE_CPU_S in the last IDLE_S."""
        used = deque([self._cpu_s(pid)], maxlen=_SAMPLES + 1)
        while True:
            await self._sleep(IDLE_S / _SAMPLES)
            used.append(self._cpu_s(pid))
            if len(used) > _SAMPLES and used[-1] - used[0] < IDLE_CPU_S:
                return


def cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, ended ones included.

    0.0 where there is no /proc.
    """
    seconds, found = 0.0, [pid]
    while found:
        process = found.pop()
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{process}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
            seconds += sum(map(int, fields[11:15])) / _TICKS_PER_S  # utime stime cutime cstime
            found += _children_of(process)
    return seconds


def _children_of(process: int) -> Sequence[int]:
    children: list[int] = []
    for thread in os.listdir(f"/proc/{process}/task"):
        with (
            suppress(OSError),
            open(f"/proc/{process}/task/{thread}/children") as listed,
        ):
            children += map(int, listed.read().split())
    return children


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
