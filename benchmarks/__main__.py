"""The command ``python -m benchmarks [--quick] [NAME …]``; ``--help`` lists the names."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.batches import measure_batches
from benchmarks.before import measure_before
from benchmarks.bench import FULL, QUICK, Bench, open_bench
from benchmarks.endurance import measure_endurance
from benchmarks.floods import measure_floods
from benchmarks.idempotency import measure_idempotency
from benchmarks.log_line import measure_log_line
from benchmarks.machine_use import MachineUse
from benchmarks.mcp_lists import measure_mcp_lists
from benchmarks.new_clients import measure_new_clients
from benchmarks.ratios import measure_ratios
from benchmarks.redis_budgets import measure_redis_budgets
from benchmarks.report import Result, facts, load_average, summary
from benchmarks.sessions import measure_sessions
from benchmarks.start import measure_start
from benchmarks.stdio_in import measure_stdio_in
from benchmarks.steady import measure_steady
from benchmarks.tenant_searches import measure_tenant_searches
from benchmarks.workers import measure_workers

EXPERIMENTS: Mapping[str, Callable[[Bench], Result]] = {
    "ratios": measure_ratios,
    "batches": measure_batches,
    "stdio-in": measure_stdio_in,
    "keys": measure_idempotency,
    "redis-budgets": measure_redis_budgets,
    "workers": measure_workers,
    "tenant-searches": measure_tenant_searches,
    "sessions": measure_sessions,
    "start": measure_start,
    "steady": measure_steady,
    "endurance": measure_endurance,
    "log-line": measure_log_line,
    "mcp-lists": measure_mcp_lists,
    "new-clients": measure_new_clients,
    "floods": measure_floods,
}

LONG = "endurance takes about four minutes by itself."


def main() -> int:
    """Run the requested experiments; return 1 if a response was wrong."""
    arguments = _arguments()
    experiments = dict(EXPERIMENTS)
    if arguments.before is not None:
        experiments["before"] = partial(measure_before, program=arguments.before)
    names = arguments.names or list(experiments)
    began, load_at_begin = time.perf_counter(), load_average()
    print(f"# Benchmarks\n\n{facts()}\n")
    with (
        tempfile.TemporaryDirectory(prefix="mcp-tools-proxy-bench-") as workdir,
        open_bench(Path(workdir), QUICK if arguments.quick else FULL) as bench,
    ):
        results: dict[str, Result] = {}
        for name in names:
            bench.show_progress(name)
            use = MachineUse(bench)
            results[name] = experiments[name](bench)
            results[name].notes.append(use.text())
            print(results[name].markdown() + "\n", flush=True)
    print(summary(results) + "\n")
    took = time.perf_counter() - began
    print(
        f"Wrong answers: {bench.errors}. Load average {load_at_begin} at the begin, "
        f"{load_average()} at the end; took {took:.0f} s."
    )
    return 1 if bench.errors else 0


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, epilog=LONG)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="PROGRAM",
        help="an older mcp-tools-proxy; makes an experiment more, before, which compares with it",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parsed = parser.parse_args(argv)
    known = [*EXPERIMENTS, *["before"] * (parsed.before is not None)]
    if unknown := set(parsed.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return parsed


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops started processes
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
