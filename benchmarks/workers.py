"""Throughput of ``serve --workers 2`` with its private Redis relative to one process."""

from contextlib import ExitStack

from benchmarks.bench import Bench, Measured, medians
from benchmarks.echo_calls import echo_gateway, executed, posted
from benchmarks.facade_messages import DOC_ID
from benchmarks.messages import OK, section_calls
from benchmarks.paired import Comparison, measure_by_turns
from benchmarks.report import Result
from benchmarks.servers import fleet

SETTINGS = {"MCP_PROXY_WORKERS": "2", "MCP_PROXY_LOG_LEVEL": "info"}
CONNECTIONS = 64
LIMIT = 0.77
"""A gain of 1.3, with the load generator and Redis on the same two CPUs."""
_CALLS = 4
"""Times as many calls as in other experiments: they are many times faster."""


def measure_workers(bench: Bench) -> Result:
    """Measure document and downstream calls of one process and of two workers in turn."""
    calls = bench.sizes.ratio_calls * _CALLS
    with ExitStack() as stack:
        (downstream,) = stack.enter_context(fleet(bench.workdir))
        one = stack.enter_context(echo_gateway(bench, "one", downstream, DOC_ID))
        two = stack.enter_context(echo_gateway(bench, "two", downstream, DOC_ID, settings=SETTINGS))
        sections = section_calls(DOC_ID)
        comparisons = [
            Comparison(
                name=f"seconds of {name}, two workers / one process",
                limit=LIMIT,
                ours=ours,
                other=other,
                figure=_slowness,
            )
            for name, ours, other in (
                (
                    "document calls",
                    posted(two, sections, OK, CONNECTIONS, calls),
                    posted(one, sections, OK, CONNECTIONS, calls),
                ),
                (
                    "downstream calls",
                    executed(two, CONNECTIONS, calls),
                    executed(one, CONNECTIONS, calls),
                ),
            )
        ]
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    result = Result(
        "Calls per second of two workers with a private Redis, and of one process",
        ("what", "two workers", "one process"),
        targets=[it.target for it in comparisons],
    )
    for it in comparisons:
        ours, other = (medians([turn[side] for turn in it.turns]).calls_per_s for side in (0, 1))
        result.rows.append((it.name, f"{ours:.0f}", f"{other:.0f}"))
    return result


def _slowness(two: Measured, one: Measured) -> float:
    return one.calls_per_s / two.calls_per_s
