"""tools/list of a thousand tools through the MCP facade, beside the SDK's own server with them."""

import json
import statistics
from collections.abc import Mapping
from contextlib import ExitStack

from benchmarks.bench import Bench, Measured, medians
from benchmarks.facade_messages import Way, opened, wait_for
from benchmarks.fleet import FLEET_SERVERS, FLEET_TOOLS, fleet_configuration, wait_until_ready
from benchmarks.load import Job
from benchmarks.report import Result, Target
from benchmarks.servers import fleet, gateway, sdk_server

LIMIT = 0.5

_LIST = "tools/list"
_FACADE, _SDK = "facade", "SDK's server"
_Rounds = Mapping[tuple[str, str], list[Measured]]


def measure_facade_lists(bench: Bench) -> Result:
    """Measure both by turns; the first round warms up."""
    with ExitStack() as stack:
        ways, size = _start(bench, stack)
        rounds: _Rounds = {key: [] for key in ways}
        for number in range(bench.sizes.relay_rounds + 1):
            bench.show_progress(f"  facade-lists: round {number} of {bench.sizes.relay_rounds}")
            for key, way in ways.items():
                measured = bench.measure(way.server, _job(way, bench.sizes.list_calls))
                if number:
                    rounds[key].append(measured)
    return _report(rounds, f"{_LIST}, {FLEET_SERVERS * FLEET_TOOLS:,} tools, {size / 1e3:.0f} kB")


def _start(bench: Bench, stack: ExitStack) -> tuple[Mapping[tuple[str, str], Way], int]:
    """Start both; the SDK's server has the definitions that the facade lists."""
    servers = stack.enter_context(fleet(bench.workdir, FLEET_SERVERS, tools=FLEET_TOOLS))
    settings = fleet_configuration(bench.workdir / "facade-lists-config", servers)
    documents = bench.folder("facade-lists")
    service = stack.enter_context(gateway(bench.workdir, documents, settings))
    wait_until_ready(service, FLEET_SERVERS)
    tools = _listed(Way(server=service))
    names = [str(tool["name"]) for tool in tools if ":" in str(tool["name"])]
    assert len(names) == len(set(names)) == FLEET_SERVERS * FLEET_TOOLS, len(names)
    sdk = stack.enter_context(sdk_server(bench.workdir, tools, {}))
    wait_for(sdk)
    ways = {
        ("2026-07-28", _FACADE): Way(server=service),
        ("2026-07-28", _SDK): Way(server=sdk),
        ("2025-11-25", _FACADE): opened(service),
        ("2025-11-25", _SDK): opened(sdk),
    }
    for key, way in ways.items():
        assert _listed(way) == tools, key
    return ways, len(json.dumps(tools, separators=(",", ":")))


def _listed(way: Way) -> list[dict[str, object]]:
    tools = way.request(_LIST, {})["tools"]
    assert isinstance(tools, list)
    return tools


def _job(way: Way, calls: int) -> Job:
    return Job(
        port=way.server.port,
        path=way.path,
        bodies=[way.message(_LIST, {})],
        headers=way.headers(_LIST),
        connections=1,
        calls=calls,
        expected='"tools":[',
    )


def _report(rounds: _Rounds, title: str) -> Result:
    """Print the medians, and the median of what each round's two measurements are to each other."""
    result = Result(title, ("candidate", "CPU ms", "p50 ms", "p99 ms"))
    for (era, who), measured in rounds.items():
        found = medians(measured)
        times = (f"{found.cpu_ms:.2f}", f"{found.p50_ms:.2f}", f"{found.p99_ms:.2f}")
        result.rows.append((f"{who}, {era}", *times))
        if who == _FACADE:
            turns = zip(measured, rounds[era, _SDK], strict=True)
            ratio = statistics.median(ours.cpu_ms / sdk.cpu_ms for ours, sdk in turns)
            result.targets.append(
                Target(name=f"CPU / SDK's server, {era}", limit=LIMIT, measured=ratio, unit="x")
            )
    return result
