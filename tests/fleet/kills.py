"""Kills random servers of the fleet during calls to all: ``python -m tests.fleet.kills [180]``.

It prints the results of calls to servers that were not killed, the recovery times of killed ones,
and the gateway's memory. Its exit code is 1 if a call to a server that was not killed failed.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx

from tests.fleet.gateway import Fleet, running_fleet
from tests.fleet.servers import SERVERS, fill
from tests.support.service import EXECUTE

PAUSE_S = 1.0
"""Pause between two calls of a server."""

KILL_EVERY_S = 3.0
USER = {"user_id": "u", "tenant_id": "tenant_1"}


@dataclass(slots=True)
class Target:
    """A server and its calls; ``killed_at`` is set until a later call is answered."""

    name: str
    expected: str = ""
    killed_at: float | None = None
    ends: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    lost_when_killed: list[str] = field(default_factory=list)
    away_s: list[float] = field(default_factory=list)

    def record(self, code: str, begun: float) -> None:
        """Record the result of a call; the first one is the expected result of all."""
        self.ends[code] += 1
        self.expected = self.expected or code
        if code != self.expected:
            (self.lost if self.killed_at is None else self.lost_when_killed).append(code)
        elif self.killed_at is not None and begun > self.killed_at:
            self.away_s.append(time.monotonic() - self.killed_at)
            self.killed_at = None


async def main(seconds: float) -> int:
    with running_fleet() as fleet:
        targets = [Target(name) for name in SERVERS]
        http = httpx.AsyncClient(base_url=fleet.values["url"], timeout=120)
        async with http, asyncio.TaskGroup() as tasks:
            ends = time.monotonic() + seconds
            for target in targets:
                tasks.create_task(call_until(ends, http, fleet, target))
            kills = tasks.create_task(kill_until(ends, fleet, targets))
            memory = tasks.create_task(measure_until(ends, fleet.program.process.pid))
        print_report(targets, kills.result(), memory.result())
    return 1 if any(target.lost for target in targets) else 0


async def call_until(ends: float, http: httpx.AsyncClient, fleet: Fleet, target: Target) -> None:
    """Repeat the last call of a server."""
    tool, arguments = SERVERS[target.name].calls[-1]
    filled = fill(arguments, folder=fleet.folder_of(target.name), **fleet.values)
    body = {"tool_name": f"{target.name}:{tool}", "arguments": filled, "user": USER}
    while time.monotonic() < ends:
        begun = time.monotonic()
        answer = (await http.post(EXECUTE, json=body)).json()
        target.record(answer["error"]["code"] if answer["status"] == "error" else "OK", begun)
        await asyncio.sleep(PAUSE_S)


async def kill_until(ends: float, fleet: Fleet, targets: list[Target]) -> int:
    """Kill the processes of a random server every few seconds; return the number of kills."""
    kills = 0
    while time.monotonic() < ends - KILL_EVERY_S:
        target = random.choice(targets)  # noqa: S311 - no secret
        for process in processes_in(Path(fleet.folder_of(target.name))):
            target.killed_at = time.monotonic()
            kills += 1
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)
        await asyncio.sleep(KILL_EVERY_S)
    return kills


def processes_in(folder: Path) -> list[int]:
    """Return descriptors of the processes that run in a folder: a server and its children."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cwd").readlink() == folder:
                found.append(os.pidfd_open(int(entry.name)))
    return found


async def measure_until(ends: float, pid: int) -> list[float]:
    """Return the memory of a process in MiB at each second."""
    memory = []
    while time.monotonic() < ends:
        memory.append(memory_mib(pid))
        await asyncio.sleep(1)
    return memory


def memory_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def print_report(targets: list[Target], kills: int, memory: list[float]) -> None:
    ends: Counter[str] = sum((target.ends for target in targets), Counter())
    away = sorted(seconds for target in targets for seconds in target.away_s)
    lost = sum(len(target.lost_when_killed) for target in targets)
    print(f"{ends.total()} calls: {dict(ends)}")
    print(f"{kills} processes killed; {lost} calls of their servers failed")
    if away:
        print(
            f"the first answer came after {median(away):.1f} s (median), {away[-1]:.1f} s at most"
        )
    for target in targets:
        if target.lost:
            print(f"{target.name}, not killed: {dict(Counter(target.lost))}")
    tenth = max(1, len(memory) // 10)
    parts = [memory[at : at + tenth] for at in range(0, len(memory), tenth)]
    print("memory in MiB, by tenths:", *(f"{sum(part) / len(part):.1f}" for part in parts))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(float(sys.argv[1] if len(sys.argv) > 1 else 180))))
