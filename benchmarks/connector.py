"""read_doc_section over the remote connector, beside the same over HTTP in the same process."""

import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bench import Bench, Measured, medians
from benchmarks.corpus import TENANT
from benchmarks.facade import DOC_ID, read_section, section_job
from benchmarks.facade_messages import (
    SECTION_TOOL,
    SECTIONS,
    Way,
    opened,
    opening_messages,
    section_messages,
    wait_for,
)
from benchmarks.generator import Generator, generator
from benchmarks.remote_load import PATH, RemoteJob
from benchmarks.report import Result, Target
from benchmarks.servers import NO_CALL_REFUSED, Server, free_ports, gateway

AT_ONCE = (1, 50)
"""Sessions of the connector, and connections over HTTP, each with one call at a time."""

HEADER = (
    "candidate",
    "at once",
    "CPU ms/call",
    "calls/s",
    "p50 ms",
    "p99 ms",
    "CPU / HTTP",
    "calls/s / HTTP",
)
LIMIT = 1.0

_LEVELS = ("info", "warning")
"""The second for information: at the first each frame leaves a line in the log."""

_WARM_UP = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A gateway that is spoken to in one era: at its endpoint, and as the backend that it dialled.

    The gateway of each level has that for its server identifier.
    """

    level: str
    era: str
    way: Way
    backend: Generator
    answers: Sequence[object]

    @property
    def name(self) -> str:
        return f"{self.era}, log level {self.level}" if self.is_for_information else self.era

    @property
    def is_for_information(self) -> bool:
        return self.level != _LEVELS[0]

    def measure(self, bench: Bench, at_once: int) -> tuple[Measured, Measured]:
        """Measure the connector and HTTP, each warmed up before its turn."""
        for calls in (int(bench.sizes.section_calls * _WARM_UP), bench.sizes.section_calls):
            remote = bench.measure(self.way.server, self._remote_job(at_once, calls), self.backend)
        for calls in (int(bench.sizes.section_calls * _WARM_UP), bench.sizes.section_calls):
            http = bench.measure(self.way.server, section_job(self.way, at_once, calls))
        return remote, http

    def _remote_job(self, sessions: int, calls: int) -> RemoteJob:
        return RemoteJob(
            server_identifier=self.level,
            name=self.era,
            sessions=sessions,
            opening=[] if self.way.modern else list(opening_messages(self.way)),
            bodies=list(section_messages(self.way, DOC_ID)),
            answers=list(self.answers),
            calls=calls,
        )


_Rounds = Mapping[tuple[_Turn, int], list[tuple[Measured, Measured]]]


def measure_connector(bench: Bench) -> Result:
    """Measure both by turns, with the same messages and answers; a turn is warmed up before."""
    with ExitStack() as stack:
        turns = _start(bench, stack)
        rounds: _Rounds = {(turn, at_once): [] for turn in turns for at_once in AT_ONCE}
        for number in range(bench.sizes.relay_rounds):
            bench.show_progress(f"  connector: round {number + 1} of {bench.sizes.relay_rounds}")
            for (turn, at_once), found in rounds.items():
                found.append(turn.measure(bench, at_once))
    size = len(json.dumps(turns[0].answers[0], ensure_ascii=False).encode())
    return _report(rounds, f"{SECTION_TOOL} over the connector, a result of {size} bytes")


def _start(bench: Bench, stack: ExitStack) -> Sequence[_Turn]:
    documents = bench.folder("connector", DOC_ID)
    (port,) = free_ports(1)
    backend = stack.enter_context(generator("benchmarks.remote_load", str(port)))
    turns = []
    for level in _LEVELS:
        settings = _settings(port, level)
        service = stack.enter_context(gateway(bench.workdir, documents, settings))
        wait_for(service)
        ways = {"2026-07-28": Way(server=service), "2025-11-25": opened(service)}
        answers = _answers(service)
        turns += [_Turn(level, era, way, backend, answers) for era, way in ways.items()]
    return turns


def _settings(port: int, level: str) -> Mapping[str, str]:
    return {
        **NO_CALL_REFUSED,
        "MCP_PROXY_LOG_LEVEL": level,
        "MCP_PROXY_REMOTE_URL": f"ws://127.0.0.1:{port}{PATH}",
        "MCP_PROXY_REMOTE_SERVER_IDENTIFIER": level,
        "MCP_PROXY_REMOTE_TOKEN": "bench",
        "MCP_PROXY_REMOTE_TENANT_ID": TENANT,
    }


def _answers(service: Server) -> Sequence[object]:
    """Return what the gateway says over HTTP of each section."""
    way = Way(server=service)
    return [read_section(way, section)["structuredContent"] for section in SECTIONS]


def _report(rounds: _Rounds, title: str) -> Result:
    """Print the medians, and the median of what each round's two measurements are to each other."""
    result = Result(title, HEADER)
    for (turn, at_once), measured in rounds.items():
        cpu = statistics.median(ours.cpu_ms / http.cpu_ms for ours, http in measured)
        speed = statistics.median(ours.calls_per_s / http.calls_per_s for ours, http in measured)
        both = {
            "connector": ([remote for remote, _ in measured], f"{cpu:.2f}", f"{speed:.2f}"),
            "HTTP": ([http for _, http in measured], "-", "-"),
        }
        for who, (each, *ratios) in both.items():
            found = medians(each)
            result.rows.append(
                (
                    f"{who}, {turn.name}",
                    str(at_once),
                    f"{found.cpu_ms:.3f}",
                    f"{found.calls_per_s:.0f}",
                    f"{found.p50_ms:.2f}",
                    f"{found.p99_ms:.2f}",
                    *ratios,
                )
            )
        if not turn.is_for_information:
            at = f"{turn.name}, at {at_once} session{'s' * (at_once > 1)}"
            result.targets.append(
                Target(name=f"CPU / HTTP, {at}", limit=LIMIT, measured=cpu, unit="x")
            )
    return result
