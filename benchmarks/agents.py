"""Two hundred agents, each with a profile of its own, over a thousand tools.

What an agent on a call costs, what its list costs, and what its being there costs in memory.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from benchmarks.bench import Bench, Measured, medians
from benchmarks.configuration import Reference, write_agents, write_configuration
from benchmarks.echo import ECHO, PREFIX, invented_tool
from benchmarks.fleet import FLEET_SERVERS, FLEET_TOOLS, fleet_entries, wait_until_ready
from benchmarks.listing import PRESETS, dumps_ms, list_after_switch_ms
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, TOOLS, call, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import Server, bare, fleet, gateway

AGENTS = 200
EXCLUDED = 10
FORMATS = ("mcp", "openai", "anthropic", "gemini")

_TEXT = "Does an agent cost much?"
_WARM_UP = 0.2


def measure_agents(bench: Bench) -> Result:
    """Compare calls that name an agent with the same calls that name none, in one process."""
    echo = call(f"server-00:{ECHO}", text=_TEXT)
    kinds: Mapping[str, tuple[Sequence[str], str]] = {
        "read_doc_section": (section_calls("big-0"), OK),
        "downstream echo": ([echo], f"{PREFIX}{_TEXT}"),
    }
    rounds: dict[tuple[str, bool], list[Measured]] = {
        (kind, agent): [] for kind in kinds for agent in (False, True)
    }
    with _service(bench, "agents", documents=("big-0",)) as service:
        for number in range(bench.sizes.relay_rounds):
            bench.show_progress(f"  agents: round {number + 1} of {bench.sizes.relay_rounds}")
            for (kind, agent), found in rounds.items():
                bodies, expected = kinds[kind]
                for share, keep in ((_WARM_UP, False), (1.0, True)):
                    job = Job(
                        port=service.port,
                        path=EXECUTE,
                        bodies=list(_bodies(bodies, agent=agent)),
                        connections=1,
                        calls=int(bench.sizes.section_calls * share),
                        expected=expected,
                    )
                    measured = bench.measure(service, job)
                    if keep:
                        found.append(measured)
    return _report_calls(rounds)


def measure_agent_lists(bench: Bench) -> Result:
    """Compare GET tools of an agent with json.dumps (cold) and with a bare endpoint (warm).

    Cold is the first list after a switch of presets, as that makes a new registry. Warm is one
    agent's list over and over, and the lists of all agents in turn.
    """
    result = Result(
        f"GET tools, {AGENTS} agents, {FLEET_SERVERS * FLEET_TOOLS:,} tools",
        ("format", "what", "kB", "service CPU ms", "compared with", "its CPU ms"),
    )
    with _service(bench, "agent-lists") as service:
        for shape in FORMATS:
            bench.show_progress(f"  agent-lists: {shape}")
            paths = [f"{TOOLS}?agent={name}&format={shape}" for name in _names()]
            bodies = [service.request(path, method="GET", expected='"tools"') for path in paths]
            _measure_cold(bench, service, shape, paths[0], bodies[0], result)
            _measure_warm(bench, service, f"{shape}, one agent", paths[:1], bodies[:1], result)
            _measure_warm(bench, service, f"{shape}, all in turn", paths, bodies, result)
    return result


def measure_agent_memory(bench: Bench) -> Result:
    """Compare the service's memory before and after each agent asked for all of its lists."""
    with _service(bench, "agent-memory") as service:
        size = 0
        for shape in FORMATS:  # without an agent first: what all agents share
            size += len(
                service.request(f"{TOOLS}?format={shape}", method="GET", expected='"tools"')
            )
        before = service.rss_bytes()
        for agent, shape in ((name, shape) for name in _names() for shape in FORMATS):
            path = f"{TOOLS}?agent={agent}&format={shape}"
            service.request(path, method="GET", expected='"tools"')
        after = service.rss_bytes()
    grown = after - before
    result = Result(
        f"Memory of {AGENTS} agents that asked for {len(FORMATS)} lists each",
        ("state of the process", "RSS MB", "grown by MB"),
        [
            ("listed without an agent", f"{before / 1e6:.1f}", "-"),
            ("listed for every agent", f"{after / 1e6:.1f}", f"{grown / 1e6:+.1f}"),
            ("all of these lists as JSON", f"{size * AGENTS / 1e6:.1f}", "-"),
        ],
    )
    result.targets = [
        Target(
            name="growth / the lists' JSON",
            limit=0.05,
            measured=grown / (size * AGENTS),
            unit="x",
            how="what differs is a mask of a byte for each tool, and a tag",
        )
    ]
    return result


def _measure_cold(
    bench: Bench, service: Server, shape: str, path: str, body: bytes, result: Result
) -> None:
    tools = json.loads(body)["tools"]
    assert len(tools) > FLEET_SERVERS * FLEET_TOOLS - EXCLUDED, len(tools)
    cold: list[float] = []
    dumps: list[float] = []
    request = partial(service.request, path, method="GET", expected='"tools"')
    for preset in islice(cycle(PRESETS[::-1]), bench.sizes.list_calls):
        cold.append(list_after_switch_ms(service, preset, request))
        dumps.append(dumps_ms(tools))
    _add(result, shape, "cold", body, cold, "json.dumps", dumps)


def _measure_warm(
    bench: Bench, service: Server, what: str, paths: list[str], bodies: list[bytes], result: Result
) -> None:
    rounds: dict[Server, list[Measured]] = {}
    with bare("list", bench.workdir, b"\n".join(bodies)) as endpoint:
        endpoint.wait_for("", TOOLS, method="GET", expected='"tools"')
        for number in range(bench.sizes.relay_rounds + 1):
            for server in (service, endpoint):
                job = Job(
                    port=server.port,
                    method="GET",
                    path=TOOLS,
                    paths=paths,
                    bodies=[""],
                    connections=1,
                    calls=bench.sizes.list_calls * 10,
                    expected='"tools"',
                )
                measured = bench.measure(server, job)
                if number:  # the first round warms up
                    rounds.setdefault(server, []).append(measured)
        ours, theirs = rounds[service], rounds[endpoint]
    shape, _, who = what.partition(", ")
    _add(
        result,
        shape,
        f"warm, {who}",
        bodies[0],
        [measured.cpu_ms for measured in ours],
        "bare FastAPI",
        [measured.cpu_ms for measured in theirs],
    )


def _add(
    result: Result,
    shape: str,
    what: str,
    body: bytes,
    ours: Sequence[float],
    other: str,
    theirs: Sequence[float],
) -> None:
    """Add the medians, and the median of what each round's two times are to each other."""
    size = f"{len(body) / 1e3:.0f}"
    times = [f"{statistics.median(ms):.3f}" for ms in (ours, theirs)]
    result.rows.append((shape, what, size, times[0], other, times[1]))
    ratio = statistics.median(one / another for one, another in zip(ours, theirs, strict=True))
    limit = 3 if what == "cold" else 1.3
    name = f"{shape}, {what} / {other}"
    result.targets.append(Target(name=name, limit=limit, measured=ratio, unit="x"))


@contextmanager
def _service(bench: Bench, name: str, documents: Sequence[str] = ()) -> Iterator[Server]:
    """Run the service with all agents' profiles beside the whole fleet, all of it ready."""
    with fleet(bench.workdir, FLEET_SERVERS, tools=FLEET_TOOLS) as servers:
        settings = _configuration(bench.workdir / f"{name}-config", servers)
        with gateway(bench.workdir, bench.folder(name, *documents), settings) as service:
            wait_until_ready(service, FLEET_SERVERS)
            yield service


def _configuration(folder: Path, servers: Sequence[Server]) -> Mapping[str, str]:
    """Write a configuration: all servers and the second preset, less ten tools for each agent."""
    tools = [str(invented_tool(number)["name"]) for number in range(FLEET_TOOLS)]
    entries = fleet_entries(servers)
    references: list[Reference] = [
        (server_id, name) for server_id in entries for name in (*tools, ECHO)
    ]
    settings = write_configuration(folder, entries, dict.fromkeys(PRESETS, references))
    spelt = [f"{server_id}:{name}" for server_id in entries for name in tools]
    write_agents(
        folder,
        [
            {
                "name": agent,
                "client_ids": list(entries),
                "exclude_components": spelt[n : n + EXCLUDED],
                "preset": PRESETS[1],
            }
            for n, agent in enumerate(_names())
        ],
    )
    return {**settings, "MCP_PROXY_REQUIRE_AGENT": "false"}


def _names() -> Sequence[str]:
    return [f"agent-{number:03}" for number in range(AGENTS)]


def _bodies(bodies: Sequence[str], *, agent: bool) -> Iterator[str]:
    """Yield as many bodies as there are agents, each with another agent or all with none."""
    for body, name in zip(cycle(bodies), _names(), strict=False):
        added = {"agent": name} if agent else {}
        yield json.dumps(json.loads(body) | added, separators=(",", ":"))


def _report_calls(rounds: Mapping[tuple[str, bool], Sequence[Measured]]) -> Result:
    """Print the medians, and the median of what each round's two measurements are to each other."""
    result = Result(
        f"A call that names one of {AGENTS} agents",
        ("call", "agent", "CPU ms/call", "p50 ms", "p99 ms"),
    )
    for (kind, agent), measured in rounds.items():
        found = medians(list(measured))
        times = (f"{found.cpu_ms:.3f}", f"{found.p50_ms:.2f}", f"{found.p99_ms:.2f}")
        result.rows.append((kind, "yes" if agent else "no", *times))
        if agent:
            pairs = zip(measured, rounds[kind, False], strict=True)
            ratio = statistics.median(own.cpu_ms / other.cpu_ms for own, other in pairs)
            result.targets.append(
                Target(name=f"{kind}: with / without", limit=1.05, measured=ratio, unit="x")
            )
    return result
