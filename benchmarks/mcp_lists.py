"""tools/list of a thousand tools over MCP: cold, unchanged, and compared with the SDK's server."""

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice

from benchmarks.bench import Bench
from benchmarks.facade_messages import JSON_PATH, Way, opened, wait_for
from benchmarks.fleet import FLEET_SERVERS, FLEET_TOOLS, fleet_configuration, wait_until_ready
from benchmarks.load import Job
from benchmarks.messages import ACTIVE_PRESET
from benchmarks.paired import Comparison, Turn, measure_by_turns, table_of, target_of
from benchmarks.report import Result
from benchmarks.servers import Server, bare, fleet, gateway, sdk_server

PRESETS = ("one", "other")
"""Presets with the same tools."""

COLD_LIMIT = 1.5
UNCHANGED_LIMIT = 1.1
SDK_LIMIT = 0.5

_LIST = "tools/list"
_LISTED = '"tools":['
_DUMPS = 10
_COLD_LISTS = 5
"""Cold measurements of a list relative to the calls of a turn."""

_Ways = Mapping[str, Way]


def measure_mcp_lists(bench: Bench) -> Result:
    """Measure unchanged lists in pairs, then the first ones after changes."""
    with ExitStack() as stack:
        service = _start(bench, stack)
        ways = {"2026-07-28": Way(server=service), "2025-11-25": opened(service)}
        tools = _tools(ways["2026-07-28"])
        comparisons = list(_comparisons(bench, stack, ways, tools))
        measure_by_turns(bench, comparisons, bench.sizes.relay_rounds)
        size = len(json.dumps(tools, separators=(",", ":")))
        title = f"{_LIST}, {FLEET_SERVERS * FLEET_TOOLS:,} tools, {size / 1e3:.0f} kB"
        result = table_of(title, comparisons)
        for era, way in ways.items():
            bench.show_progress(f"  mcp-lists: cold, {era}")
            _measure_cold(way, era, tools, bench.sizes.list_calls * _COLD_LISTS, result)
    return result


def _start(bench: Bench, stack: ExitStack) -> Server:
    servers = stack.enter_context(fleet(bench.workdir, FLEET_SERVERS, tools=FLEET_TOOLS))
    settings = fleet_configuration(bench.workdir / "mcp-lists-config", servers)
    documents = bench.folder("mcp-lists")
    service = stack.enter_context(gateway(bench.workdir, documents, settings))
    wait_until_ready(service, FLEET_SERVERS)
    return service


def _tools(way: Way) -> Sequence[Mapping[str, object]]:
    """Return the listed tools; each tool of the fleet must occur once."""
    tools = way.request(_LIST, {})["tools"]
    assert isinstance(tools, list)
    names = [tool["name"] for tool in tools if "search_records" in tool["name"]]
    assert len(names) == len(set(names)) == FLEET_SERVERS * FLEET_TOOLS, len(names)
    return tools


def _comparisons(
    bench: Bench, stack: ExitStack, ways: _Ways, tools: Sequence[Mapping[str, object]]
) -> Iterator[Comparison]:
    """Start servers with the same lists: an endpoint with fixed bytes, and the SDK's server."""
    sdk = stack.enter_context(sdk_server(bench.workdir, tools, {}))
    wait_for(sdk)
    others = {"2026-07-28": Way(server=sdk), "2025-11-25": opened(sdk)}
    for era, way in ways.items():
        assert _tools(way) == _tools(others[era]) == tools, era
        endpoint = stack.enter_context(bare("list", bench.workdir, way.post(_LIST, {})))
        wait_for(endpoint)
        calls = bench.sizes.list_calls
        yield Comparison(
            name=f"{_LIST}, unchanged ({era}) / bare FastAPI",
            limit=UNCHANGED_LIMIT,
            ours=_lists(way, calls * 10),
            other=_lists(Way(server=endpoint), calls * 10),
        )
        yield Comparison(
            name=f"{_LIST}, unchanged ({era}) / SDK's server",
            limit=SDK_LIMIT,
            ours=_lists(way, calls),
            other=_lists(others[era], calls),
        )


def _lists(way: Way, calls: int) -> Turn:
    job = Job(
        port=way.server.port,
        path=JSON_PATH,
        bodies=[way.message(_LIST, {})],
        headers=way.headers(_LIST),
        connections=1,
        calls=calls,
        expected=_LISTED,
    )
    return Turn(server=way.server, job=job)


def _measure_cold(
    way: Way, era: str, tools: Sequence[object], samples: int, result: Result
) -> None:
    """Add the cost of the first list after a switch of presets, compared with json.dumps."""
    cold, dumps = [], []
    request = partial(way.post, _LIST, {})
    for preset in islice(cycle(PRESETS[::-1]), samples):
        cold.append(_list_after_switch_ms(way.server, preset, request))
        dumps.append(_dumps_ms(tools))
    name = f"{_LIST}, cold ({era}) / json.dumps"
    times = (f"{statistics.median(cold):.3f}", f"{statistics.median(dumps):.3f}")
    result.rows.append((name, "1", *times, "-", "-"))
    ratios = [ours / other for ours, other in zip(cold, dumps, strict=True)]
    result.targets.append(target_of(name, COLD_LIMIT, ratios))


def _dumps_ms(tools: object) -> float:
    """Return this thread's CPU time for json.dumps in milliseconds."""
    started = time.thread_time()
    for _ in range(_DUMPS):
        json.dumps(tools)
    return (time.thread_time() - started) * 1000 / _DUMPS


def _list_after_switch_ms(service: Server, preset: str, request: Callable[[], object]) -> float:
    """Return the CPU of the first list after a switch; the switch itself builds the registry."""
    body = json.dumps({"preset_id": preset, "persist": False})
    service.request(ACTIVE_PRESET, body, method="PUT", expected='"preset"')
    before = service.cpu_s()
    request()
    return (service.cpu_s() - before) * 1000
