"""Time from process start to the first response, and the memory at that point."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from benchmarks.bench import Bench
from benchmarks.echo_calls import echo_configuration
from benchmarks.facade_messages import opened
from benchmarks.fleet import wait_until_ready
from benchmarks.messages import EXECUTE, call_without_document
from benchmarks.report import Result, Target
from benchmarks.servers import Server, bare, fleet, gateway


@dataclass(slots=True)
class _Starts:
    """Measurements of one candidate; ``start`` returns after its server's first response."""

    name: str
    start: Callable[[], AbstractContextManager[Server]]
    limit: float | None = None
    """Maximum time relative to a start of the bare app."""
    max_mb: float | None = None
    seconds: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)

    def run(self) -> None:
        began = time.perf_counter()
        with self.start() as server:
            self.seconds.append(time.perf_counter() - began)
            self.rss_mb.append(server.rss_bytes() / 1e6)


def measure_start(bench: Bench) -> Result:
    """Start a bare app and the gateway, without and with one server, in turn."""
    body, documents = call_without_document(), bench.folder("start")
    with gateway(bench.workdir, documents) as server:  # also writes the bytecode
        server.wait_for(body)
        answer = server.request(EXECUTE, body)
    with fleet(bench.workdir) as (downstream,):
        settings = echo_configuration(bench.workdir / "start-config", downstream)

        @contextmanager
        def bare_app() -> Iterator[Server]:
            with bare("fastapi", bench.workdir, answer) as server:
                server.wait_for(body)
                yield server

        @contextmanager
        def alone() -> Iterator[Server]:
            with gateway(bench.workdir, documents) as server:
                server.wait_for(body)
                yield server

        @contextmanager
        def with_a_server() -> Iterator[Server]:
            with gateway(bench.workdir, documents, settings) as server:
                server.wait_for(body)
                wait_until_ready(server, 1)
                opened(server)
                yield server

        candidates = [
            _Starts("bare app that imports FastAPI, uvicorn and pydantic", bare_app),
            _Starts("gateway, nothing loaded", alone, 1.6, 85),
            _Starts("gateway, one server connected, one MCP session", with_a_server, 2.2, 115),
        ]
        for number in range(bench.sizes.starts + 1):
            bench.show_progress(f"  start: round {number} of {bench.sizes.starts}")
            for candidate in candidates:
                candidate.run()
    return _report(candidates)


def _report(candidates: list[_Starts]) -> Result:
    result = Result("Start to first answer", ("candidate", "s", "resident MB"))
    base = statistics.median(candidates[0].seconds[1:])
    for candidate in candidates:
        seconds = statistics.median(candidate.seconds[1:])
        rss_mb = statistics.median(candidate.rss_mb[1:])
        result.rows.append((candidate.name, f"{seconds:.3f}", f"{rss_mb:.1f}"))
        if candidate.limit is not None and candidate.max_mb is not None:
            result.targets += [
                Target(
                    name=f"start / bare app's, {candidate.name}",
                    limit=candidate.limit,
                    measured=seconds / base,
                    unit="x",
                ),
                Target(
                    name=f"memory, {candidate.name}",
                    limit=candidate.max_mb,
                    measured=rss_mb,
                    unit="MB",
                ),
            ]
    return result
