"""Waiting time of clients that connect simultaneously to a busy process."""

import time

from benchmarks.bench import Bench, percentile
from benchmarks.generator import Generator, generator
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import Server, gateway

BURSTS = (64, 128, 256)
BUSY_CONNECTIONS = 32
LIMIT_S = 0.7
"""Maximum time of the last response in the largest burst, median of the rounds."""

BUSY_BEFORE_S = 0.5
"""Seconds of load before a burst."""

_DOC_ID = "big-0"


def measure_new_clients(bench: Bench) -> Result:
    """Open bursts of connections with one request each, while other callers send load."""
    documents = bench.folder("new-clients", _DOC_ID)
    result = Result(
        f"Bursts of new clients, beside {BUSY_CONNECTIONS} connections that always call",
        ("new clients", "last answer s, median", "last answer s, slowest", "p50 of the others ms"),
    )
    with (
        gateway(bench.workdir, documents) as service,
        generator("benchmarks.load") as newcomers,
    ):
        service.wait_for("", "/health", method="GET", expected=OK)
        bench.run(_job(service, BUSY_CONNECTIONS, 1_000))
        for clients in BURSTS:
            bench.show_progress(f"  new-clients: {clients}")
            last_s, others_ms = _bursts(bench, service, newcomers, clients)
            median_s = percentile(last_s, 50)
            result.rows.append(
                (str(clients), f"{median_s:.3f}", f"{max(last_s):.3f}", f"{others_ms:.1f}")
            )
    result.targets.append(
        Target(name=f"last of {BURSTS[-1]} new clients", limit=LIMIT_S, measured=median_s, unit="s")
    )
    return result


def _bursts(
    bench: Bench, service: Server, newcomers: Generator, clients: int
) -> tuple[list[float], float]:
    """Return the seconds until the last response of each burst, and the other callers' p50."""
    last_s, p50_ms = [], []
    for _ in range(bench.sizes.rounds):
        bench.begin(_job(service, BUSY_CONNECTIONS, seconds=3.0))
        time.sleep(BUSY_BEFORE_S)
        last_s.append(bench.run(_job(service, clients, clients), newcomers).wall_s)
        p50_ms.append(percentile(bench.finish().times, 50) * 1000)
    return last_s, percentile(p50_ms, 50)


def _job(service: Server, connections: int, calls: int = 10**9, *, seconds: float = 60.0) -> Job:
    return Job(
        port=service.port,
        path=EXECUTE,
        bodies=section_calls(_DOC_ID),
        connections=connections,
        calls=calls,
        seconds=seconds,
        expected=OK,
    )
