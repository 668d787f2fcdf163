"""CPU, time and memory from process start to the first response."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from benchmarks.bench import Bench
from benchmarks.echo_calls import TEXTS, TOOL, echo_configuration
from benchmarks.messages import EXECUTE, call, call_without_document
from benchmarks.paired import target_of
from benchmarks.report import Result
from benchmarks.servers import Server, bare, fleet, gateway


@dataclass(slots=True)
class _Starts:
    """Measurements of one candidate, which answers ``body``."""

    name: str
    start: Callable[[], AbstractContextManager[Server]]
    body: str
    limit: float = 1.0
    """Maximum CPU and time relative to a start of the bare app."""
    max_mb: float = 0.0
    cpu_s: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)

    def run(self) -> None:
        began = time.perf_counter()
        with self.start() as server:
            server.wait_for(self.body)
            self.seconds.append(time.perf_counter() - began)
            self.cpu_s.append(server.cpu_s())
            self.rss_mb.append(server.rss_bytes() / 1e6)


def measure_start(bench: Bench) -> Result:
    """Start a bare app and the gateway, without and with one server, in turn."""
    body, documents = call_without_document(), bench.folder("start")
    with gateway(bench.workdir, documents) as server:
        server.wait_for(body)
        answer = server.request(EXECUTE, body)
    with fleet(bench.workdir) as (downstream,):
        settings = echo_configuration(bench.workdir / "start-config", downstream)
        base, *others = candidates = [
            _Starts("bare FastAPI app", partial(bare, "fastapi", bench.workdir, answer), body),
            _Starts(
                "gateway without a server",
                partial(gateway, bench.workdir, documents),
                body,
                1.4,
                85,
            ),
            _Starts(
                "gateway with a server, which answers",
                partial(gateway, bench.workdir, documents, settings),
                call(TOOL, text=TEXTS[0]),
                2.2,
                115,
            ),
        ]
        for number in range(bench.sizes.starts + 1):  # the first round also writes the bytecode
            bench.show_progress(f"  start: round {number} of {bench.sizes.starts}")
            for candidate in candidates:
                candidate.run()
    return _report(base, others)


def _report(base: _Starts, others: Sequence[_Starts]) -> Result:
    result = Result("Start to first answer", ("candidate", "CPU s", "s", "resident MB"))
    for one in (base, *others):
        cells = [
            f"{statistics.median(values):.3f} ({min(values):.3f})"
            for values in (one.cpu_s[1:], one.seconds[1:])
        ]
        result.rows.append((one.name, *cells, f"{statistics.median(one.rss_mb[1:]):.1f}"))
    result.notes.append("Medians, and minima in parentheses.")
    for one in others:
        for kind, ours, bares in (
            ("CPU", one.cpu_s, base.cpu_s),
            ("time", one.seconds, base.seconds),
        ):
            figures = [mine / its for mine, its in zip(ours[1:], bares[1:], strict=True)]
            result.targets.append(target_of(f"{kind} / bare app's, {one.name}", one.limit, figures))
        result.targets.append(target_of(f"memory, {one.name}", one.max_mb, one.rss_mb[1:], "MB"))
    return result
