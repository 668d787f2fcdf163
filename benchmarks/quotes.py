"""What verify_quote gets wrong of true and nearly true quotes, and how long it takes."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from benchmarks.bench import Bench, percentile
from benchmarks.quotations import Quotations, make_quotations
from benchmarks.report import Result, Target
from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.scan_cache import ScanCache
from mcp_tools_proxy.documents.quotable_document import QuotableDocument
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.telemetry.metrics import Metrics

_QUOTES = 10_000
_QUICK_QUOTES = 400
_TIMED = 200
"""Quotes of either kind of which the time is measured."""


def measure_quotes(bench: Bench) -> Result:
    """Check true quotes, and ones with a digit, a name or a negation changed, or two halves."""
    count = _QUOTES if bench.sizes.pages >= 1_000 else _QUICK_QUOTES
    return asyncio.run(_measure(bench, make_quotations(), count))


async def _measure(bench: Bench, quotations: Quotations, count: int) -> Result:
    document = quotations.document
    empty = bench.workdir / "no-documents"
    repository = DocumentRepository(
        FolderStore(empty, ScanCache(bench.workdir, empty)),
        cache_bytes=10**9,
        hide_foreign_documents=False,
        metrics=Metrics(),
    )
    repository.hold(document)
    caller = Caller(tenant_id=document.tenant_id, user_id="bench")
    found = await repository.find(caller, document.doc_id, WHOLE)
    started = time.perf_counter()
    await repository.check_quote(found, "a first quote")
    first_s = time.perf_counter() - started
    times = {
        "true": await _times(repository, found, quotations.true_quotes(_TIMED)),
        "nearly true": await _times(
            repository, found, (it for _, it in quotations.false_quotes(_TIMED))
        ),
    }
    repository.close()
    quotable = QuotableDocument(document)
    missed = sum(not quotable.find(it) for it in quotations.true_quotes(count))
    wrong = Counter(kind for kind, it in quotations.false_quotes(count) if quotable.find(it))
    return _report(quotations, count, missed, wrong, times, first_s)


async def _times(
    repository: DocumentRepository, found: CachedDocument, quotes: Iterable[str]
) -> list[float]:
    """Return the milliseconds of each check."""
    times: list[float] = []
    for quote in quotes:
        started = time.perf_counter()
        await repository.check_quote(found, quote)
        times.append((time.perf_counter() - started) * 1000)
    return times


def _report(
    quotations: Quotations,
    count: int,
    missed: int,
    wrong: Counter[str],
    times: Mapping[str, list[float]],
    first_s: float,
) -> Result:
    pages = quotations.document.pages
    result = Result(
        f"Quotes: {count:,} of either kind, {len(pages)} pages, {sum(map(len, pages)) / 1e6:.2f} "
        f"million characters; the first one waits {first_s:.2f} s for the levelled text and index",
        ("quotes", "p50 ms", "p99 ms"),
        [
            (kind, f"{statistics.median(those):.2f}", f"{percentile(those, 99):.2f}")
            for kind, those in times.items()
        ],
    )
    nearest_ms = percentile(times["nearly true"], 99)
    result.targets = [
        Target(name="nearly true, verified", limit=0, measured=wrong.total(), unit="quotes"),
        Target(name="true, missed", limit=0.5, measured=100 * missed / count, unit="%"),
        Target(name="p99 with the nearest passage", limit=50, measured=nearest_ms, unit="ms"),
    ]
    return result
