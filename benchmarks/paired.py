"""Two ways to do the same, measured by turns: what one costs of the other, and how sure that is.

Both turns of a comparison are in one round, so what slows the machine slows both. The order is
shuffled, and the interval is a bootstrap's; both by a seed, so that a run can be repeated.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from benchmarks.bench import Bench, Measured, medians
from benchmarks.generator import Generator
from benchmarks.load import Job
from benchmarks.process import Process
from benchmarks.report import Result, Target, at_connections

SEED = 20_260_728
RESAMPLES = 2_000
CONNECTIONS = (1, 32)
HEADER = ("what", "connections", "CPU ms", "other's", "p50 ms", "other's")

Figure = Callable[[Measured, Measured], float]
"""Computes what is compared of one round: of ours, and of the other."""


def cpu_ratio(ours: Measured, other: Measured) -> float:
    """Return the CPU of a call of ours, divided by that of the other."""
    return ours.cpu_ms / other.cpu_ms


def added_p50_ms(ours: Measured, other: Measured) -> float:
    """Return by how much longer a call of ours takes."""
    return ours.p50_ms - other.p50_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Calls of one server: as many as ``job`` has, sent by the usual generator or by ``load``."""

    server: Process
    job: Job
    load: Generator | None = None
    warm_up_share: float = 0.2
    """Calls that are sent before it, as a share of those that are measured."""

    def measure(self, bench: Bench) -> Measured:
        """Measure them, warmed up before."""
        warm_up = replace(self.job, calls=max(20, int(self.job.calls * self.warm_up_share)))
        bench.measure(self.server, warm_up, self.load)
        return bench.measure(self.server, self.job, self.load)


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The ``figure`` of ``ours`` and the ``other`` should be at most ``limit``."""

    name: str
    limit: float
    ours: Turn
    other: Turn
    figure: Figure = cpu_ratio
    unit: str = "x"
    turns: list[tuple[Measured, Measured]] = field(default_factory=list)

    @property
    def figures(self) -> Sequence[float]:
        """The figure of each round."""
        return [self.figure(ours, other) for ours, other in self.turns]

    @property
    def target(self) -> Target:
        """The median of the rounds' figures, and its interval."""
        name = f"{self.name}, {at_connections(self.ours.job.connections)}"
        return target_of(name, self.limit, self.figures, self.unit)


def measure_by_turns(
    bench: Bench, comparisons: Sequence[Comparison], rounds: int, first: int = 0
) -> None:
    """Add ``rounds`` turns to each comparison, each warmed up; ``first`` were measured before."""
    random = Random(SEED + first)  # noqa: S311 - an order, no secret
    for number in range(first, first + rounds):
        bench.show_progress(f"  round {number + 1} of {bench.sizes.ratio_rounds}")
        for comparison in random.sample(comparisons, len(comparisons)):
            measured: dict[bool, Measured] = {}
            for is_ours in random.sample((True, False), 2):
                turn = comparison.ours if is_ours else comparison.other
                measured[is_ours] = turn.measure(bench)
            comparison.turns.append((measured[True], measured[False]))


def table_of(title: str, comparisons: Sequence[Comparison]) -> Result:
    """Build the table of what both sides cost, and the targets."""
    result = Result(title, HEADER, targets=[comparison.target for comparison in comparisons])
    for comparison in comparisons:
        ours, other = (medians([turn[side] for turn in comparison.turns]) for side in (0, 1))
        result.rows.append(
            (
                comparison.name,
                str(comparison.ours.job.connections),
                f"{ours.cpu_ms:.3f}",
                f"{other.cpu_ms:.3f}",
                f"{ours.p50_ms:.2f}",
                f"{other.p50_ms:.2f}",
            )
        )
    return result


def target_of(name: str, limit: float, figures: Sequence[float], unit: str = "x") -> Target:
    """Build the target for the median of the rounds' figures."""
    return Target(
        name=name,
        limit=limit,
        measured=statistics.median(figures),
        unit=unit,
        interval=interval(figures),
    )


def interval(figures: Sequence[float]) -> tuple[float, float]:
    """Return the bounds between which the median is with 95 %: a percentile bootstrap."""
    random = Random(SEED)  # noqa: S311 - samples, no secret
    found = sorted(
        statistics.median(random.choices(figures, k=len(figures))) for _ in range(RESAMPLES)
    )
    return found[int(RESAMPLES * 0.025)], found[int(RESAMPLES * 0.975) - 1]
