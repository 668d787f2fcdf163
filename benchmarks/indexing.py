"""Target 3: what indexing costs beside the engine's own, and what other calls feel of it."""

import statistics
import time
from dataclasses import dataclass, field

from benchmarks.bench import Bench, percentile
from benchmarks.engine import Indexing, bulk_index, chunk_texts
from benchmarks.load import Job, Outcome
from benchmarks.messages import EXECUTE, OK, search_calls, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import Server, gateway

CONNECTIONS = 4
_UNDISTURBED_S = 2.0
_LEAD_S = 0.3
_UNDER_LOAD = 4
"""How many times longer than alone an indexing under load may take, for the load to cover it."""


@dataclass(slots=True)
class _Rounds:
    engine: list[Indexing] = field(default_factory=list)
    service: list[Indexing] = field(default_factory=list)
    loaded_wall_s: list[float] = field(default_factory=list)
    quiet_p99_ms: list[float] = field(default_factory=list)
    loaded_p99_ms: list[float] = field(default_factory=list)


def measure_indexing(bench: Bench) -> Result:
    """Index fresh documents, alone and under load, taking turns with the engine."""
    count = bench.sizes.indexings
    documents = [f"index-{n}" for n in range(2 * count + 1)]
    folder = bench.folder("indexing", *documents)
    rounds = _Rounds()
    with gateway(bench.workdir, folder) as server:
        server.wait_for(section_calls(documents[-1])[0])
        _index(bench, server, documents[-1])
        for number in range(count):
            bench.show_progress(f"  indexing: round {number + 1} of {count}")
            alone, under_load = documents[2 * number : 2 * number + 2]
            rounds.engine.append(bulk_index(chunk_texts(bench.corpus.document(alone))))
            rounds.service.append(_index(bench, server, alone))
            outcome = bench.run(_load(server, documents[-1], _UNDISTURBED_S))
            rounds.quiet_p99_ms.append(percentile(outcome.times, 99) * 1000)
            _index_under_load(bench, server, under_load, rounds)
    return _report(bench, rounds)


def _index(bench: Bench, server: Server, doc_id: str) -> Indexing:
    """Search a document for the first time, which waits for its index."""
    body = search_calls(doc_id, bench.corpus)[0]
    started, cpu_started = time.perf_counter(), server.cpu_s()
    server.request(EXECUTE, body)
    return Indexing(server.cpu_s() - cpu_started, time.perf_counter() - started)


def _index_under_load(bench: Bench, server: Server, doc_id: str, rounds: _Rounds) -> None:
    expected_s = rounds.service[-1].wall_s * _UNDER_LOAD
    bench.begin(_load(server, doc_id, _LEAD_S + expected_s))
    try:
        time.sleep(_LEAD_S)
        started = time.perf_counter()
        rounds.loaded_wall_s.append(_index(bench, server, doc_id).wall_s)
        ended = time.perf_counter()
    finally:
        outcome = bench.finish()
    rounds.loaded_p99_ms.append(percentile(between(outcome, started, ended), 99) * 1000)


def between(outcome: Outcome, started: float, ended: float) -> list[float]:
    """Return the times of the calls that ran in part within that stretch."""
    calls = zip(outcome.starts, outcome.times, strict=True)
    return [took for begun, took in calls if begun < ended and begun + took > started]


def _load(server: Server, doc_id: str, seconds: float) -> Job:
    return Job(
        port=server.port,
        path=EXECUTE,
        bodies=section_calls(doc_id),
        connections=CONNECTIONS,
        seconds=seconds,
        expected=OK,
    )


def _report(bench: Bench, rounds: _Rounds) -> Result:
    own = _median(rounds.service)
    engine = _median(rounds.engine)
    quiet = statistics.median(rounds.quiet_p99_ms)
    loaded = statistics.median(rounds.loaded_p99_ms)
    size = bench.corpus.text_bytes / 1e6
    result = Result(
        f"Indexing {bench.sizes.pages:,} pages, {size:.1f} MB",
        ("candidate", "CPU s", "wall s", f"p99 ms of read_doc_section, {CONNECTIONS} connections"),
        [
            ("engine, bulk, one thread", f"{engine.cpu_s:.3f}", f"{engine.wall_s:.3f}", "-"),
            ("service, first search", f"{own.cpu_s:.3f}", f"{own.wall_s:.3f}", "-"),
            ("service, not indexing", "-", "-", f"{quiet:.2f}"),
            (
                "service, indexing meanwhile",
                "-",
                f"{statistics.median(rounds.loaded_wall_s):.3f}",
                f"{loaded:.2f}",
            ),
        ],
    )
    cpu, wall = own.cpu_s / engine.cpu_s, own.wall_s / engine.wall_s
    result.targets = [
        Target(name="CPU / engine's bulk indexing", limit=3.9, measured=cpu, unit="x"),
        Target(name="wall / engine's bulk indexing", limit=3.9, measured=wall, unit="x"),
        Target(name="p99 while indexing / undisturbed", limit=5, measured=loaded / quiet, unit="x"),
    ]
    return result


def _median(found: list[Indexing]) -> Indexing:
    return Indexing(
        statistics.median(one.cpu_s for one in found),
        statistics.median(one.wall_s for one in found),
    )
