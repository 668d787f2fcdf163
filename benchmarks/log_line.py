"""CPU of a call's log line, through the log's writer thread and written directly."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.bench import Bench
from benchmarks.log_load import AT_ONCE, DIRECT, THREAD, figure_name
from benchmarks.paired import target_of
from benchmarks.report import Result
from benchmarks.servers import ROOT

LIMIT_US = 12.0
DIRECT_LIMIT = 1.1

_WAYS = 2 * len(AT_ONCE)


def measure_log_line(bench: Bench) -> Result:
    """Measure log lines of a downstream call in a separate process, written to a pipe."""
    rounds, lines = bench.sizes.ratio_rounds, bench.sizes.log_lines
    found = _measure(bench, rounds, lines)
    result = Result(
        "The log line of a call, encoding included",
        ("written", "tasks that log at once", "CPU us"),
        [
            (name, str(at_once), f"{statistics.median(_figures(found, name, at_once)):.1f}")
            for name in (THREAD, DIRECT)
            for at_once in AT_ONCE
        ],
    )
    one, many = AT_ONCE
    pairs = zip(_figures(found, THREAD, one), _figures(found, DIRECT, one), strict=True)
    result.targets = [
        target_of(
            f"CPU of a line, {many} tasks", LIMIT_US, _figures(found, THREAD, many), unit="us"
        ),
        target_of(
            f"CPU / direct write's, {one} task",
            DIRECT_LIMIT,
            [threaded / direct for threaded, direct in pairs],
        ),
    ]
    return result


def _measure(bench: Bench, rounds: int, lines: int) -> Sequence[Mapping[str, float]]:
    file = bench.workdir / "log-line.json"
    command = [sys.executable, "-m", "benchmarks.log_load", str(rounds), str(lines), str(file)]
    with subprocess.Popen(command, cwd=ROOT, env={}, stdout=subprocess.PIPE) as process:  # noqa: S603 - our program
        assert process.stdout is not None
        written = 0
        while data := os.read(process.stdout.fileno(), 65536):
            written += data.count(b"\n")
    assert process.returncode == 0
    assert written == (rounds + 1) * _WAYS * lines, written
    found: Sequence[Mapping[str, float]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _figures(found: Sequence[Mapping[str, float]], name: str, at_once: int) -> Sequence[float]:
    return [each[figure_name(name, at_once)] for each in found]
