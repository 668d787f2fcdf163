"""Downstream calls through ``mcp-tools-proxy stdio``, compared with the HTTP API."""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.bench import Bench
from benchmarks.corpus import TENANT
from benchmarks.echo_calls import called_over_mcp, echo_configuration, echo_gateway, executed
from benchmarks.facade_messages import Way, opening_messages
from benchmarks.generator import Generator, generator
from benchmarks.paired import CONNECTIONS, Comparison, Turn, measure_by_turns, table_of
from benchmarks.process import Process
from benchmarks.report import Result
from benchmarks.servers import GATEWAY, fleet

LIMIT = 1.3


def measure_stdio_in(bench: Bench) -> Result:
    """Measure both in both eras; each era has a separate gateway process on stdio."""
    with ExitStack() as stack:
        comparisons = _start(bench, stack)
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    result = table_of("A downstream call through the gateway on stdio", comparisons)
    result.notes.append("On stdio there is one pipe: as many calls are in flight on it.")
    return result


def _start(bench: Bench, stack: ExitStack) -> Sequence[Comparison]:
    (downstream,) = stack.enter_context(fleet(bench.workdir))
    service = stack.enter_context(echo_gateway(bench, "stdio-in", downstream))
    settings = echo_configuration(bench.workdir / "stdio-in-own-config", downstream)
    ways = {
        "2026-07-28": Way(server=service),
        "2025-11-25": Way(server=service, modern=False),
    }
    comparisons = []
    for era, way in ways.items():
        process, load = stack.enter_context(_on_stdio(bench, settings, way))
        for connections in CONNECTIONS:
            calls = bench.sizes.ratio_calls
            sent = called_over_mcp(way, connections, calls).job
            comparisons.append(
                Comparison(
                    name=f"downstream call on stdio ({era}) / over HTTP API",
                    limit=LIMIT,
                    ours=Turn(server=process, job=sent, load=load),
                    other=executed(service, connections, calls),
                )
            )
    return comparisons


@contextmanager
def _on_stdio(
    bench: Bench, settings: Mapping[str, str], way: Way
) -> Iterator[tuple[Process, Generator]]:
    """Run the gateway on stdio with an open session, and its load generator."""
    environment = {**settings, "MCP_PROXY_DOCUMENTS_PATH": str(bench.workdir / "no-documents")}
    log = bench.workdir / f"stdio-{time.perf_counter_ns()}.log"
    with log.open("wb") as file:
        started = subprocess.Popen(  # noqa: S603 - our program
            [GATEWAY, "stdio", "--tenant", TENANT],
            cwd=bench.workdir,
            env=environment,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
        )
    process = Process(started)
    with started:
        try:
            pipes = _open_session(started, way)
            with generator("benchmarks.stdio_load", *map(str, pipes), descriptors=pipes) as load:
                yield process, load
        finally:
            process.stop()


def _open_session(started: subprocess.Popen[bytes], way: Way) -> tuple[int, int]:
    """Open the older era's session; return the descriptors of stdin and stdout."""
    assert started.stdin is not None
    assert started.stdout is not None
    if not way.modern:
        request, notice = opening_messages(way)
        started.stdin.write(f"{request}\n".encode())
        assert b'"protocolVersion"' in started.stdout.readline()
        started.stdin.write(f"{notice}\n".encode())
    return started.stdin.fileno(), started.stdout.fileno()
