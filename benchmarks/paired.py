"""Paired measurements of two alternatives, with ratios and confidence intervals.

Both are measured in each round, so a slow machine affects both. The order is shuffled and the
intervals are bootstrapped, both with a seed for repeatability.
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
"""Computes the compared figure of one round from ours and the other."""


def cpu_ratio(ours: Measured, other: Measured) -> float:
    """Return the ratio of CPU per call."""
    return ours.cpu_ms / other.cpu_ms


def added_p50_ms(ours: Measured, other: Measured) -> float:
    """Return the added latency of our calls."""
    return ours.p50_ms - other.p50_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Calls to one server, sent by the default load generator or ``load``."""

    server: Process
    job: Job
    load: Generator | None = None
    warm_up_share: float = 0.2
    """Calls sent before the measurement, as a share of the measured ones."""

    def measure(self, bench: Bench) -> Measured:
        """Measure the calls after a warm-up."""
        warm_up = replace(self.job, calls=max(20, int(self.job.calls * self.warm_up_share)))
        bench.measure(self.server, warm_up, self.load)
        return bench.measure(self.server, self.job, self.load)


@dataclass(slots=True, kw_only=True)
class Comparison:
    """A comparison whose ``figure`` should be at most ``limit``."""

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
        """The median of the rounds' figures with its interval."""
        name = f"{self.name}, {at_connections(self.ours.job.connections)}"
        return target_of(name, self.limit, self.figures, self.unit)


def measure_by_turns(
    bench: Bench, comparisons: Sequence[Comparison], rounds: int, first: int = 0
) -> None:
    """Add ``rounds`` measurements to each comparison; ``first`` rounds were measured before."""
    random = Random(SEED + first)  # noqa: S311 - an order, not a secret
    for number in range(first, first + rounds):
        bench.show_progress(f"  round {number + 1} of {bench.sizes.ratio_rounds}")
        for comparison in random.sample(comparisons, len(comparisons)):
            measured: dict[bool, Measured] = {}
            for is_ours in random.sample((True, False), 2):
                turn = comparison.ours if is_ours else comparison.other
                measured[is_ours] = turn.measure(bench)
            comparison.turns.append((measured[True], measured[False]))


def table_of(title: str, comparisons: Sequence[Comparison]) -> Result:
    """Build the table of both alternatives' costs, with the targets."""
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
    """Return the 95 % interval of the median by percentile bootstrap."""
    random = Random(SEED)  # noqa: S311 - samples, not secrets
    found = sorted(
        statistics.median(random.choices(figures, k=len(figures))) for _ in range(RESAMPLES)
    )
    return found[int(RESAMPLES * 0.025)], found[int(RESAMPLES * 0.975) - 1]
