"""Builds search indexes and caches the most recently used; builds and searches block no calls."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from mcp_tools_proxy.documents.search_index import SearchIndex, build_index
from mcp_tools_proxy.domain.document import Document, Hit
from mcp_tools_proxy.domain.errors import ShuttingDown
from mcp_tools_proxy.telemetry.metrics import Metrics

CACHE_BYTES = 128 * 1024 * 1024
"""Text covered by all cached indexes together, in bytes of UTF-8."""

BUILDER_MAX_CHARS = (200_000, 5_000_000, math.inf)
"""Largest document, in characters of text, for each of the building threads. A small one does not
wait behind a large one, which may be another tenant's."""

INDEX_BYTES = 64 * 1024
"""Fixed size of an index, added to its text's."""

_Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class _CachedIndex:
    """The index of this very ``document``; ``size_bytes`` is 0 until ``build`` is done."""

    document: Document
    build: asyncio.Future[SearchIndex]
    size_bytes: int = 0


class IndexCache:
    """Builds each index once and caches the most recently used ones; for one event loop.

    Each of BUILDER_MAX_CHARS has a thread that builds one index at a time. Quick searches run on
    the event loop, where each saves 0.07 to 0.2 ms of CPU; one in each of its iterations, for with
    several other calls took 29 ms instead of 1.1 (p50, 16 callers). Slower searches run in one
    thread; more threads would only take the GIL from the loop.
    """

    def __init__(
        self,
        *,
        metrics: Metrics,
        max_bytes: int = CACHE_BYTES,
        build: Callable[[Document], SearchIndex] = build_index,
    ) -> None:
        self._metrics = metrics
        self._max_bytes = max_bytes
        self._build = build
        self._builders = tuple(
            ThreadPoolExecutor(max_workers=1, thread_name_prefix="index") for _ in BUILDER_MAX_CHARS
        )
        self._searcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._turn = asyncio.Lock()
        """Held by the quick search whose turn it is."""
        self._searched = False
        """Whether a quick search has run in this iteration of the event loop."""
        self._entries: OrderedDict[_Key, _CachedIndex] = OrderedDict()
        """The indexes, least recently used first."""
        self._bytes = 0
        """Size of the finished indexes."""
        self._closed = False

    def __repr__(self) -> str:
        building = sum(not entry.build.done() for entry in self._entries.values())
        return (
            f"<IndexCache: {len(self._entries) - building} indexes, {building} building,"
            f" {self._bytes} of {self._max_bytes} bytes>"
        )

    async def get(self, document: Document) -> SearchIndex:
        """Return the index of this very Document, built now if it is not cached.

        A replaced document's index is dropped. A cancelled caller does not cancel the build, for
        which others may wait; a failed build raises in all waiting callers and is not cached.
        Raises ShuttingDown once closed, and the build's exceptions.
        """
        self._check_open()
        key = (document.tenant_id, document.doc_id)
        entry = self._entries.get(key)
        if entry is None or entry.document is not document:
            entry = self._start(key, document)
        self._entries.move_to_end(key)
        try:
            return await asyncio.shield(entry.build)
        except asyncio.CancelledError:
            if entry.build.cancelled():
                raise _shutting_down() from None
            raise

    async def search(self, document: Document, query: str, max_results: int) -> tuple[Hit, ...]:
        """Search the document's index (SearchIndex.search). Raises what ``get`` raises."""
        index = await self.get(document)
        if index.is_quick(query):
            return await self._search_here(index, query, max_results)
        self._check_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._searcher, index.search, query, max_results)

    async def _search_here(
        self, index: SearchIndex, query: str, max_results: int
    ) -> tuple[Hit, ...]:
        """Search on the event loop, once in each iteration, so that other ready tasks run."""
        async with self._turn:
            if self._searched:
                await asyncio.sleep(0)
            self._check_open()
            self._searched = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
            return index.search(query, max_results)

    def _begin_turn(self) -> None:
        self._searched = False

    def drop(self, tenant_id: str, doc_id: str) -> None:
        """Remove the document's index, if there is one; searches that use it may finish."""
        entry = self._entries.pop((tenant_id, doc_id), None)
        if entry is not None:
            self._bytes -= entry.size_bytes

    def close(self) -> None:
        """Refuse further calls and cancel builds not begun; both get ShuttingDown."""
        self._closed = True
        for builder in self._builders:
            builder.shutdown(wait=False, cancel_futures=True)
        self._searcher.shutdown(wait=False)

    def _check_open(self) -> None:
        if self._closed:
            raise _shutting_down()

    def _start(self, key: _Key, document: Document) -> _CachedIndex:
        self.drop(*key)
        loop = asyncio.get_running_loop()
        size = sum(map(len, document.pages))
        builder = self._builders[
            next(n for n, most in enumerate(BUILDER_MAX_CHARS) if size <= most)
        ]
        entry = _CachedIndex(document, loop.run_in_executor(builder, self._build, document))
        entry.build.add_done_callback(partial(self._finish, key, entry))
        self._entries[key] = entry
        return entry

    def _finish(self, key: _Key, entry: _CachedIndex, build: asyncio.Future[SearchIndex]) -> None:
        failed = build.cancelled() or build.exception() is not None
        if not failed:
            self._metrics.index_builds.inc()
        if self._entries.get(key) is not entry:
            return
        if failed:
            del self._entries[key]
            return
        entry.size_bytes = build.result().text_bytes + INDEX_BYTES
        self._bytes += entry.size_bytes
        self._evict()

    def _evict(self) -> None:
        """Drop the least recently used indexes until the rest fits; the last one used stays."""
        if self._bytes <= self._max_bytes:
            return
        for key in list(self._entries)[:-1]:
            if self._bytes <= self._max_bytes:
                return
            if self._entries[key].size_bytes:
                self.drop(*key)


def _shutting_down() -> ShuttingDown:
    return ShuttingDown("this replica is stopping; send the call again")
