"""Other gateways in front of the same echo server: CPU, latency, memory and start.

``make bench-peers`` prints the table of the page about performance.
"""

import argparse
import http.client
import os
import platform
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.bench import FULL, QUICK, Bench, Measured, medians, open_bench
from benchmarks.echo import MODERN, PREFIX
from benchmarks.echo_calls import TEXTS, called_over_mcp, executed
from benchmarks.facade_messages import Way, opened
from benchmarks.machine_use import MachineUse
from benchmarks.messages import EXECUTE, call
from benchmarks.paired import CONNECTIONS, SEED, Turn
from benchmarks.peer_programs import HTTP_API, Peer, installed_peers
from benchmarks.process import cpu_s, rss_bytes
from benchmarks.report import Result
from benchmarks.servers import NotStarted, Server, fleet, free_ports, start_process

START_LIMIT_S, REFUSAL_LIMIT_S = 180.0, 20.0
"""Maximum time until the first answer, and from the first wrong one to a right one."""

HEADER = ("gateway", "interface", "CPU ms", "p50 ms", "p99 ms", "memory MB", "start s")
_PAUSE_S = 0.005

Turns = Callable[[int, int], Turn]
"""Builds the calls of a measurement from the numbers of connections and calls."""


class Refused(Exception):
    """A gateway does not have an interface."""


class _Tree(Server):
    """A server and its child processes."""

    def cpu_s(self) -> float:
        return sum(map(cpu_s, _tree(self.process.pid)))

    def rss_bytes(self) -> int:
        return sum(map(rss_bytes, _tree(self.process.pid)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text(encoding="ascii").split():
            yield from _tree(int(child))


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A gateway with one of its interfaces, and its measurements."""

    peer: Peer
    interface: str
    calls: Mapping[int, list[Measured]] = field(
        default_factory=lambda: {n: [] for n in CONNECTIONS}
    )
    start_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)

    def measure(self, bench: Bench, downstream: Server) -> None:
        """Measure a new process."""
        with self._started(bench, downstream) as (server, turns, start_s):
            for connections, measured in self.calls.items():
                measured.append(turns(connections, bench.sizes.relay_calls).measure(bench))
            self.start_s.append(start_s)
            self.rss_mb.append(server.rss_bytes() / 1e6)

    def try_out(self, bench: Bench, downstream: Server) -> bool:
        """Return whether the gateway has this interface. The start also writes its bytecode."""
        try:
            with self._started(bench, downstream):
                return True
        except Refused as error:
            bench.show_progress(f"  {self.peer.name}, {self.interface}: refused: {error}")
            return False

    def row(self) -> Sequence[str]:
        """Return the medians, or dashes without measurements."""
        if not self.start_s:
            return (self.peer.name, self.interface, *"–" * (len(HEADER) - 2))
        found = [medians(measured) for measured in self.calls.values()]
        return (
            self.peer.name,
            self.interface,
            ", ".join(_short(it.cpu_ms) for it in found),
            ", ".join(_short(it.p50_ms) for it in found),
            ", ".join(_short(it.p99_ms) for it in found),
            f"{statistics.median(self.rss_mb):.0f}",
            f"{statistics.median(self.start_s):.2f}",
        )

    @contextmanager
    def _started(self, bench: Bench, downstream: Server) -> Iterator[tuple[_Tree, Turns, float]]:
        folder, (port,) = Path(tempfile.mkdtemp(dir=bench.workdir)), free_ports(1)
        command, environment = self.peer.command(folder, downstream, port)
        began = time.perf_counter()
        server = _Tree(start_process(command, folder, folder, environment), port)
        try:
            yield server, self._answering(server), time.perf_counter() - began
        except NotStarted:
            bench.show_progress(next(folder.glob("server-*.log")).read_text(encoding="utf-8"))
            raise
        finally:
            server.stop()

    def _answering(self, server: Server) -> Turns:
        """Wait for the first right answer. Raises Refused and NotStarted."""
        give_up, refusal = time.perf_counter() + START_LIMIT_S, ""
        while time.perf_counter() < give_up and server.process.poll() is None:
            try:
                return self._opened(server)
            except (OSError, http.client.HTTPException):
                time.sleep(_PAUSE_S)
            except AssertionError as error:
                refusal = str(error)
                give_up = min(give_up, time.perf_counter() + REFUSAL_LIMIT_S)
                time.sleep(_PAUSE_S)
        if refusal and server.process.poll() is None:
            raise Refused(refusal)
        raise NotStarted(f"{self.peer.name} does not answer")

    def _opened(self, server: Server) -> Turns:
        """Begin as a client does and call the tool once. Wrong answers fail an assertion."""
        tool, text = self.peer.tool, TEXTS[0]
        if self.interface == HTTP_API:
            server.request(EXECUTE, call(tool, text=text), expected=PREFIX + text)
            return partial(executed, server, tool=tool)
        if self.interface == MODERN:
            way = Way(server=server)
            answer = way.post("server/discover", {})
            assert re.search(rb'"supportedVersions":\[[^]]*"%b"' % MODERN.encode(), answer), answer
        else:
            way = opened(server, events=True)
        answer = way.post("tools/call", {"name": tool, "arguments": {"text": text}}, tool)
        assert (PREFIX + text).encode() in answer, answer
        return partial(called_over_mcp, way, tool=tool)


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:.0f}"


def measure_peers(bench: Bench) -> Result:
    """Measure all gateways in each round, in random order."""
    candidates = [
        _Candidate(peer=peer, interface=interface)
        for peer in installed_peers()
        for interface in peer.interfaces
    ]
    random = Random(SEED)  # noqa: S311 - an order, not a secret
    with fleet(bench.workdir) as (downstream,):
        bench.show_progress("  interfaces")
        present = [it for it in candidates if it.try_out(bench, downstream)]
        for number in range(bench.sizes.rounds):
            bench.show_progress(f"  round {number + 1} of {bench.sizes.rounds}")
            for candidate in random.sample(present, len(present)):
                candidate.measure(bench, downstream)
    result = Result("Other gateways", HEADER, [candidate.row() for candidate in candidates])
    result.notes.append(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, medians of {bench.sizes.rounds} rounds. Pairs are at 1 and "
        "32 connections."
    )
    return result


def main() -> int:
    """Print the table; return 1 if a response was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    sizes = QUICK if parser.parse_args().quick else FULL
    with (
        tempfile.TemporaryDirectory(prefix="mcp-tools-proxy-bench-") as workdir,
        open_bench(Path(workdir), sizes) as bench,
    ):
        use = MachineUse(bench)
        result = measure_peers(bench)
        result.notes.append(f"{use.text()} Wrong answers: {bench.errors}.")
    print(result.markdown())
    return 1 if bench.errors else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops started processes
    sys.exit(main())
