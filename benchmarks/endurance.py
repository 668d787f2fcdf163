"""CPU and memory of document calls after a million calls by ten thousand tenants.

Two gateways are measured alternately: one has served many calls, the other few. Their ratio is
divided by that after few calls on both, which excludes differences between machines and processes.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.configuration import write_preset
from benchmarks.echo import ECHO
from benchmarks.echo_calls import PRESET, SERVER, echo_configuration, posted
from benchmarks.facade_messages import DOC_ID, opened
from benchmarks.fleet import wait_until_ready
from benchmarks.load import Job
from benchmarks.messages import BATCH, NO_DOCUMENT, OK, batch, section_calls
from benchmarks.paired import Comparison, measure_by_turns, table_of, target_of
from benchmarks.report import Result, Target
from benchmarks.servers import Server, fleet, gateway

FEW_CALLS = 10_000
TENANTS = 10_000
DOCUMENTS = 100_000
SESSIONS = 20
"""Sessions opened per FEW_CALLS calls and never used again."""

COST_LIMIT = 1.05
MEMORY_LIMIT = 1.1

_WINDOW_S = 1
_IDLE_S = 5.0
"""Longer than budget windows and idle sessions are kept."""

_SHORT = {"MCP_PROXY_RATE_LIMIT_WINDOW_S": str(_WINDOW_S), "MCP_PROXY_SESSION_IDLE_S": "2"}
_BATCH_CALLS = 25
_CONNECTIONS = 8


@dataclass(slots=True)
class _Used:
    """A gateway, and the number of calls it has served."""

    service: Server
    folder: Path
    calls: int = 0

    def use(self, bench: Bench, calls: int) -> None:
        """Send calls, open sessions and change the configuration until ``calls`` are served."""
        while self.calls < calls:
            bench.show_progress(f"  endurance: {self.calls:,} of {calls:,} calls")
            write_preset(self.folder, PRESET, [(SERVER, ECHO)] * (self.calls // FEW_CALLS % 2))
            for _ in range(SESSIONS):
                opened(self.service).post("logging/setLevel", {"level": "error"})
            bench.run(_batches(self.service, self.calls // _BATCH_CALLS))
            self.calls += FEW_CALLS


def measure_endurance(bench: Bench) -> Result:
    """Measure both gateways after few calls, and after one of them has served many."""
    with ExitStack() as stack:
        (downstream,) = stack.enter_context(fleet(bench.workdir))
        many, few = (
            stack.enter_context(_gateway(bench, f"endurance-{name}", downstream))
            for name in ("many", "few")
        )
        for used in (many, few):
            used.use(bench, FEW_CALLS)
        before, before_bytes = _measure(bench, many, few)
        many.use(bench, bench.sizes.endurance_calls)
        after, after_bytes = _measure(bench, many, few)
        reloads = many.service.metric("mcp_proxy_config_reloads_total")
    result = table_of(f"After {many.calls:,} calls, beside {few.calls:,}", [before, after])
    result.notes.append(
        f"{reloads:.0f} configurations read; {before_bytes / 1e6:.1f} MB resident before, "
        f"{after_bytes / 1e6:.1f} MB after."
    )
    ratios = [one / other for one, other in zip(after.figures, before.figures, strict=True)]
    result.targets = [
        target_of("CPU of read_doc_section / after few calls", COST_LIMIT, ratios),
        Target(
            name="memory / after few calls",
            limit=MEMORY_LIMIT,
            measured=after_bytes / before_bytes,
            unit="x",
        ),
    ]
    return result


@contextmanager
def _gateway(bench: Bench, name: str, downstream: Server) -> Iterator[_Used]:
    """Run a gateway with short windows and its log discarded."""
    folder = bench.workdir / f"{name}-config"
    settings: Mapping[str, str] = {**echo_configuration(folder, downstream), **_SHORT}
    log = os.open(os.devnull, os.O_WRONLY)
    try:
        with gateway(bench.workdir, bench.folder(name, DOC_ID), settings, output=log) as service:
            wait_until_ready(service, 1)
            yield _Used(service, folder)
    finally:
        os.close(log)


def _batches(service: Server, first: int) -> Job:
    """Return FEW_CALLS calls in batches from number ``first``, each with a tenant and new
    documents.
    """
    numbers = range(first, first + FEW_CALLS // _BATCH_CALLS)
    bodies = [batch(f"tenant-{number % TENANTS:05}", _doc_ids(number)) for number in numbers]
    return Job(
        port=service.port,
        path=BATCH,
        bodies=bodies,
        connections=_CONNECTIONS,
        calls=len(bodies),
        expected=NO_DOCUMENT,
    )


def _doc_ids(number: int) -> Sequence[str]:
    first = number * _BATCH_CALLS
    return [f"document-{n % DOCUMENTS:06}" for n in range(first, first + _BATCH_CALLS)]


def _measure(bench: Bench, many: _Used, few: _Used) -> tuple[Comparison, int]:
    """Compare both after budgets and sessions have expired; also return the memory of the first."""
    time.sleep(_IDLE_S)
    calls, bodies = bench.sizes.ratio_calls, section_calls(DOC_ID)
    comparison = Comparison(
        name=f"read_doc_section after {many.calls:,} calls / after {few.calls:,}",
        limit=COST_LIMIT,
        ours=posted(many.service, bodies, OK, 1, calls),
        other=posted(few.service, bodies, OK, 1, calls),
    )
    measure_by_turns(bench, [comparison], bench.sizes.ratio_rounds)
    return comparison, many.service.rss_bytes()
