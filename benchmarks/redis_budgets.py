"""What budgets in Redis add to a call, in round trips of the same client."""

import asyncio
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import uvloop
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
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
from tests.support.redis_server import server_program

DOC_ID = "big-0"
LIMIT = 2.2
_WARM_UP = 0.2
_SCRIPT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


def measure_redis_budgets(bench: Bench) -> Result:
    """Measure document calls with budgets in memory and in Redis, and bare scripts, by turns."""
    bodies, calls = section_calls(DOC_ID), bench.sizes.ratio_calls
    found: dict[str, list[Measured]] = {"memory": [], "redis": []}
    trips_ms: list[float] = []
    added: list[float] = []
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
            for name, server in servers.items():
                bench.measure(server, _job(server, bodies, int(calls * _WARM_UP)))
                found[name].append(bench.measure(server, _job(server, bodies, calls)))
            trips_ms.append(_trip_ms(url, calls))
            grown_ms = found["redis"][-1].cpu_ms - found["memory"][-1].cpu_ms
            added.append(grown_ms / trips_ms[-1])
    rows = {name: medians(turns) for name, turns in found.items()}
    result = Result(
        "read_doc_section with budgets in Redis, at 1 connection",
        ("candidate", "CPU ms", "p50 ms"),
        [
            *(
                (f"budgets in {name}", f"{row.cpu_ms:.3f}", f"{row.p50_ms:.2f}")
                for name, row in rows.items()
            ),
            ("one bare EVALSHA of the same client", f"{statistics.median(trips_ms):.3f}", "-"),
        ],
    )
    result.targets = [
        Target(
            name="added CPU / CPU of a bare EVALSHA",
            limit=LIMIT,
            measured=statistics.median(added),
            unit="x",
        )
    ]
    return result


def _job(server: Server, bodies: list[str], calls: int) -> Job:
    return Job(
        port=server.port, path=EXECUTE, bodies=bodies, connections=1, calls=calls, expected=OK
    )


@contextmanager
def _redis() -> Iterator[str]:
    (port,) = free_ports(1)
    command = [server_program(), "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
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
                        raise NotStarted(f"{server_program()} does not answer") from None
                    time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


def _trip_ms(url: str, calls: int) -> float:
    """Return the CPU of one round trip, in an event loop as the gateway's."""

    async def run() -> float:
        client = Redis.from_url(url, protocol=2)
        script = client.register_script(_SCRIPT)
        for _ in range(max(20, int(calls * _WARM_UP))):
            await script(["trip"], [1])
        began = time.process_time()
        for _ in range(calls):
            await script(["trip"], [1])
        took = time.process_time() - began
        await client.aclose()
        return took * 1000 / calls

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
