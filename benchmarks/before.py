"""Comparison with an older gateway, to detect gradual losses."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.echo_calls import called_over_mcp, echo_configuration, executed, posted
from benchmarks.facade_messages import DOC_ID, Way, opened_ways, read_over_mcp
from benchmarks.fleet import wait_until_ready
from benchmarks.messages import OK, section_calls
from benchmarks.paired import CONNECTIONS, Comparison, Turn, measure_by_turns, table_of
from benchmarks.report import Result
from benchmarks.servers import GATEWAY, Server, fleet, gateway

LIMIT = 1.02
"""A median of 15 rounds is rarely more precise."""

ROUNDS_OF_A_START = 3
"""Rounds before both gateways are restarted. The memory layout of a process makes its calls up to 5
% faster or slower for its lifetime: the same program compared with itself had 0.93 to 1.07.
"""


def measure_before(bench: Bench, program: Path) -> Result:
    """Measure calls of this gateway and of ``program``, an older one."""
    with fleet(bench.workdir) as (downstream,):
        settings = echo_configuration(bench.workdir / "before-config", downstream)
        documents = bench.folder("before", DOC_ID)
        found: Sequence[Comparison] = []
        total = bench.sizes.ratio_rounds
        for first in range(0, total, ROUNDS_OF_A_START):
            with ExitStack() as stack:
                ours, older = (
                    stack.enter_context(gateway(bench.workdir, documents, settings, program=one))
                    for one in (GATEWAY, str(program))
                )
                for server in (ours, older):
                    wait_until_ready(server, 1)
                comparisons = _comparisons(bench, ours, older)
                for comparison, before in zip(comparisons, found, strict=bool(found)):
                    comparison.turns = before.turns
                measure_by_turns(bench, comparisons, min(ROUNDS_OF_A_START, total - first), first)
            found = comparisons
    return table_of("CPU of a call, beside an older gateway", found)


def _comparisons(bench: Bench, ours: Server, older: Server) -> Sequence[Comparison]:
    our_ways, older_ways = opened_ways(ours), opened_ways(older)
    found = []
    for connections in CONNECTIONS:
        calls = bench.sizes.ratio_calls_at(connections)
        older_turns = _turns(older, older_ways, connections, calls)
        found += [
            Comparison(name=f"{name} / before", limit=LIMIT, ours=turn, other=older_turns[name])
            for name, turn in _turns(ours, our_ways, connections, calls).items()
        ]
    return found


def _turns(
    server: Server, ways: Mapping[str, Way], connections: int, calls: int
) -> Mapping[str, Turn]:
    """Return the calls to one gateway by name."""
    turns = {
        "read_doc_section": posted(server, section_calls(DOC_ID), OK, connections, calls),
        "downstream call": executed(server, connections, calls),
    }
    for era, way in ways.items():
        turns[f"read_doc_section over MCP ({era})"] = read_over_mcp(way, connections, calls)
        turns[f"downstream call over MCP ({era})"] = called_over_mcp(way, connections, calls)
    return turns
