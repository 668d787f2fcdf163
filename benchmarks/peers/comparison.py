"""The gateway beside each peer, measured by shuffled turns."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

from benchmarks.bench import Bench, medians
from benchmarks.calls import CONNECTIONS
from benchmarks.configuration import over_stdio, write_configuration
from benchmarks.echo import ECHO, LEGACY, MODERN
from benchmarks.fleet import wait_until_ready
from benchmarks.machine_use import MachineUse
from benchmarks.paired import Comparison, measure_by_turns
from benchmarks.peers.catalogue import Peer, Route, environment_of
from benchmarks.peers.endpoints import (
    HTTP_API,
    OUR_TOOL,
    SERVER_ID,
    Endpoint,
    NotUsable,
    open_http_api,
    open_mcp,
)
from benchmarks.peers.fetching import NotFetched
from benchmarks.peers.process_tree import ECHO_MODULE, ProcessTree, as_tree, running_tree
from benchmarks.report import Result, Target, at_connections
from benchmarks.servers import free_ports, gateway

RIVAL = "npm-mcp-proxy"
"""The peer that has targets."""
CPU_LIMIT = 0.8
READY_LIMIT_S = 15.0
COUNTED = "CPU is a call's, of the gateway and its child processes without the echo server."
HEADER = (
    "peer",
    "endpoint",
    "connections",
    "CPU ms",
    "its",
    "ratio",
    "95 % interval",
    "p50 ms",
    "its",
    "p99 ms",
    "its",
    "calls/s",
    "its",
)

_PAUSE_S = 0.1
_FAILURES = (OSError, HTTPException, AssertionError, ValueError)
"""No connection, half an answer, a wrong status, no JSON."""


@dataclass(slots=True)
class _Field:
    """The peers that run, and what is left out with the reason."""

    comparisons: list[tuple[Peer, Route, Comparison]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def measure_peers(bench: Bench, peers: Sequence[Peer]) -> Result:
    """Measure the gateway beside one peer after another, which would cool down if they took turns.

    V8 drops compiled code while it is idle: beside four others supergateway needed twice the CPU.
    """
    use = MachineUse(bench)
    found = _Field()
    with ExitStack() as stack:
        ours = _start_ours(bench, stack)
        for peer in peers:
            with ExitStack() as own:
                _add(bench, own, peer, ours, found)
                pairs = [comparison for it, _, comparison in found.comparisons if it is peer]
                measure_by_turns(bench, pairs, bench.sizes.ratio_rounds)
    rounds = f"{bench.sizes.ratio_rounds} shuffled rounds for each peer."
    return _report(found, f"{rounds} {COUNTED} {use.text()}")


def _start_ours(bench: Bench, stack: ExitStack) -> Mapping[str, Endpoint]:
    settings = write_configuration(
        bench.workdir / "peers-config",
        {SERVER_ID: over_stdio(ECHO_MODULE)},
        {"echoes": [(SERVER_ID, ECHO)]},
    )
    service = as_tree(
        stack.enter_context(gateway(bench.workdir, bench.folder("peers-documents"), settings))
    )
    wait_until_ready(service, 1)
    eras = {era: open_mcp(service, era, OUR_TOOL) for era in (MODERN, LEGACY)}
    return {**eras, HTTP_API: open_http_api(service)}


def _add(
    bench: Bench, stack: ExitStack, peer: Peer, ours: Mapping[str, Endpoint], found: _Field
) -> None:
    """Start a peer and add its comparisons, or the reason why there are none."""
    bench.show_progress(f"  {peer.title}")
    if peer.not_measured:
        found.left_out.append(f"{peer.title}: {peer.not_measured}")
    (port,) = free_ports(1)
    home = bench.workdir / peer.key
    home.mkdir()
    try:
        peer.package.fetch()
        command = peer.command(peer.package, home, port)
        tree = stack.enter_context(running_tree(command, port, home, environment_of(home)))
    except NotFetched as error:
        found.left_out.append(f"{peer.title}: not fetched: {error}")
        return
    except OSError as error:
        found.left_out.append(f"{peer.title}: not started: {error}")
        return
    for route in peer.routes:
        try:
            theirs = _opened(tree, route, home)
        except NotUsable as error:
            found.left_out.append(f"{peer.title}, {route.label}: {error}")
            continue
        for connections in CONNECTIONS:
            calls = bench.sizes.ratio_calls_at(connections)
            comparison = Comparison(
                name=f"{peer.title}, {route.label}",
                limit=CPU_LIMIT,
                ours=ours[route.ours].turn(connections, calls),
                other=theirs.turn(connections, calls),
            )
            found.comparisons.append((peer, route, comparison))


def _opened(tree: ProcessTree, route: Route, home: Path) -> Endpoint:
    """Open a route as soon as its server can. Raises NotUsable."""
    give_up = time.perf_counter() + READY_LIMIT_S
    while True:
        try:
            endpoint = route.open(tree)
            endpoint.probe()
        except (*_FAILURES, NotUsable) as error:
            if tree.process.poll() is not None:
                raise NotUsable(f"it ended: {_last_line(home)}") from error
            if time.perf_counter() > give_up:
                raise NotUsable(f"no good answer in {READY_LIMIT_S:.0f} s: {error}") from error
        else:
            return endpoint
        time.sleep(_PAUSE_S)


def _last_line(home: Path) -> str:
    """Return the last line that a peer wrote to its log."""
    written = [log.read_text(encoding="utf-8", errors="replace") for log in home.glob("*.log")]
    return "".join(written).strip().rpartition("\n")[2]


def _report(found: _Field, note: str) -> Result:
    result = Result("Beside other gateways", HEADER)
    for peer, route, comparison in found.comparisons:
        ours = medians([turn[0] for turn in comparison.turns])
        other = medians([turn[1] for turn in comparison.turns])
        cpu = comparison.target
        result.rows.append(
            (
                peer.title,
                route.label,
                str(comparison.ours.job.connections),
                f"{ours.cpu_ms:.3f}",
                f"{other.cpu_ms:.3f}",
                f"{cpu.measured:.2f}",
                "{:.2f}-{:.2f}".format(*cpu.interval or ()),
                f"{ours.p50_ms:.2f}",
                f"{other.p50_ms:.2f}",
                f"{ours.p99_ms:.2f}",
                f"{other.p99_ms:.2f}",
                f"{ours.calls_per_s:.0f}",
                f"{other.calls_per_s:.0f}",
            )
        )
        if peer.key == RIVAL and route.ours == route.theirs:
            at = f"{route.label}, {at_connections(comparison.ours.job.connections)}"
            result.targets += [
                replace(cpu, name=f"CPU / its, {at}"),
                Target(name=f"p50, {at}", limit=other.p50_ms, measured=ours.p50_ms, unit="ms"),
                Target(name=f"p99, {at}", limit=other.p99_ms, measured=ours.p99_ms, unit="ms"),
            ]
    result.notes = [note, *(f"Not measured: {text}" for text in found.left_out)]
    return result
