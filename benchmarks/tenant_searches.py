"""Cost of search_documents: building a tenant's index, its effect on other calls, and searches."""

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import Bench, between, percentile
from benchmarks.corpus import TENANT
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, call
from benchmarks.report import Result, Target
from benchmarks.servers import NO_CALL_REFUSED, Server, gateway
from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import Document, Readers

PAGES = 100
CONNECTIONS = 4
SEARCHES = 600

_SEED = 20261126
_QUIET_S = 3.0
_LONGEST_S = 3_000.0
_OTHER_READERS = Readers(users=frozenset({"somebody-else"}))


def measure_tenant_searches(bench: Bench) -> Result:
    """Index a tenant's documents, half of them for another user, under load; then search."""
    count = bench.sizes.tenant_documents
    folder = bench.workdir / "tenant-searches"
    text_bytes = _write(bench, folder, count)
    quiet_cache, cache = (
        bench.workdir / "tenant-searches-quiet",
        bench.workdir / "tenant-searches-x",
    )
    with _served(bench, folder, quiet_cache) as server:
        started = time.perf_counter()
        _wait_until_indexed(server)
        alone_s = time.perf_counter() - started
    with _served(bench, folder, cache) as server:
        quiet = bench.run(_load(server, _QUIET_S))
        memory = server.rss_bytes()
        bench.begin(_load(server, 1.5 + 2 * alone_s))
        try:
            started = time.perf_counter()
            _wait_until_indexed(server)
            ended = time.perf_counter()
            grown = server.rss_bytes() - memory
        finally:
            outcome = bench.finish()
        bodies = [call("search_documents", query=query) for query in bench.corpus.queries]
        job = Job(
            port=server.port,
            path=EXECUTE,
            bodies=bodies,
            connections=1,
            calls=SEARCHES,
            expected=OK,
        )
        bench.run(job)
        warm = bench.run(job)
    speed = text_bytes / 1e6 / alone_s
    p99_quiet = percentile(quiet.times, 99) * 1000
    p99_loaded = percentile(between(outcome, started, ended), 99) * 1000
    p50 = percentile(warm.times, 50) * 1000
    size = _size(cache)
    loaded_speed = text_bytes / 1e6 / (ended - started)
    result = Result(
        f"Searching across {count:,} documents of {PAGES} pages, {text_bytes / 1e6:.0f} MB",
        ("what", "measured"),
        [
            ("indexing, nothing else to do", f"{speed:.1f} MB/s"),
            ("indexing, with 4 connections of other calls", f"{loaded_speed:.1f} MB/s"),
            ("index on disk / text", f"{size / text_bytes:.2f}"),
            ("memory that indexing adds", f"{grown / 1e6:.0f} MB"),
            ("read_doc_pages, undisturbed, p99", f"{p99_quiet:.2f} ms"),
            ("read_doc_pages, while indexing, p99", f"{p99_loaded:.2f} ms"),
            ("search_documents, warm, p50", f"{p50:.1f} ms"),
            ("search_documents, warm, p99", f"{percentile(warm.times, 99) * 1000:.1f} ms"),
        ],
    )
    result.targets = [
        Target(name="warm p50 of search_documents", limit=30, measured=p50, unit="ms"),
        Target(
            name="p99 of other calls while indexing / undisturbed",
            limit=3,
            measured=p99_loaded / p99_quiet,
            unit="x",
        ),
        Target(name="seconds to index 3 MB", limit=1, measured=3 / speed, unit="s"),
    ]
    return result


@contextmanager
def _served(bench: Bench, folder: Path, cache: Path) -> Iterator[Server]:
    """Run the service with indexes in ``cache``, after it has read all documents."""
    settings = {**NO_CALL_REFUSED, "MCP_PROXY_CACHE_DIR": str(cache)}
    with gateway(bench.workdir, folder, settings) as server:
        server.wait_for(_pages())
        _wait_until_read(server)
        yield server


def _write(bench: Bench, folder: Path, count: int) -> int:
    """Write the documents; return the bytes of their text."""
    chance = random.Random(_SEED)  # noqa: S311 - not for secrets
    text_bytes = 0
    for number in range(count):
        pages = [
            chance.choice(bench.corpus.pages).replace(" ", f" w{chance.randrange(10**6)} ", 1)
            for _ in range(PAGES)
        ]
        text_bytes += sum(len(page.encode()) for page in pages)
        document = Document(
            tenant_id=TENANT,
            doc_id=f"d{number}",
            title=f"Document {number}",
            pages=tuple(pages),
            readers=_OTHER_READERS if number % 2 else None,
        )
        write_document(folder, document, replace=True)
    return text_bytes


def _wait_until_read(server: Server) -> None:
    """Wait until all files were read in the background."""
    while b'"files_not_read":0' not in server.request(
        "/health/ready", method="GET", expected="documents"
    ):
        time.sleep(0.05)


def _wait_until_indexed(server: Server) -> None:
    body = call("search_documents", query="anything")
    limit = time.perf_counter() + _LONGEST_S
    while "indexing" in json.loads(server.request(EXECUTE, body))["result"]:
        if time.perf_counter() > limit:
            raise TimeoutError("the index was not built")
        time.sleep(0.25)


def _pages() -> str:
    return call("read_doc_pages", doc_id="d0", page_start=1, page_end=2)


def _load(server: Server, seconds: float) -> Job:
    return Job(
        port=server.port,
        path=EXECUTE,
        bodies=[_pages()],
        connections=CONNECTIONS,
        seconds=seconds,
        expected=OK,
    )


def _size(folder: Path) -> int:
    """Return the bytes of the indexes below a folder."""
    files = folder.glob("tenant-search-*/*/*")
    return sum(path.stat().st_size for path in files)
