"""read_doc_section and doc_local_search beside bare servers that give the same answer."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bench import Bench, Measured, medians
from benchmarks.engine import Engine
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, search_calls, section_calls
from benchmarks.report import Result, Target, at_connections
from benchmarks.servers import Server, bare, gateway

CONNECTIONS = (1, 32)
HEADER = ("candidate", "connections", "CPU ms/call", "p50 ms", "p99 ms", "CPU / FastAPI")

FASTAPI = "bare FastAPI"
ASGI = "raw ASGI"

NOISE = 1.05
"""Medians of equal candidates differ by up to this in one run."""

_Key = tuple[str, int]
_WARM_UP = 0.2


@dataclass(slots=True)
class Comparison:
    """Medians by candidate and connections; ``engine_ms`` is the engine's own CPU for a call."""

    measured: Mapping[_Key, Measured]
    engine_ms: float = 0.0
    answer_bytes: int = 0

    def table(self, title: str) -> Result:
        """List the candidates, without targets yet."""
        result = Result(title, HEADER)
        for (name, connections), found in self.measured.items():
            ratio = found.cpu_ms / self.measured[FASTAPI, connections].cpu_ms
            result.rows.append(
                (
                    name,
                    str(connections),
                    f"{found.cpu_ms:.3f}",
                    f"{found.p50_ms:.2f}",
                    f"{found.p99_ms:.2f}",
                    f"{ratio:.2f}",
                )
            )
        return result


def service(pairs: int) -> str:
    """Name the service with that many live pairs in its limiter."""
    return f"service, {pairs:,} pairs"


def measure_sections(bench: Bench) -> Result:
    """Target 1: what the gateway adds to a bare endpoint."""
    compared = _compare(
        bench, "read_doc_section", section_calls("big-0"), bench.sizes.section_calls
    )
    result = compared.table(f"read_doc_section, an answer of {compared.answer_bytes} bytes")
    few, many = bench.sizes.pairs[0], bench.sizes.pairs[-1]
    for connections in CONNECTIONS:
        at = at_connections(connections)
        own = compared.measured[service(few), connections].cpu_ms
        fastapi = compared.measured[FASTAPI, connections].cpu_ms
        loaded = compared.measured[service(many), connections].cpu_ms
        result.targets += [
            Target(name=f"CPU / bare FastAPI, {at}", limit=1.3, measured=own / fastapi, unit="x"),
            Target(
                name=f"CPU with {many:,} pairs / with {few}, {at}",
                limit=NOISE,
                measured=loaded / own,
                unit="x",
                how="no more, within the noise",
            ),
        ]
    return result


def measure_search(bench: Bench) -> Result:
    """Target 2: what the gateway adds to a bare endpoint and the engine's own work."""
    compared = _compare(
        bench,
        "doc_local_search",
        search_calls("big-0", bench.corpus),
        bench.sizes.search_calls,
        engine=Engine(bench.corpus.document("big-0")),
    )
    pages, size = bench.sizes.pages, bench.corpus.text_bytes / 1e6
    result = compared.table(f"doc_local_search in {pages:,} pages, {size:.1f} MB")
    result.notes.append(
        f"The engine's own query and snippets, called directly: {compared.engine_ms:.3f} CPU ms."
    )
    for connections in CONNECTIONS:
        at = at_connections(connections)
        fastapi = compared.measured[FASTAPI, connections].cpu_ms
        for pairs in (bench.sizes.pairs[0], bench.sizes.pairs[-1]):
            result.targets.append(
                Target(
                    name=f"CPU with {pairs:,} pairs, {at}",
                    limit=fastapi + 2.2 * compared.engine_ms,
                    measured=compared.measured[service(pairs), connections].cpu_ms,
                    unit="ms",
                    how="bare FastAPI + 2.2 x engine",
                )
            )
    return result


def _compare(
    bench: Bench, name: str, bodies: list[str], calls: int, *, engine: Engine | None = None
) -> Comparison:
    """Measure the candidates by turns."""
    with ExitStack() as stack:
        servers = _start(bench, name, bodies, stack)
        answer_bytes = len(servers[ASGI].request(EXECUTE, bodies[0]))
        rounds: dict[_Key, list[Measured]] = {
            (candidate, connections): [] for connections in CONNECTIONS for candidate in servers
        }
        engine_ms: list[float] = []
        for candidate, connections in rounds:
            warm_up = max(60, int(calls * _WARM_UP))
            bench.measure(
                servers[candidate], _job(servers[candidate], bodies, connections, warm_up)
            )
        for number in range(bench.sizes.rounds):
            bench.show_progress(f"  {name}: round {number + 1} of {bench.sizes.rounds}")
            for (candidate, connections), found in rounds.items():
                server = servers[candidate]
                found.append(bench.measure(server, _job(server, bodies, connections, calls)))
            if engine is not None:
                engine_ms.append(engine.query_cpu_ms(bench.corpus.queries))
    return Comparison(
        measured={key: medians(found) for key, found in rounds.items()},
        engine_ms=sorted(engine_ms)[len(engine_ms) // 2] if engine_ms else 0.0,
        answer_bytes=answer_bytes,
    )


def _job(server: Server, bodies: list[str], connections: int, calls: int) -> Job:
    return Job(
        port=server.port,
        path=EXECUTE,
        bodies=bodies,
        connections=connections,
        calls=calls,
        expected=OK,
    )


def _start(bench: Bench, name: str, bodies: list[str], stack: ExitStack) -> dict[str, Server]:
    """Start the candidates; the bare ones answer what the service answered."""
    documents = bench.folder(name, "big-0")
    servers: dict[str, Server] = {}
    answer = b""
    for pairs in bench.sizes.pairs:
        bench.show_progress(f"  {name}: starting the service, {pairs:,} pairs")
        server = stack.enter_context(gateway(bench.workdir, documents))
        server.wait_for(bodies[0])
        bench.open_pairs(server, pairs)
        answer = server.request(EXECUTE, bodies[0])
        servers[service(pairs)] = server
    for candidate, kind in ((FASTAPI, "fastapi"), (ASGI, "asgi")):
        server = stack.enter_context(bare(kind, bench.workdir, answer))
        server.wait_for(bodies[0])
        servers[candidate] = server
    return servers
