"""CPU of a call with budgets in Redis relative to budgets in memory."""

import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from redis import Redis as BlockingRedis
from redis.exceptions import ConnectionError as RedisConnectionError

from benchmarks.bench import Bench, Measured, medians
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import (
    NO_CALL_REFUSED,
    START_LIMIT_S,
    NotStarted,
    Server,
    free_ports,
    gateway,
)
from mcp_tools_proxy.app.workers import redis_program

DOC_ID = "big-0"
LIMITS = {1: 1.5, 32: 1.25}
"""Limits of the ratio of the CPU of a call, by connections."""
_WARM_UP = 0.2


def measure_redis_budgets(bench: Bench) -> Result:
    """Measure document calls with budgets in memory and in Redis in turn."""
    bodies, calls = section_calls(DOC_ID), bench.sizes.ratio_calls
    stores = ("memory", "redis")
    found: dict[tuple[str, int], list[Measured]] = {
        (store, connections): [] for connections in LIMITS for store in stores
    }
    with ExitStack() as stack:
        url = stack.enter_context(_redis())
        documents = bench.folder("redis-budgets", DOC_ID)
        in_redis = {**NO_CALL_REFUSED, "MCP_PROXY_RATE_LIMIT_STORAGE_URL": url}
        servers = {
            "memory": stack.enter_context(gateway(bench.workdir, documents)),
            "redis": stack.enter_context(gateway(bench.workdir, documents, in_redis)),
        }
        for server in servers.values():
            server.wait_for(bodies[0])
        for number in range(bench.sizes.ratio_rounds):
            bench.show_progress(f"  redis: round {number + 1} of {bench.sizes.ratio_rounds}")
            for (store, connections), measured in found.items():
                bench.measure(
                    servers[store],
                    _job(servers[store], bodies, connections, int(calls * _WARM_UP)),
                )
                measured.append(
                    bench.measure(servers[store], _job(servers[store], bodies, connections, calls))
                )
    rows = {key: medians(turns) for key, turns in found.items()}
    result = Result(
        "read_doc_section with budgets in Redis",
        ("candidate", "CPU ms", "p50 ms"),
        [
            (
                f"budgets in {store}, connections: {connections}",
                f"{row.cpu_ms:.3f}",
                f"{row.p50_ms:.2f}",
            )
            for (store, connections), row in rows.items()
        ],
    )
    result.targets = [
        Target(
            name=f"budgets in Redis / in memory, connections: {connections}",
            limit=limit,
            measured=statistics.median(
                in_redis.cpu_ms / in_memory.cpu_ms
                for in_memory, in_redis in zip(
                    found["memory", connections], found["redis", connections], strict=True
                )
            ),
            unit="x",
        )
        for connections, limit in LIMITS.items()
    ]
    return result


def _job(server: Server, bodies: list[str], connections: int, calls: int) -> Job:
    return Job(
        port=server.port,
        path=EXECUTE,
        bodies=bodies,
        connections=connections,
        calls=calls,
        expected=OK,
    )


@contextmanager
def _redis() -> Iterator[str]:
    (port,) = free_ports(1)
    command = [redis_program(), "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - our own binary
    try:
        ends = time.monotonic() + START_LIMIT_S
        with BlockingRedis(port=port) as client:
            while True:
                try:
                    client.ping()
                    break
                except RedisConnectionError:
                    if time.monotonic() > ends:
                        raise NotStarted(f"{redis_program()} does not answer") from None
                    time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()
