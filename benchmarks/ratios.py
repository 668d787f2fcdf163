"""Costs of the gateway's policy: its interfaces compared with equivalents without policy."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.echo import ECHO
from benchmarks.echo_calls import (
    TEXTS,
    TOOL,
    called_directly,
    called_over_mcp,
    echo_gateway,
    executed,
    posted,
)
from benchmarks.facade_messages import (
    DOC_ID,
    SECTIONS,
    STREAM_PATH,
    Way,
    opened,
    opened_ways,
    read_over_mcp,
    read_section,
    wait_for,
)
from benchmarks.messages import EXECUTE, JSON_RPC, OK, call, section_calls
from benchmarks.paired import (
    CONNECTIONS,
    Comparison,
    added_p50_ms,
    measure_by_turns,
    table_of,
)
from benchmarks.report import Result
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import bare, fleet, forwarder, sdk_server

DOCUMENT_LIMIT = 1.2
FORWARDER_LIMITS = {1: 1.1, 32: 0.9}
SDK_LIMIT = 0.7
ADDED_LIMIT_MS = 0.5
MCP_LIMITS = {"2026-07-28": 1.1, "2025-11-25, JSON": 1.15, "2025-11-25, events": 1.15}


def measure_ratios(bench: Bench) -> Result:
    """Measure all pairs; budgets, log and metrics of the gateway are active."""
    with ExitStack() as stack:
        comparisons = _start(bench, stack)
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    result = table_of("CPU of a call, beside what does the same without policy", comparisons)
    result.notes.append(
        f"{bench.sizes.ratio_rounds} rounds, shuffled; the CPU is that of the server alone."
    )
    return result


def _start(bench: Bench, stack: ExitStack) -> Sequence[Comparison]:
    (downstream,) = stack.enter_context(fleet(bench.workdir))
    service = stack.enter_context(echo_gateway(bench, "ratios", downstream, DOC_ID))
    url = f"http://127.0.0.1:{downstream.port}{MODERN_PATH}"
    forwarding = stack.enter_context(forwarder(bench.workdir, url))
    forwarding.wait_for(call(ECHO, text=TEXTS[0]), expected=JSON_RPC)
    sections = section_calls(DOC_ID)
    fastapi = stack.enter_context(
        bare("fastapi", bench.workdir, service.request(EXECUTE, sections[0]))
    )
    fastapi.wait_for(sections[0])
    ways = opened_ways(service)
    sdk = _sdk_ways(bench, stack, ways["2026-07-28"])
    comparisons = []
    for connections in CONNECTIONS:
        calls = bench.sizes.ratio_calls_at(connections)
        echo = executed(service, connections, calls)
        comparisons += [
            Comparison(
                name="read_doc_section / bare FastAPI with pydantic",
                limit=DOCUMENT_LIMIT,
                ours=posted(service, sections, OK, connections, calls),
                other=posted(fastapi, sections, OK, connections, calls),
            ),
            Comparison(
                name="downstream call / forwarder without logic",
                limit=FORWARDER_LIMITS[connections],
                ours=echo,
                other=executed(forwarding, connections, calls, tool=ECHO, expected=JSON_RPC),
            ),
        ]
        for era, way in ways.items():
            comparisons += [
                Comparison(
                    name=f"downstream call over MCP ({era}) / over HTTP API",
                    limit=MCP_LIMITS[era],
                    ours=called_over_mcp(way, connections, calls),
                    other=echo,
                ),
                Comparison(
                    name=f"read_doc_section over MCP ({era}) / SDK's server",
                    limit=SDK_LIMIT,
                    ours=read_over_mcp(way, connections, calls),
                    other=read_over_mcp(sdk[era], connections, calls),
                ),
            ]
    comparisons.append(
        Comparison(
            name="downstream call, p50 added to a direct call",
            limit=ADDED_LIMIT_MS,
            ours=executed(service, 1, bench.sizes.ratio_calls),
            other=called_directly(downstream, 1, bench.sizes.ratio_calls),
            figure=added_p50_ms,
            unit="ms",
        )
    )
    return comparisons


def _sdk_ways(bench: Bench, stack: ExitStack, modern: Way) -> Mapping[str, Way]:
    """Start the SDK's server with the same results as the facade."""
    results = {name: read_section(modern, name)["structuredContent"] for name in SECTIONS}
    tools = [
        tool
        for tool in modern.request("tools/list", {})["tools"]  # type: ignore[attr-defined]
        if tool["name"] != TOOL
    ]
    sdk = stack.enter_context(sdk_server(bench.workdir, tools, results))
    wait_for(sdk)
    return {
        "2026-07-28": Way(server=sdk),
        "2025-11-25, JSON": opened(sdk),
        "2025-11-25, events": opened(sdk, STREAM_PATH, events=True),
    }
