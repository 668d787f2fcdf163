"""read_doc_section through the MCP facade, beside the SDK's own server with the tool in process."""

import json
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bench import Bench, Measured, medians
from benchmarks.calls import CONNECTIONS
from benchmarks.facade_messages import (
    SECTION_TOOL,
    SECTIONS,
    STREAM_PATH,
    Way,
    opened,
    section_messages,
    wait_for,
)
from benchmarks.load import Job
from benchmarks.paired import Turn
from benchmarks.report import Result, Target, at_connections
from benchmarks.servers import gateway, sdk_server

HEADER = ("candidate", "connections", "CPU ms/call", "p50 ms", "p99 ms", "CPU / SDK's server")
LIMIT = 1.3

DOC_ID = "big-0"
_WARM_UP = 0.4
_FOR_INFORMATION = "2025-11-25, events"


@dataclass(frozen=True, slots=True)
class _Pair:
    """One way to speak to the facade, and the same to the SDK's server."""

    facade: Way
    sdk: Way


_Key = tuple[str, int]
_Rounds = Mapping[_Key, list[tuple[Measured, Measured]]]


def measure_facade(bench: Bench) -> Result:
    """Measure both by turns, each warmed up before its turn; all logging and metrics are on."""
    calls = bench.sizes.relay_calls
    with ExitStack() as stack:
        pairs, answer_bytes = _start(bench, stack)
        rounds: _Rounds = {(name, connections): [] for connections in CONNECTIONS for name in pairs}
        for number in range(bench.sizes.relay_rounds):
            bench.show_progress(f"  facade: round {number + 1} of {bench.sizes.relay_rounds}")
            for (name, connections), found in rounds.items():
                pair = pairs[name]
                ours = _measured(bench, pair.facade, connections, calls)
                found.append((ours, _measured(bench, pair.sdk, connections, calls)))
    return _report(
        rounds, f"{SECTION_TOOL} over MCP, a result of {answer_bytes} bytes, given twice"
    )


def _start(bench: Bench, stack: ExitStack) -> tuple[Mapping[str, _Pair], int]:
    """Start both; the SDK's server gives the results that the facade gave."""
    documents = bench.folder("facade", DOC_ID)
    service = stack.enter_context(gateway(bench.workdir, documents))
    wait_for(service)
    modern = Way(server=service)
    sections = {name: read_section(modern, name) for name in SECTIONS}
    results = {name: result["structuredContent"] for name, result in sections.items()}
    tools = modern.request("tools/list", {})["tools"]
    sdk = stack.enter_context(sdk_server(bench.workdir, tools, results))
    wait_for(sdk)
    for name, result in sections.items():
        other = read_section(Way(server=sdk), name)
        assert all(other[key] == result[key] for key in ("content", "structuredContent")), name
    pairs = {
        "2026-07-28": _Pair(modern, Way(server=sdk)),
        "2025-11-25": _Pair(opened(service), opened(sdk)),
        _FOR_INFORMATION: _Pair(
            opened(service, events=True), opened(sdk, STREAM_PATH, events=True)
        ),
    }
    return pairs, len(json.dumps(results["s1"], ensure_ascii=False).encode())


def read_section(way: Way, section_id: str) -> dict[str, object]:
    """Return the result that a server gives for one section."""
    params = {"name": SECTION_TOOL, "arguments": {"doc_id": DOC_ID, "section_id": section_id}}
    return way.request("tools/call", params, SECTION_TOOL)


def _measured(bench: Bench, way: Way, connections: int, calls: int) -> Measured:
    bench.measure(way.server, section_job(way, connections, int(calls * _WARM_UP)))
    return bench.measure(way.server, section_job(way, connections, calls))


def read_over_mcp(way: Way, connections: int, calls: int) -> Turn:
    """Read sections over MCP."""
    return Turn(server=way.server, job=section_job(way, connections, calls))


def section_job(way: Way, connections: int, calls: int) -> Job:
    """Build the job of so many calls."""
    bodies = section_messages(way, DOC_ID)
    return Job(
        port=way.server.port,
        path=way.path,
        bodies=list(bodies),
        headers=way.headers("tools/call", SECTION_TOOL),
        connections=connections,
        calls=calls,
        expected='"structuredContent":{',
        expected_each=[f'"id":{number},' for number, _ in enumerate(bodies, start=1)],
    )


def _report(rounds: _Rounds, title: str) -> Result:
    """Print the medians, and the median of what each round's two measurements are to each other."""
    result = Result(title, HEADER)
    for (name, connections), measured in rounds.items():
        ratio = statistics.median(ours.cpu_ms / sdk.cpu_ms for ours, sdk in measured)
        both = {"facade": [m[0] for m in measured], "SDK's server": [m[1] for m in measured]}
        for who, turns in both.items():
            found = medians(turns)
            result.rows.append(
                (
                    f"{who}, {name}",
                    str(connections),
                    f"{found.cpu_ms:.3f}",
                    f"{found.p50_ms:.2f}",
                    f"{found.p99_ms:.2f}",
                    f"{ratio:.2f}" if who == "facade" else "-",
                )
            )
        if name != _FOR_INFORMATION:
            at = f"{name}, {at_connections(connections)}"
            result.targets.append(
                Target(name=f"CPU / SDK's server, {at}", limit=LIMIT, measured=ratio, unit="x")
            )
    return result
