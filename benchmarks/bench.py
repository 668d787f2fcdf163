"""Shared environment of the experiments: load generator, folder and run sizes."""

import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import Corpus, make_corpus
from benchmarks.generator import Generator, generator
from benchmarks.load import Job, Outcome
from benchmarks.process import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Numbers of measurements."""

    rounds: int
    relay_rounds: int
    relay_calls: int
    list_calls: int
    pages: int
    indexings: int
    starts: int
    ratio_rounds: int
    ratio_calls: int
    steady_s: float
    log_lines: int
    endurance_calls: int
    tenant_documents: int

    def ratio_calls_at(self, connections: int) -> int:
        """Return the calls per turn; more with many connections, because they are faster."""
        return self.ratio_calls * (1 if connections == 1 else 2)


FULL = Sizes(
    rounds=5,
    relay_rounds=11,
    relay_calls=400,
    list_calls=20,
    pages=2_000,
    indexings=4,
    starts=15,
    ratio_rounds=15,
    ratio_calls=1_500,
    steady_s=10.0,
    log_lines=3_200,
    endurance_calls=1_000_000,
    tenant_documents=300,
)
QUICK = Sizes(
    rounds=2,
    relay_rounds=2,
    relay_calls=100,
    list_calls=5,
    pages=200,
    indexings=2,
    starts=2,
    ratio_rounds=5,
    ratio_calls=1_200,
    steady_s=3.0,
    log_lines=640,
    endurance_calls=30_000,
    tenant_documents=40,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Costs of a candidate: server CPU per call and latencies, in milliseconds."""

    cpu_ms: float
    p50_ms: float
    p99_ms: float
    calls_per_s: float
    errors: int = 0


class NoAnswers(Exception):
    """The load generator received no responses."""


class Bench:
    """Runs load against servers and counts wrong responses."""

    def __init__(self, load: Generator, workdir: Path, sizes: Sizes) -> None:
        self._load = load
        self.workdir = workdir
        self.sizes = sizes
        self.corpus: Corpus = make_corpus(sizes.pages)
        self.errors = 0

    def show_progress(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def folder(self, name: str, *doc_ids: str) -> Path:
        """Build a documents folder with these documents."""
        folder = self.workdir / name
        folder.mkdir()
        self.corpus.write(folder, *doc_ids)
        return folder

    def begin(self, job: Job) -> None:
        """Start a job on the load generator; ``finish`` must follow."""
        self._load.begin(job)

    def finish(self) -> Outcome:
        """Wait for the job's outcome and count its errors."""
        return self._counted(self._load.finish())

    def run(self, job: Job, load: Generator | None = None) -> Outcome:
        """Run one job on the default load generator or ``load``."""
        load = load or self._load
        load.begin(job)
        return self._counted(load.finish())

    def measure(self, server: Process, job: Job, load: Generator | None = None) -> Measured:
        """Run a job limited by calls, and measure the cost for ``server``."""
        before = server.cpu_s()
        outcome = self.run(job, load)
        cpu_s = server.cpu_s() - before
        return Measured(
            cpu_ms=cpu_s * 1000 / job.calls,
            p50_ms=percentile(outcome.times, 50) * 1000,
            p99_ms=percentile(outcome.times, 99) * 1000,
            calls_per_s=len(outcome.times) / outcome.wall_s,
            errors=outcome.errors,
        )

    def load_cpu_s(self) -> float:
        """Return the CPU time of the load generator so far."""
        return self._load.cpu_s()

    def _counted(self, outcome: Outcome) -> Outcome:
        self.errors += outcome.errors
        if outcome.errors:
            self.show_progress(f"  {outcome.errors} errors, the first: {outcome.first_error}")
        if not outcome.times:
            raise NoAnswers("the load generator got no answer at all")
        return outcome


@contextmanager
def open_bench(workdir: Path, sizes: Sizes) -> Iterator[Bench]:
    """Run the load generator."""
    with generator("benchmarks.load") as load:
        yield Bench(load, workdir, sizes)


def percentile(values: list[float], percent: float) -> float:
    """Return the value that ``percent`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def between(outcome: Outcome, started: float, ended: float) -> list[float]:
    """Return the durations of calls that overlap an interval."""
    calls = zip(outcome.starts, outcome.times, strict=True)
    return [took for begun, took in calls if begun < ended and begun + took > started]


def medians(rounds: list[Measured]) -> Measured:
    """Return the medians and the sum of errors."""
    return Measured(
        cpu_ms=statistics.median(r.cpu_ms for r in rounds),
        p50_ms=statistics.median(r.p50_ms for r in rounds),
        p99_ms=statistics.median(r.p99_ms for r in rounds),
        calls_per_s=statistics.median(r.calls_per_s for r in rounds),
        errors=sum(r.errors for r in rounds),
    )
