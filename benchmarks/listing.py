"""Listing a thousand downstream tools, and switching between presets that select them."""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.bench import Bench, Measured, medians
from benchmarks.fleet import FLEET_SERVERS, FLEET_TOOLS, fleet_configuration, wait_until_ready
from benchmarks.load import Job
from benchmarks.messages import ACTIVE_PRESET, TOOLS
from benchmarks.report import Result, Target
from benchmarks.servers import Server, fleet, gateway

PRESETS = ("one", "other")
"""They select the same tools."""

_DUMPS = 10


@dataclass(slots=True)
class _Rounds:
    """The service's cost for each request, and the CPU of json.dumps on the same tools."""

    service: list[Measured] = field(default_factory=list)
    dumps_ms: list[float] = field(default_factory=list)


def measure_lists(bench: Bench) -> Result:
    """Compare GET tools with serialising what it lists."""
    with _service(bench, "lists") as service:
        body = _listed(service)
        job = _job(service, bench, TOOLS, method="GET", bodies=[""], expected=body)
        rounds = _measure(bench, "lists", service, job, body)
    return _report("GET tools", rounds, body, limit=3)


def measure_switch(bench: Bench) -> Result:
    """Compare PUT presets/active, back and forth, with serialising what both presets select."""
    with _service(bench, "switch") as service:
        job = _job(
            service,
            bench,
            ACTIVE_PRESET,
            method="PUT",
            bodies=[_switch(preset) for preset in PRESETS],
            expected='"missing":[]',
            expected_each=[f'"{preset}"' for preset in PRESETS],
        )
        body = _listed(service)
        rounds = _measure(bench, "switch", service, job, body)
        assert _listed(service) == body
    return _report("PUT presets/active", rounds, body, limit=5)


def _job(
    service: Server,
    bench: Bench,
    path: str,
    *,
    method: str,
    bodies: list[str],
    expected: str,
    expected_each: list[str] | None = None,
) -> Job:
    return Job(
        port=service.port,
        method=method,
        path=path,
        bodies=bodies,
        connections=1,
        calls=bench.sizes.list_calls,
        expected=expected,
        expected_each=expected_each or [],
    )


@contextmanager
def _service(bench: Bench, name: str) -> Iterator[Server]:
    """Run the service beside the whole fleet, all of it ready."""
    with fleet(bench.workdir, FLEET_SERVERS, tools=FLEET_TOOLS) as servers:
        settings = fleet_configuration(bench.workdir / f"{name}-config", servers)
        with gateway(bench.workdir, bench.folder(name), settings) as service:
            wait_until_ready(service, FLEET_SERVERS)
            yield service


def _listed(service: Server) -> str:
    """Ask for the tools, and check that each of the fleet is among them once."""
    body = service.request(TOOLS, method="GET", expected='"tools"').decode()
    names = [tool["name"] for tool in json.loads(body)["tools"] if ":" in tool["name"]]
    assert len(names) == len(set(names)) == FLEET_SERVERS * FLEET_TOOLS, len(names)
    return body


def _measure(bench: Bench, name: str, service: Server, job: Job, body: str) -> _Rounds:
    tools = json.loads(body)["tools"]
    bench.measure(service, job)
    rounds = _Rounds()
    for number in range(bench.sizes.rounds):
        bench.show_progress(f"  {name}: round {number + 1} of {bench.sizes.rounds}")
        rounds.service.append(bench.measure(service, job))
        rounds.dumps_ms.append(dumps_ms(tools))
    return rounds


def dumps_ms(tools: object) -> float:
    """Return this thread's CPU time for json.dumps, in milliseconds."""
    started = time.thread_time()
    for _ in range(_DUMPS):
        json.dumps(tools)
    return (time.thread_time() - started) * 1000 / _DUMPS


def list_after_switch_ms(service: Server, preset: str, request: Callable[[], object]) -> float:
    """Return the CPU of a list that is the first one after a switch, which builds the registry."""
    service.request(ACTIVE_PRESET, _switch(preset), method="PUT", expected='"preset"')
    before = service.cpu_s()
    request()
    return (service.cpu_s() - before) * 1000


def _switch(preset: str) -> str:
    return json.dumps({"preset_id": preset, "persist": False})


def _report(title: str, rounds: _Rounds, body: str, *, limit: float) -> Result:
    found, dumps_ms = medians(rounds.service), statistics.median(rounds.dumps_ms)
    tools = FLEET_SERVERS * FLEET_TOOLS
    result = Result(
        f"{title}, {tools:,} tools, {len(body.encode()) / 1e3:.0f} kB as listed",
        ("candidate", "CPU ms", "p50 ms", "p99 ms"),
        [
            (
                f"service, {title}",
                f"{found.cpu_ms:.2f}",
                f"{found.p50_ms:.2f}",
                f"{found.p99_ms:.2f}",
            ),
            ("json.dumps of that list", f"{dumps_ms:.2f}", "-", "-"),
        ],
    )
    ratio = found.cpu_ms / dumps_ms
    result.targets = [Target(name="CPU / json.dumps", limit=limit, measured=ratio, unit="x")]
    return result
