"""CPU share of other programs during an experiment."""

import os
import resource
import time
from pathlib import Path

from benchmarks.bench import Bench


class MachineUse:
    """CPU use of other programs since creation."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._began = time.monotonic()
        self._busy_s, self._steal_s = _machine_s()
        self._own_s = _own_s(bench)

    def text(self) -> str:
        """Return the share of other programs; call it after our processes have ended."""
        busy_s, steal_s = _machine_s()
        whole_s = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        foreign_s = max(0.0, busy_s - self._busy_s - (_own_s(self._bench) - self._own_s))
        steal = (steal_s - self._steal_s) / whole_s
        return f"Foreign CPU {foreign_s / whole_s:.1%}, steal {steal:.1%} of the machine."


def _machine_s() -> tuple[float, float]:
    """Return the busy and stolen seconds of all processors."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = (int(field_) / tick for field_ in first[1:9])
    return user + nice + system + irq + softirq, steal


def _own_s(bench: Bench) -> float:
    """Return the CPU time of this process, its ended children, and the load generator."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(it.ru_utime + it.ru_stime for it in used) + bench.load_cpu_s()
