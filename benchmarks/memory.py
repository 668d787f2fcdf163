"""Target 4: how much the service grows by holding, and by indexing, large documents."""

import statistics

from benchmarks.bench import Bench
from benchmarks.messages import EXECUTE, call, search_calls, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import Server, gateway


def measure_memory(bench: Bench) -> Result:
    """Compare fresh processes: without documents, with them, and with their indexes."""
    documents = [f"memory-{n}" for n in range(bench.sizes.memory_documents)]
    empty, full = bench.folder("memory-none"), bench.folder("memory", *documents)
    before, loaded, indexed = [], [], []
    for number in range(bench.sizes.memory_rounds):
        bench.show_progress(f"  memory: round {number + 1} of {bench.sizes.memory_rounds}")
        with gateway(bench.workdir, empty) as server:
            server.wait_for(call_without_document())
            before.append(server.rss_bytes())
        with gateway(bench.workdir, full) as server:
            server.wait_for(section_calls(documents[0])[0])
            loaded.append(server.rss_bytes())
            _index(bench, server, documents)
            indexed.append(server.rss_bytes())
    held = bench.corpus.text_bytes * len(documents)
    return _report(
        statistics.median(before), statistics.median(loaded), statistics.median(indexed), held
    )


def call_without_document() -> str:
    """Build a call that needs no document."""
    return call("list_available_tools")


def _index(bench: Bench, server: Server, documents: list[str]) -> None:
    for doc_id in documents:
        server.request(EXECUTE, search_calls(doc_id, bench.corpus)[0])


def _report(before: float, loaded: float, indexed: float, held: int) -> Result:
    def row(name: str, rss: float, base: float) -> tuple[str, ...]:
        grown = rss - base
        return name, f"{rss / 1e6:.1f}", f"{grown / 1e6:+.1f}", f"{grown / held:.2f}"

    result = Result(
        f"Memory, {held / 1e6:.1f} MB of text held (UTF-8)",
        ("state of the process", "RSS MB", "grown by MB", "x text"),
        [
            ("no documents", f"{before / 1e6:.1f}", "-", "-"),
            row("documents loaded", loaded, before),
            row("all searched once (the indexes alone)", indexed, loaded),
            row("all searched once (in all)", indexed, before),
        ],
    )
    result.targets = [
        Target(
            name="growth / text held, loaded",
            limit=3,
            measured=(loaded - before) / held,
            unit="x",
        ),
        Target(
            name="growth / text held, indexes included",
            limit=3,
            measured=(indexed - before) / held,
            unit="x",
        ),
    ]
    return result
