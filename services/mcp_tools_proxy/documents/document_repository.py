"""Document access for tools: permission checks, partial reads and caching."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mcp_tools_proxy.documents.builders import Builders, Searcher, built
from mcp_tools_proxy.documents.document_cache import CHUNK_BYTES, CachedDocument, DocumentCache
from mcp_tools_proxy.documents.document_store import (
    HEAD_ONLY,
    SEPARATOR,
    CatalogEntry,
    CatalogPage,
    CatalogQuery,
    ChangeListener,
    DocumentStore,
    Key,
    Reading,
    Wanted,
    folded_names,
    has_expired,
    in_time,
)
from mcp_tools_proxy.documents.layout import ChunkTable, build_table
from mcp_tools_proxy.documents.quotable_document import QuotableDocument, QuoteCheck
from mcp_tools_proxy.documents.search.page_scan import scan_document
from mcp_tools_proxy.documents.search.search_index import INDEX_BYTES, SearchIndex, build_index
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.audit import DOCUMENT, RuleSource
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, DocumentHead, Hit
from mcp_tools_proxy.domain.errors import (
    AccessDenied,
    DocumentNotFound,
    DocumentRefused,
    DocumentsUnavailable,
    VersionNotKept,
)
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.spans import child_span
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote

if TYPE_CHECKING:  # numpy is an extra
    from mcp_tools_proxy.documents.embeddings.meaning_search import MeaningSearch


READERS = RuleSource(DOCUMENT, "$.readers")
"""Audit rule for documents whose readers do not include the user."""

NOT_A_READER = "the tenant has the document, and its readers do not include this user or its roles"

NOT_THERE = "the tenant does not have a document with this id"

NOT_BOUND = "the request, the token or the agent's profile allows only other documents"

OF_ANOTHER = f"{NOT_THERE}; another tenant has one"


def because_of_readers(refusal: DocumentRefused) -> DocumentRefused:
    """Add the operator-only reason "not a reader" to a refusal."""
    refusal.reason, refusal.rule = NOT_A_READER, READERS
    return refusal


def access_denied(doc_id: str) -> AccessDenied:
    """Return the error for a document of another tenant."""
    return AccessDenied(
        f"the user has no access to document {quote(doc_id)}; do not try again: use a "
        "doc_id that belongs to the user, or tell the user",
        reason=OF_ANOTHER,
    )


def not_found(doc_id: str) -> DocumentNotFound:
    """Return the error for an unknown document."""
    return DocumentNotFound(
        f"there is no document {quote(doc_id)}; check the doc_id letter by letter against the "
        "one you were given, or ask the user which document is meant",
        reason=NOT_THERE,
    )


def not_bound(refusal: DocumentRefused) -> DocumentRefused:
    """Add the operator-only reason "bound to other documents" to a refusal."""
    refusal.reason, refusal.is_unbound = NOT_BOUND, True
    return refusal


T = TypeVar("T")

WHOLE = Wanted(whole=True)

CANDIDATES = 5
"""Search hits around which the closest passage to a quote is sought."""

ATTEMPTS = 3
"""Reads of a document that keeps being replaced."""

INDEX_WAIT_S = 1.0
"""Seconds that a search waits for the index of its document."""


class FoundHits(NamedTuple):
    """The hits of a search, and whether they come from the index or from a scan of the pages."""

    hits: tuple[Hit, ...]
    is_indexed: bool


class DocumentRepository:
    """Documents by tenant and doc_id, for use on one event loop.

    Results, errors and rankings never contain data of another tenant or of a document that the
    caller cannot read (contract §2): every request goes through ``find``. Each method raises
    AccessDenied if a document with that id exists but the caller cannot read it, in any tenant;
    DocumentNotFound if no tenant has one or ``hide_foreign_documents`` is set; DocumentsUnavailable
    while the store cannot be read.

    A cached document is served without a store request if the store reports all changes and has
    reported none for the document. Otherwise its head is read again, and its cached texts are
    reused if the version is the same. A change reported during a read marks the result as outdated:
    it is returned but not cached.
    """

    def __init__(
        self,
        store: DocumentStore,
        *,
        cache_bytes: int,
        hide_foreign_documents: bool,
        metrics: Metrics,
        on_changed: Callable[[Key], None] = lambda _: None,
        build_index: Callable[[Document], SearchIndex] = build_index,
        meaning: "MeaningSearch | None" = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``on_changed`` is called with the key of each changed document.

        Without ``meaning``, searches match words only.
        """
        self._meaning = meaning
        self._clock = clock
        self._store = store
        self._on_changed = on_changed
        self._hide_foreign_documents = hide_foreign_documents
        self._metrics = metrics
        self._hits = self._misses = 0
        metrics.document_cache_hits.set_function(lambda: self._hits)
        metrics.document_cache_misses.set_function(lambda: self._misses)
        self._build_index = build_index
        self._cache = DocumentCache(max_bytes=cache_bytes, metrics=metrics)
        self._changes = 0
        self._builders = Builders()
        self._searcher = Searcher()
        self._held: dict[Key, CachedDocument] = {}
        self._held_since = datetime.now(UTC)
        self._only_held: set[Key] = set()
        """Held documents that the store is known not to have."""
        self._reads: dict[Key, set[_Read]] = {}
        self._listeners: list[ChangeListener] = []
        store.listen(self)

    def __repr__(self) -> str:
        return f"<DocumentRepository over {self._store!r}: {self._cache!r}>"

    def hold(self, document: Document) -> None:
        """Serve an in-memory document unless the store has one with the same id."""
        key = (document.tenant_id, document.doc_id)
        self._held[key] = CachedDocument(Reading(head=head_of(document), document=document))

    def held(self, tenant_id: str) -> Mapping[str, CachedDocument]:
        """Return a tenant's in-memory documents by doc_id."""
        return {doc_id: it for (tenant, doc_id), it in self._held.items() if tenant == tenant_id}

    def listen(self, listener: ChangeListener) -> None:
        """Forward the store's changes to ``listener``."""
        self._listeners.append(listener)

    def changed(self, key: Key) -> None:
        """Invalidate a document that may have changed."""
        self._on_changed(key)
        self._changes += 1
        for listener in self._listeners:
            listener.changed(key)
        self._cache.mark(key)
        self._only_held.discard(key)
        for read in self._reads.get(key, ()):
            read.is_outdated = True

    def all_changed(self) -> None:
        """Invalidate all documents."""
        self._changes += 1
        for listener in self._listeners:
            listener.all_changed()
        self._cache.mark_all()
        self._only_held.clear()
        for reads in self._reads.values():
            for read in reads:
                read.is_outdated = True

    async def find(self, caller: Caller, doc_id: str, wanted: Wanted = HEAD_ONLY) -> CachedDocument:
        """Return a document that the caller can read, with at least the wanted parts."""
        if caller.documents is not None:
            self.check_bound(caller.documents, doc_id)
        key = (caller.tenant_id, doc_id)
        found = self._from_memory(key, wanted)
        if found is not None and _admits(found, caller) and not self._has_expired(found):
            return found
        async with in_time(self._store):
            found = found or await self._find(key, wanted)
            if found is None or self._has_expired(found):
                raise await self._refusal(doc_id)
            if not _admits(found, caller):
                raise because_of_readers(await self._refusal(doc_id))
            return found

    async def find_version(
        self, caller: Caller, doc_id: str, version: str, wanted: Wanted
    ) -> CachedDocument:
        """Return the current version of a document, or a kept older one (whole).

        The readers of the current version apply to all versions. Also raises VersionNotKept.
        """
        present = await self.find(caller, doc_id)
        if present.head.version == version:
            present = await self.find(caller, doc_id, wanted)  # it may have been replaced
        if present.head.version == version:
            return present
        async with in_time(self._store):
            older = await self._find_older(present.head, version)
        if present.head.is_untrusted:  # its file tells what it was marked when it was replaced
            older.head = replace(older.head, is_untrusted=True)
        return older

    async def _find_older(self, present: DocumentHead, version: str) -> CachedDocument:
        """Return an older version, whole. Raises VersionNotKept, DocumentsUnavailable.

        Older versions have no readers: callers check those of ``present``.
        """
        key = (present.tenant_id, present.doc_id)
        if self._store.is_current and (found := self._cache.get((*key, version))):
            return found
        changes = self._changes
        with child_span("document.read"):
            reading = await self._store.read_older(key, version)
        if reading is None:
            raise _not_kept(key, version, present.version)
        if changes != self._changes:  # it may have been removed: do not cache it
            return CachedDocument(reading)
        return self._cache.keep_older(key, reading)

    def check_bound(self, documents: frozenset[str], doc_id: str) -> None:
        """Check that a caller is bound to a document.

        The store is not read, so the error does not reveal whether the document exists.
        """
        if doc_id not in documents:
            hides = self._hide_foreign_documents and documents
            raise not_bound(not_found(doc_id) if hides else access_denied(doc_id))

    async def find_for_any_reader(
        self, caller: Caller, doc_id: str, wanted: Wanted = HEAD_ONLY
    ) -> CachedDocument:
        """Return a document of the caller's tenant if another gateway has checked its readers."""
        key = (caller.tenant_id, doc_id)
        async with in_time(self._store):
            found = self._from_memory(key, wanted) or await self._find(key, wanted)
            if found is None or self._has_expired(found):
                raise await self._refusal(doc_id)
            return found

    async def list_readable(self, query: CatalogQuery) -> CatalogPage:
        """List the documents that the query's caller can read, ordered by doc_id."""
        tenant_id = query.caller.tenant_id
        async with in_time(self._store):
            with child_span("document.list"):
                with_next = replace(query, limit=query.limit + 1)
                listed = [*await self._store.list_readable(with_next)]
            listed += [it for it in self._held_entries(query) if not await self._is_stored(it)]
        listed.sort(key=lambda entry: entry.head.doc_id)
        return CatalogPage(
            entries=listed[: query.limit],
            has_more=len(listed) > query.limit,
            is_pending=self._store.is_pending(tenant_id),
        )

    async def readable_ids(self, query: CatalogQuery) -> frozenset[str]:
        """Return the ids of all documents that a query admits, without its limit."""
        async with in_time(self._store):
            with child_span("document.list"):
                stored = await self._store.readable_ids(query)
            held = [it for it in self._held_entries(query) if not await self._is_stored(it)]
        return frozenset((*stored, *(entry.head.doc_id for entry in held)))

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether some of the tenant's documents may be unknown yet."""
        return self._store.is_pending(tenant_id)

    async def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is, or could be, limited to some users."""
        held = (entry.head for (tenant, _), entry in self._held.items() if tenant == tenant_id)
        if any(head.readers is not None for head in held):
            return True
        async with in_time(self._store):
            return await self._store.has_readers(tenant_id)

    async def search(self, found: CachedDocument, query: str, *, max_results: int) -> FoundHits:
        """Return the places in a document, found WHOLE, that match ``query``, best first (T-07).

        Accepts any query text; there are no hits without a match. If the index is not built within
        INDEX_WAIT_S, the pages are scanned. Raises ShuttingDown after ``close``.
        """
        index = await self._index_in_time(found)
        if index is None:
            return FoundHits(await self._scan(found, query, max_results), is_indexed=False)
        similar: Mapping[int, float] = {}
        if self._meaning is not None:
            similar = await self._meaning.similar(found, index.chunk_count, query, self._cache.grow)
        with child_span("document.search"):
            hits = await self._searcher.search(index, query, max_results, similar)
        return FoundHits(hits, is_indexed=True)

    async def _scan(self, found: CachedDocument, query: str, max_results: int) -> tuple[Hit, ...]:
        if found.document is None:
            raise RuntimeError("only of a document that was found whole")
        scan = partial(scan_document, found.document, query, max_results)
        with child_span("document.search"):
            return await self._searcher.call(scan)

    async def _index_in_time(self, found: CachedDocument) -> SearchIndex | None:
        """Return the index of a document; None if it is not built soon."""
        try:
            async with asyncio.timeout(INDEX_WAIT_S):
                return await self._index_of(found)
        except TimeoutError:
            return None

    async def check_quote(self, found: CachedDocument, quote: str) -> QuoteCheck:
        """Find a quote word for word in a document, found WHOLE, or the closest passage.

        The passage is sought around the best hits of a search for the quote.
        """
        if found.quotable is None or _failed(found.quotable):
            found.quotable = self._start(found, QuotableDocument, self._count_quotable)
        quotable = await built(found.quotable)
        with child_span("document.check_quote"):
            spans = await self._searcher.call(partial(quotable.find, quote))
        if spans:
            return QuoteCheck(spans=spans)
        index = await self._index_in_time(found)
        if index is None:
            hits = await self._scan(found, quote, CANDIDATES)
        else:
            hits = await self._searcher.search(index, quote, CANDIDATES)
        near = [hit.span for hit in hits if hit.span is not None]
        return QuoteCheck(nearest=await self._searcher.call(partial(quotable.nearest, quote, near)))

    async def _index_of(self, found: CachedDocument) -> SearchIndex:
        if found.index is None or _failed(found.index):
            found.index = self._start(found, self._build_index, self._count_index)
        return await built(found.index)

    async def chunks(self, found: CachedDocument) -> ChunkTable:
        """Return the chunks of a document that was found WHOLE."""
        if found.chunks is None or _failed(found.chunks):
            found.chunks = self._start(found, build_table, self._count_chunks)
        return await built(found.chunks)

    def close(self) -> None:
        """Stop searches; documents can still be read."""
        self._builders.close()
        self._searcher.close()

    def _has_expired(self, found: CachedDocument) -> bool:
        return found.head.expires_at is not None and has_expired(found.head, self._clock())

    def _held_entries(self, query: CatalogQuery) -> Iterator[CatalogEntry]:
        for (tenant_id, doc_id), entry in self._held.items():
            if tenant_id == query.caller.tenant_id and doc_id > query.after:
                names = folded_names(entry.head)
                if query.admits(entry.head, names, SEPARATOR.join(names)):
                    yield CatalogEntry(head=entry.head, updated=self._held_since)

    async def _is_stored(self, entry: CatalogEntry) -> bool:
        """Return whether the store has a document with the same id, which takes precedence."""
        key = (entry.head.tenant_id, entry.head.doc_id)
        return await self._store.read(key, HEAD_ONLY) is not None

    def _from_memory(self, key: Key, wanted: Wanted) -> CachedDocument | None:
        """Return ``_in_memory``, and count the cache hit or miss."""
        found = self._in_memory(key, wanted)
        if found is None:
            self._misses += 1
        else:
            self._hits += 1
        return found

    def _in_memory(self, key: Key, wanted: Wanted) -> CachedDocument | None:
        """Return a document that needs no store request, or None."""
        if not self._store.is_current:
            return None
        entry = self._cache.get(key)
        if entry is not None and self._cache.is_checked(entry) and entry.has(wanted):
            return entry
        return self._held.get(key) if key in self._only_held else None

    async def _find(self, key: Key, wanted: Wanted) -> CachedDocument | None:
        """Return a document with the wanted parts of one version, or None."""
        for _ in range(ATTEMPTS):
            if found := self._in_memory(key, wanted):
                return found
            entry = self._cache.get(key)
            is_here = entry is not None and entry.has(wanted)
            entry = await self._read(key, HEAD_ONLY if is_here else wanted)
            if entry is None:
                return self._held.get(key)
            if entry.has(wanted):
                return entry
        raise DocumentsUnavailable(
            "the document is being changed; try again in a moment", retry_after_s=1
        )

    async def _read(self, key: Key, wanted: Wanted) -> CachedDocument | None:
        """Read from the store; cache the result unless the document changed during the read."""
        with self._noted(key) as read, child_span("document.read") as span:
            reading = await self._store.read(key, wanted)
            if reading is not None:  # an id without a document could be any text
                span.set({"mcp_proxy.document_id": key[1][:QUOTE_CHARS]})
        if reading is not None:
            return CachedDocument(reading) if read.is_outdated else self._cache.keep(key, reading)
        self._cache.drop(key)
        if key in self._held and not read.is_outdated:
            self._only_held.add(key)
        return None

    @contextmanager
    def _noted(self, key: Key) -> Iterator["_Read"]:
        read = _Read()
        reads = self._reads.setdefault(key, set())
        reads.add(read)
        try:
            yield read
        finally:
            reads.discard(read)
            if not reads and self._reads.get(key) is reads:
                del self._reads[key]

    async def _refusal(self, doc_id: str) -> DocumentRefused:
        if not self._hide_foreign_documents and (
            any(doc_id == held for _, held in self._held) or await self._store.has_doc_id(doc_id)
        ):
            return access_denied(doc_id)
        return not_found(doc_id)

    def _start(
        self,
        found: CachedDocument,
        build: Callable[[Document], T],
        count: Callable[[CachedDocument, T], None],
    ) -> asyncio.Future[T]:
        """Start a build from a whole document; ``count`` is called when it succeeds."""
        if found.document is None:
            raise RuntimeError("only of a document that was found whole")
        started = self._builders.start(found.document, build)

        def finish(done: asyncio.Future[T]) -> None:
            if not _failed(done):
                count(found, done.result())
            elif not done.cancelled() and (error := done.exception()) is not None:
                without_frames(error)

        started.add_done_callback(finish)
        return started

    def _count_index(self, found: CachedDocument, index: SearchIndex) -> None:
        self._metrics.index_builds.inc()
        self._cache.grow(found, index.text_bytes + INDEX_BYTES)

    def _count_quotable(self, found: CachedDocument, quotable: QuotableDocument) -> None:
        self._cache.grow(found, quotable.size_bytes)

    def _count_chunks(self, found: CachedDocument, table: ChunkTable) -> None:
        self._cache.grow(found, CHUNK_BYTES * len(table.chunks))


class _Read:
    def __init__(self) -> None:
        self.is_outdated = False


def _admits(found: CachedDocument, caller: Caller) -> bool:
    readers = found.head.readers
    return readers is None or readers.admit(caller)


def _failed(build: asyncio.Future[T]) -> bool:
    return build.done() and (build.cancelled() or build.exception() is not None)


def _not_kept(key: Key, version: str, present: str) -> VersionNotKept:
    return VersionNotKept(
        f"version {quote(version)} of document {quote(key[1])} is not kept; the current version "
        f"is {present}: leave out version to read it, and check your citations again",
        details={"version": present},
    )
