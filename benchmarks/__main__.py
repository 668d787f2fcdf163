"""The command line: ``python -m benchmarks [--quick] [NAME …]``; ``--help`` lists the names."""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.agents import measure_agent_lists, measure_agent_memory, measure_agents
from benchmarks.batches import measure_batches
from benchmarks.before import measure_before
from benchmarks.bench import FULL, QUICK, Bench, open_bench
from benchmarks.calls import measure_search, measure_sections
from benchmarks.command_line import check_names, run
from benchmarks.connections import measure_connections
from benchmarks.connector import measure_connector
from benchmarks.documents import measure_documents, measure_many_documents
from benchmarks.endurance import measure_endurance
from benchmarks.facade import measure_facade
from benchmarks.fleet import measure_fleet
from benchmarks.floods import measure_floods
from benchmarks.growth import measure_growth
from benchmarks.hostile import measure_bad_tokens, measure_unread_log
from benchmarks.idempotency import measure_idempotency
from benchmarks.identity import measure_identity
from benchmarks.indexing import measure_indexing
from benchmarks.limit_rules import measure_limit_rules
from benchmarks.listing import measure_lists, measure_switch
from benchmarks.log_line import measure_log_line
from benchmarks.machine_use import MachineUse
from benchmarks.mcp_lists import measure_mcp_lists
from benchmarks.memory import measure_memory
from benchmarks.narrowed_calls import measure_narrowed_calls
from benchmarks.new_clients import measure_new_clients
from benchmarks.quotes import measure_quotes
from benchmarks.ratios import measure_ratios
from benchmarks.redis_budgets import measure_redis_budgets
from benchmarks.relay import measure_relay
from benchmarks.report import Result, facts, load_average, summary
from benchmarks.server_tokens import measure_server_tokens
from benchmarks.start import measure_start
from benchmarks.stdio_in import measure_stdio_in
from benchmarks.steady import measure_steady
from benchmarks.tenant_searches import measure_tenant_searches
from benchmarks.traces import measure_traces

EXPERIMENTS: Mapping[str, Callable[[Bench], Result]] = {
    "ratios": measure_ratios,
    "batches": measure_batches,
    "stdio-in": measure_stdio_in,
    "narrowed": measure_narrowed_calls,
    "keys": measure_idempotency,
    "redis-budgets": measure_redis_budgets,
    "limit-rules": measure_limit_rules,
    "calls": measure_sections,
    "search": measure_search,
    "quotes": measure_quotes,
    "tenant-searches": measure_tenant_searches,
    "indexing": measure_indexing,
    "memory": measure_memory,
    "documents": measure_documents,
    "many-documents": measure_many_documents,
    "start": measure_start,
    "steady": measure_steady,
    "endurance": measure_endurance,
    "growth": measure_growth,
    "relay": measure_relay,
    "lists": measure_lists,
    "switch": measure_switch,
    "fleet": measure_fleet,
    "agents": measure_agents,
    "agent-lists": measure_agent_lists,
    "agent-memory": measure_agent_memory,
    "identity": measure_identity,
    "server-tokens": measure_server_tokens,
    "log-line": measure_log_line,
    "unread-log": measure_unread_log,
    "traces": measure_traces,
    "bad-tokens": measure_bad_tokens,
    "facade": measure_facade,
    "mcp-lists": measure_mcp_lists,
    "connector": measure_connector,
    "connections": measure_connections,
    "new-clients": measure_new_clients,
    "floods": measure_floods,
}

LONG = "endurance takes about four minutes by itself."


def main() -> int:
    """Run the experiments asked for; 1 when an answer was wrong."""
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
    check_names(parser, parsed.names, known)
    return parsed


if __name__ == "__main__":
    run(main)
