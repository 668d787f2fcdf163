"""Two ways to do the same, measured by turns: what one costs of the other, and how sure that is.

Both turns of a comparison are in one round, so what slows the machine slows both. The order is
shuffled, and the interval is a bootstrap's; both by a seed, so that a run can be repeated.
"""

import os
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.bench import Bench, Measured, medians
from benchmarks.load import Job
from benchmarks.report import Result
from benchmarks.servers import Server

SEED = 20_260_728
RESAMPLES = 2_000
HEADER = (
    "what",
    "connections",
    "at most",
    "ratio",
    "95 % interval",
    "CPU ms",
    "other's",
    "p50 ms",
    "other's",
    "holds",
)

_WARM_UP = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Calls of one server: as many as ``job`` has."""

    server: Server
    job: Job


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The CPU of ``ours`` for a call, divided by that of ``other``, should be at most ``limit``."""

    name: str
    limit: float
    ours: Turn
    other: Turn
    turns: list[tuple[Measured, Measured]] = field(default_factory=list)

    @property
    def finding(self) -> "Finding":
        """The median of the rounds' ratios, and its interval."""
        ratios = [ours.cpu_ms / other.cpu_ms for ours, other in self.turns]
        low, high = interval(ratios)
        return Finding(statistics.median(ratios), low, high, self.limit)


class Finding(NamedTuple):
    """A ratio, the interval that has it with 95 %, and what it should be at most."""

    ratio: float
    low: float
    high: float
    limit: float

    @property
    def verdict(self) -> str:
        """Whether the limit holds: no, if the whole interval is above it."""
        if self.low > self.limit:
            return "NO"
        margin = abs(self.limit - 1) or self.limit
        return (
            "not resolved"
            if self.high - self.low > margin / 2 and self.high > self.limit
            else "yes"
        )


class MachineUse:
    """What else used the machine since this was created."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy_s, self._steal_s = _machine_s()
        self._own_s = _own_s()

    def text(self) -> str:
        """Return the share of the machine that others used, once our processes have ended."""
        busy_s, steal_s = _machine_s()
        whole_s = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        foreign_s = max(0.0, busy_s - self._busy_s - (_own_s() - self._own_s))
        steal = (steal_s - self._steal_s) / whole_s
        return f"Foreign CPU {foreign_s / whole_s:.1%}, steal {steal:.1%} of the machine."


def measure_by_turns(
    bench: Bench, comparisons: Sequence[Comparison], rounds: int, warm_up_share: float = _WARM_UP
) -> None:
    """Add ``rounds`` turns to each comparison, each warmed up before by a share of its calls."""
    random = Random(SEED)  # noqa: S311 - an order, no secret
    for number in range(rounds):
        bench.show_progress(f"  ratios: round {number + 1} of {rounds}")
        for comparison in random.sample(comparisons, len(comparisons)):
            measured: dict[bool, Measured] = {}
            for is_ours in random.sample((True, False), 2):
                turn = comparison.ours if is_ours else comparison.other
                warm_up = replace(turn.job, calls=max(20, int(turn.job.calls * warm_up_share)))
                bench.measure(turn.server, warm_up)
                measured[is_ours] = bench.measure(turn.server, turn.job)
            comparison.turns.append((measured[True], measured[False]))


def table_of(title: str, comparisons: Sequence[Comparison]) -> Result:
    """Build the table, what falls short first."""
    result = Result(title, HEADER)
    order = {"NO": 0, "not resolved": 1, "yes": 2}
    for comparison in sorted(comparisons, key=lambda it: order[it.finding.verdict]):
        found = comparison.finding
        ours = medians([turn[0] for turn in comparison.turns])
        other = medians([turn[1] for turn in comparison.turns])
        result.rows.append(
            (
                comparison.name,
                str(comparison.ours.job.connections),
                f"{found.limit:g}",
                f"{found.ratio:.2f}",
                f"{found.low:.2f}-{found.high:.2f}",
                f"{ours.cpu_ms:.3f}",
                f"{other.cpu_ms:.3f}",
                f"{ours.p50_ms:.2f}",
                f"{other.p50_ms:.2f}",
                found.verdict,
            )
        )
    return result


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the bounds between which the median is with 95 %: a percentile bootstrap."""
    random = Random(SEED)  # noqa: S311 - samples, no secret
    found = sorted(
        statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return found[int(RESAMPLES * 0.025)], found[int(RESAMPLES * 0.975) - 1]


def _machine_s() -> tuple[float, float]:
    """Return for how long all processors were busy, and were another machine's."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = (int(field_) / tick for field_ in first[1:9])
    return user + nice + system + irq + softirq, steal


def _own_s() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(it.ru_utime + it.ru_stime for it in used)
