"""Documents that are not all in memory: what reading, starting and holding them costs."""

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.corpus import TENANT
from benchmarks.echo_calls import posted
from benchmarks.memory import call_without_document
from benchmarks.messages import EXECUTE, OK, call
from benchmarks.paired import Comparison, measure_by_turns, table_of
from benchmarks.report import Result, Target
from benchmarks.servers import (
    NO_CALL_REFUSED,
    ROOT,
    Server,
    free_ports,
    gateway,
    start_process,
)
from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.document import Document
from tests.support.postgres_databases import PostgresDatabase, running_databases

PAGE = "The server of the directory was configured with a rule for each user. " * 28
"""A page of 2 kB."""

COLD_DOCUMENTS = 600
STARTED_DOCUMENTS = 20_000
HELD_DOCUMENTS, HELD_PAGES = 2_000, 50
"""2,000 documents of 100 kB."""

COLD_CACHE = {**NO_CALL_REFUSED, "MCP_PROXY_DOCUMENTS_CACHE_BYTES": "1000000"}
"""Less than the pages that a round of COLD_DOCUMENTS reads, so that each of them is cold."""

NO_CACHE = {**NO_CALL_REFUSED, "MCP_PROXY_DOCUMENTS_CACHE_BYTES": "1"}
ROUNDS = 5


def document(doc_id: str, pages: int) -> Document:
    """Build a document of 2 kB pages, each with a word of its own."""
    return Document(
        tenant_id=TENANT,
        doc_id=doc_id,
        title=f"Document {doc_id}",
        pages=tuple(f"{doc_id}-{number} {PAGE}" for number in range(1, pages + 1)),
    )


def pages_of(doc_id: str, first: int = 1) -> str:
    """Build a call that reads two pages."""
    return call("read_doc_pages", doc_id=doc_id, page_start=first, page_end=first + 1)


def measure_documents(bench: Bench) -> Result:
    """Measure calls by turns: warm and cold, from a folder and from PostgreSQL."""
    small, big = ("small-0", "small-1"), ("big-0", "big-1")
    made = [
        *(document(f"cold-{number}", 4) for number in range(COLD_DOCUMENTS)),
        *(document(doc_id, 30) for doc_id in small),
        *(document(doc_id, 3_000) for doc_id in big),
    ]
    with ExitStack() as stack:
        folder = bench.workdir / "documents-folder"
        for one in made:
            write_document(folder, one, replace=True)
        database = stack.enter_context(_database(made))
        over_postgres = {"MCP_PROXY_DOCUMENTS_URL": database.url}

        def served(settings: Mapping[str, str]) -> Server:
            server = stack.enter_context(gateway(bench.workdir, folder, settings))
            server.wait_for(pages_of("small-0"))
            wait_until_read(server)
            return server

        warm_folder, warm_postgres = (
            served(NO_CALL_REFUSED),
            served(NO_CALL_REFUSED | over_postgres),
        )
        cold_postgres, bare = (
            served(COLD_CACHE | over_postgres),
            stack.enter_context(_bare(bench.workdir, database.url)),
        )
        no_cache_folder, no_cache_postgres = served(NO_CACHE), served(NO_CACHE | over_postgres)
        cold = [pages_of(f"cold-{number}") for number in range(COLD_DOCUMENTS)]
        calls = bench.sizes.ratio_calls
        comparisons = []
        for connections in (1, 16):
            comparisons += [
                Comparison(
                    name="warm pages, PostgreSQL / folder",
                    limit=1.07,
                    ours=posted(warm_postgres, [pages_of("small-0")], OK, connections, calls),
                    other=posted(warm_folder, [pages_of("small-0")], OK, connections, calls),
                ),
                Comparison(
                    name="cold pages, PostgreSQL / bare endpoint",
                    limit=1.5,
                    ours=posted(cold_postgres, cold, OK, connections, calls),
                    other=posted(bare, cold, OK, connections, calls),
                ),
            ]
        for name, server in (("folder", no_cache_folder), ("PostgreSQL", no_cache_postgres)):
            comparisons.append(
                Comparison(
                    name=f"cold pages of 6 MB / of 60 kB, {name}",
                    limit=1.2,
                    ours=posted(server, [*map(pages_of, big)], OK, 1, calls // 3),
                    other=posted(server, [*map(pages_of, small)], OK, 1, calls // 3),
                )
            )
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    return table_of("CPU of reading documents", comparisons)


def measure_many_documents(bench: Bench) -> Result:
    """Measure memory with many documents read, starts with very many, and the first search."""
    result = Result("Many documents", ("what", "measured", "beside"), [])
    empty = bench.workdir / "documents-none"
    empty.mkdir()
    _measure_memory(bench, empty, result)
    _measure_starts(bench, empty, result)
    _measure_first_search(bench, result)
    return result


def _measure_memory(bench: Bench, empty: Path, result: Result) -> None:
    folder = bench.workdir / "documents-held"
    for number in range(HELD_DOCUMENTS):
        write_document(folder, document(f"held-{number}", HELD_PAGES), replace=True)
    settings = {**NO_CALL_REFUSED, "MCP_PROXY_DOCUMENTS_CACHE_BYTES": str(32 * 2**20)}
    with gateway(bench.workdir, empty, settings) as server:
        server.wait_for(call_without_document())
        before = server.rss_bytes() / 1e6
    with gateway(bench.workdir, folder, settings) as server:
        server.wait_for(call_without_document())
        wait_until_read(server)
        for number in range(HELD_DOCUMENTS):
            for first in range(1, HELD_PAGES, 5):
                body = call(
                    "read_doc_pages",
                    doc_id=f"held-{number}",
                    page_start=first,
                    page_end=first + 4,
                )
                server.request(EXECUTE, body)
        after = server.rss_bytes() / 1e6
    _add(
        result,
        "memory, 2,000 documents of 100 kB read",
        60,
        after - before,
        "MB",
        f"{before:.0f} MB",
    )


def _measure_starts(bench: Bench, empty: Path, result: Result) -> None:
    folder = bench.workdir / "documents-started"
    made = [document(f"started-{number}", 1) for number in range(STARTED_DOCUMENTS)]
    for one in made:
        write_document(folder, one, replace=True)
    body = call_without_document()
    with gateway(bench.workdir, folder) as server:  # the first start reads every file
        server.wait_for(body)
        wait_until_read(server)
    with _database(made) as database:
        over_postgres = {**NO_CALL_REFUSED, "MCP_PROXY_DOCUMENTS_URL": database.url}
        with _database([]) as nothing:
            over_nothing = {**NO_CALL_REFUSED, "MCP_PROXY_DOCUMENTS_URL": nothing.url}
            seconds: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for name, documents, settings in (
                    ("empty folder", empty, NO_CALL_REFUSED),
                    ("folder", folder, NO_CALL_REFUSED),
                    ("empty PostgreSQL", empty, over_nothing),
                    ("PostgreSQL", empty, over_postgres),
                ):
                    began = time.perf_counter()
                    with gateway(bench.workdir, documents, settings) as server:
                        server.wait_for("", "/health/ready", method="GET", expected="documents")
                        seconds.setdefault(name, []).append(time.perf_counter() - began)
    median = {name: statistics.median(found) for name, found in seconds.items()}
    for name, limit in (("folder", 1.5), ("PostgreSQL", 1.2)):
        base = median[f"empty {name}"]
        what = f"start with 20,000 documents / with none, {name}"
        _add(result, what, limit, median[name] / base, "x", f"{median[name]:.2f} s, {base:.2f} s")


def _measure_first_search(bench: Bench, result: Result) -> None:
    folder = bench.workdir / "documents-searched"
    names = [f"searched-{number}" for number in range(9)]
    for doc_id in names:
        write_document(folder, document(doc_id, 300), replace=True)
    first: list[float] = []
    warm: list[float] = []
    with gateway(bench.workdir, folder) as server:
        server.wait_for(call_without_document())
        wait_until_read(server)
        for doc_id in names:
            body = call("doc_local_search", doc_id=doc_id, query=f"{doc_id}-7 directory rule")
            for times in (first, warm):
                began = time.perf_counter()
                server.request(EXECUTE, body)
                times.append((time.perf_counter() - began) * 1e3)
    added = statistics.median(first) - statistics.median(warm)
    what = "first search in 300 pages, added to a warm one"
    _add(result, what, 400, added, "ms", f"{statistics.median(warm):.1f} ms")


def _add(result: Result, what: str, limit: float, measured: float, unit: str, base: str) -> None:
    result.rows.append((what, f"{measured:.2f} {unit}", base))
    result.targets.append(Target(name=what, limit=limit, measured=measured, unit=unit))


def wait_until_read(server: Server) -> None:
    """Wait until every file was read in the background, or there is no folder."""
    while b'"files_not_read":0' not in (
        ready := server.request("/health/ready", method="GET", expected="documents")
    ):
        if b'"store":"postgresql"' in ready:
            return
        time.sleep(0.05)


@contextmanager
def _database(made: Sequence[Document]) -> Iterator[PostgresDatabase]:
    """Run a PostgreSQL that holds those documents."""
    with running_databases() as databases:
        database = PostgresDatabase(databases.server, "migrated")
        asyncio.run(_fill(database, made))
        yield database


async def _fill(database: PostgresDatabase, made: Sequence[Document]) -> None:
    writer = PostgresWriter(Database(database.url, timeout_s=60))
    for one in made:
        await writer.put(one, expected=Expected.ANYTHING, keep_readers=False)
    await writer.close()


@contextmanager
def _bare(workdir: Path, url: str) -> Iterator[Server]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "benchmarks.bare_postgres", url, str(port)]
    server = Server(start_process(command, ROOT, workdir, {}), port)
    try:
        server.wait_for(pages_of("small-0"))
        yield server
    finally:
        server.stop()
