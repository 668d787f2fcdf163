"""How much memory grows while a gateway serves calls: answered ones, and refused ones of each kind.

Each round has calls of the same kinds, of other tenants, for other documents, and with other texts.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.echo_calls import TOOL, echo_configuration
from benchmarks.facade import DOC_ID
from benchmarks.facade_messages import opened
from benchmarks.fleet import wait_until_ready
from benchmarks.load import Job
from benchmarks.messages import BATCH, EXECUTE, NO_DOCUMENT, OK, batch, call, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import Server, fleet, gateway

FIRST_CALLS = 20_000
"""Calls after which memory is measured for the first time: caches of fixed sizes are full."""

LIMIT_MB = 10.0
ROUND_CALLS = 10_000
TENANTS = 10_000
DOCUMENTS = 100_000

_SHORT = {"MCP_PROXY_RATE_LIMIT_WINDOW_S": "1", "MCP_PROXY_SESSION_IDLE_S": "2"}
_BATCHES = 100
_BATCH_CALLS = 25
_CALLS = 2_500
"""Calls of each kind besides the batches in one round."""

_SESSIONS = 20
_INVALID = '"code":"INVALID_ARGUMENTS"'
_CONNECTIONS = 8
_LARGE = "x" * 10_000


def measure_growth(bench: Bench) -> Result:
    """Serve calls, and compare the memory after FIRST_CALLS of them with that after all."""
    rows: list[Sequence[str]] = []
    with ExitStack() as stack:
        (downstream,) = stack.enter_context(fleet(bench.workdir))
        settings = {**echo_configuration(bench.workdir / "growth-config", downstream), **_SHORT}
        log = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, log)
        service = stack.enter_context(
            gateway(bench.workdir, bench.folder("growth", DOC_ID), settings, output=log)
        )
        wait_until_ready(service, 1)
        at_first = 0
        for number in range(bench.sizes.growth_calls // ROUND_CALLS):
            bench.show_progress(f"  growth: round {number + 1}")
            for job in _round(service, number):
                bench.run(job)
            for _ in range(_SESSIONS):
                opened(service).post("logging/setLevel", {"level": "error"})
            calls = (number + 1) * ROUND_CALLS
            if calls == FIRST_CALLS:
                at_first = service.rss_bytes()
            if calls % (2 * ROUND_CALLS) == 0:
                rows.append((f"{calls:,}", f"{service.rss_bytes() / 1e6:.1f}"))
        at_last = service.rss_bytes()
    result = Result("Memory while calls are served", ("calls", "RSS MB"), rows)
    result.targets = [
        Target(
            name=f"growth from call {FIRST_CALLS:,} to {bench.sizes.growth_calls:,}",
            limit=LIMIT_MB,
            measured=(at_last - at_first) / 1e6,
            unit="MB",
        )
    ]
    return result


def _round(service: Server, number: int) -> Iterator[Job]:
    """Return the jobs of one round, of ROUND_CALLS calls."""
    first = number * _CALLS
    batches = [
        batch(f"tenant-{(number * _BATCHES + n) % TENANTS:05}", _doc_ids(number, n))
        for n in range(_BATCHES)
    ]
    yield _job(service, batches, NO_DOCUMENT, path=BATCH)
    yield _job(service, section_calls(DOC_ID) * (_CALLS // 20), OK)
    yield _job(service, [call(TOOL, text=f"text {first + n}") for n in range(_CALLS)], OK)
    refused = [call(TOOL, text=[_LARGE, first + n]) for n in range(_CALLS)]
    yield _job(service, refused, _INVALID)


def _doc_ids(number: int, place: int) -> list[str]:
    first = (number * _BATCHES + place) * _BATCH_CALLS
    return [f"document-{n % DOCUMENTS:06}" for n in range(first, first + _BATCH_CALLS)]


def _job(service: Server, bodies: list[str], expected: str, *, path: str = EXECUTE) -> Job:
    return Job(
        port=service.port,
        path=path,
        bodies=bodies,
        connections=_CONNECTIONS,
        calls=len(bodies),
        expected=expected,
    )
