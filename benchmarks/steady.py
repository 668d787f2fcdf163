"""Latency of downstream calls while the gateway has other work."""

import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random

from benchmarks.bench import Bench, between, percentile
from benchmarks.configuration import Reference, over_http, write_configuration, write_preset
from benchmarks.echo import ECHO
from benchmarks.echo_calls import executed
from benchmarks.fleet import (
    FLEET_SERVERS,
    FLEET_TOOLS,
    fleet_entries,
    fleet_references,
    wait_until_ready,
)
from benchmarks.messages import EXECUTE, call, http_post, search_calls
from benchmarks.paired import SEED, target_of
from benchmarks.report import Result
from benchmarks.responder import HANGING_PATH
from benchmarks.servers import Server, fleet, gateway

CONNECTIONS = 32
LIMIT = 3.0
UNDISTURBED = "undisturbed"
HANGING_CALLS = 4

_SERVER, _HANGING = "server-00", "hanging"
_PRESET = "one"
_CHANGE_S = 1.0
_LEAD_S = 0.5
_SEND_LIMIT_S = 10.0

_Disturb = Callable[[float], None]
"""Disturbs the gateway for the given seconds."""


@dataclass(frozen=True, slots=True)
class _Times:
    """Percentiles of the calls in one interval, in milliseconds."""

    p50_ms: float
    p99_ms: float

    @property
    def ratio(self) -> float:
        return self.p99_ms / self.p50_ms


def measure_steady(bench: Bench) -> Result:
    """Measure calls in turn, undisturbed and during each disturbance."""
    random = Random(SEED)  # noqa: S311 - an order, not a secret
    documents = [f"steady-{n}" for n in range(bench.sizes.rounds * bench.sizes.indexings)]
    with ExitStack() as stack:
        service, folder = _start(bench, stack, documents)
        disturbances = _disturbances(bench, service, folder, documents)
        found: dict[str, list[_Times]] = {name: [] for name in disturbances}
        for number in range(bench.sizes.rounds):
            bench.show_progress(f"  steady: round {number + 1} of {bench.sizes.rounds}")
            for name in random.sample(list(found), len(found)):
                found[name].append(_measure(bench, service, disturbances[name]))
    return _report(found)


def _start(bench: Bench, stack: ExitStack, documents: Sequence[str]) -> tuple[Server, Path]:
    """Start the gateway with the fleet and a server that does not respond to calls."""
    servers = stack.enter_context(fleet(bench.workdir, FLEET_SERVERS, tools=FLEET_TOOLS))
    entries = fleet_entries(servers) | {_HANGING: over_http(servers[0].port, HANGING_PATH)}
    folder = bench.workdir / "steady-config"
    settings = write_configuration(folder, entries, {_PRESET: _references()})
    service = stack.enter_context(
        gateway(bench.workdir, bench.folder("steady", *documents), settings)
    )
    wait_until_ready(service, len(entries))
    bench.run(executed(service, CONNECTIONS, 200, tool=f"{_SERVER}:{ECHO}").job)
    return service, folder


def _references() -> list[Reference]:
    return [*fleet_references(), (_SERVER, ECHO), (_HANGING, ECHO)]


def _disturbances(
    bench: Bench, service: Server, folder: Path, documents: Sequence[str]
) -> Mapping[str, _Disturb]:
    new_documents = iter(documents)
    presets = cycle((_references()[1:], _references()))

    def change(seconds: float) -> None:
        with _counted(service, "mcp_proxy_config_reloads_total", int(seconds / _CHANGE_S / 2)):
            for references in islice(presets, int(seconds / _CHANGE_S)):
                write_preset(folder, _PRESET, references)
                time.sleep(_CHANGE_S)

    def hang(seconds: float) -> None:
        body = call(f"{_HANGING}:{ECHO}", text="never answered")
        with _unread(service, http_post(EXECUTE, body), HANGING_CALLS):
            time.sleep(seconds)
            assert service.metric("mcp_proxy_calls_in_flight") >= HANGING_CALLS

    def index(seconds: float) -> None:
        ends = time.perf_counter() + seconds
        with _counted(service, "mcp_proxy_search_index_builds_total", 1):
            for doc_id in islice(new_documents, bench.sizes.indexings):
                if time.perf_counter() < ends:
                    service.request(EXECUTE, search_calls(doc_id, bench.corpus)[0])

    return {
        UNDISTURBED: time.sleep,
        f"the configuration changes every {_CHANGE_S:g} s": change,
        f"a server hangs, with {HANGING_CALLS} calls": hang,
        "search indexes are built": index,
    }


@contextmanager
def _unread(server: Server, data: bytes, connections: int) -> Iterator[None]:
    """Send ``data`` on each connection without reading responses."""
    with ExitStack() as stack:
        for _ in range(connections):
            opened = socket.create_connection(("127.0.0.1", server.port), timeout=_SEND_LIMIT_S)
            stack.enter_context(opened).sendall(data)
        yield


@contextmanager
def _counted(service: Server, counter: str, least: int) -> Iterator[None]:
    """Check that a counter grows by at least ``least``."""
    before = service.metric(counter)
    yield
    assert service.metric(counter) - before >= least, counter


def _measure(bench: Bench, service: Server, disturb: _Disturb) -> _Times:
    """Measure the calls during the disturbance."""
    seconds = bench.sizes.steady_s
    job = executed(service, CONNECTIONS, 10**9, tool=f"{_SERVER}:{ECHO}").job
    bench.begin(replace(job, seconds=seconds + 2 * _LEAD_S))
    try:
        time.sleep(_LEAD_S)
        began = time.perf_counter()
        disturb(seconds)
        ended = time.perf_counter()
    finally:
        outcome = bench.finish()
    times = between(outcome, began, ended)
    return _Times(percentile(times, 50) * 1000, percentile(times, 99) * 1000)


def _report(found: Mapping[str, Sequence[_Times]]) -> Result:
    result = Result(
        f"Downstream calls at {CONNECTIONS} connections, {FLEET_SERVERS * FLEET_TOOLS:,} tools",
        ("meanwhile", "p50 ms", "p99 ms", "p99 / p50"),
    )
    for name, each in found.items():
        p50_ms = statistics.median(it.p50_ms for it in each)
        p99_ms = statistics.median(it.p99_ms for it in each)
        ratios = [it.ratio for it in each]
        cells = (f"{p50_ms:.2f}", f"{p99_ms:.2f}", f"{statistics.median(ratios):.2f}")
        result.rows.append((name, *cells))
        if name != UNDISTURBED:
            result.targets.append(target_of(f"p99 / p50 while {name}", LIMIT, ratios))
        elif statistics.median(ratios) > LIMIT:
            result.notes.append("Undisturbed calls are over the limit as well: a busy machine.")
    return result
