"""LRU cache of documents and of the indexes built from them."""

import sys
from asyncio import Future
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.document_store import Key, Reading, Wanted
from mcp_tools_proxy.documents.layout import ChunkTable
from mcp_tools_proxy.documents.quotable_document import QuotableDocument
from mcp_tools_proxy.documents.search.search_index import SearchIndex
from mcp_tools_proxy.domain.document import Document, DocumentHead, Section
from mcp_tools_proxy.telemetry.metrics import Metrics

if TYPE_CHECKING:  # numpy is an extra
    from mcp_tools_proxy.documents.embeddings.document_vectors import DocumentVectors

ENTRY_BYTES = 1_500
"""Size of the entry and the head, without texts."""

SECTION_BYTES = 350
CHUNK_BYTES = 300
"""Size of a section, and of a chunk without its text."""

_UNCHECKED = -1

EntryKey = tuple[str, ...]
"""A document's Key, followed by the version for an older version."""


class CachedDocument:
    """The cached head and parts of one version of a document.

    ``index``, ``chunks`` and ``quotable`` are built from the whole ``document``; ``vectors`` are
    those of its chunks, if any.
    """

    def __init__(self, reading: Reading) -> None:
        self.head: DocumentHead = reading.head
        self.document: Document | None = None
        self.sections: Mapping[str, Section] | None = None
        self.index: Future[SearchIndex] | None = None
        self.chunks: Future[ChunkTable] | None = None
        self.quotable: Future[QuotableDocument] | None = None
        self.vectors: DocumentVectors | None = None
        self.size_bytes = ENTRY_BYTES
        self.generation = _UNCHECKED
        """Cache generation of the last reading of the head."""
        self.kept_as: EntryKey | None = None
        """Key in the cache; None if not cached."""
        self._pages: dict[int, str] = {}
        self.add(reading)

    def __repr__(self) -> str:
        return f"<CachedDocument {self.head.doc_id!r}: {self.size_bytes} bytes>"

    def add(self, reading: Reading) -> None:
        """Add parts of the same version; the readers may have changed."""
        self.head = reading.head
        document = reading.document
        if document is not None and self.document is None:
            self.document = document
            self.sections = None
            self._pages = {}
            self.size_bytes = ENTRY_BYTES + sum(map(_text_bytes, document.pages))
            own_chunks = document.own_chunks or ()
            self.size_bytes += sum(_text_bytes(it.source) + CHUNK_BYTES for it in own_chunks)
            self._add_sections(document.sections)
        if self.document is not None:
            return
        for number, text in reading.pages.items():
            if number not in self._pages:
                self._pages[number] = text
                self.size_bytes += _text_bytes(text)
        if reading.sections is not None and self.sections is None:
            self._add_sections(reading.sections)

    def has(self, wanted: Wanted) -> bool:
        """Return whether all wanted parts are cached."""
        if self.document is not None:
            return True
        needs_sections = wanted.sections or wanted.section_id is not None
        if wanted.whole or (needs_sections and self.sections is None):
            return False
        numbers = wanted.page_numbers(self.sections or {}, self.head.page_count)
        return all(map(self._pages.__contains__, numbers))

    def pages(self, first: int, last: int) -> tuple[str, ...]:
        """Return the text of cached pages (1-based, ``last`` included)."""
        if self.document is not None:
            return self.document.pages[first - 1 : last]
        return tuple(map(self._pages.__getitem__, range(first, last + 1)))

    def _add_sections(self, sections: Mapping[str, Section]) -> None:
        self.sections = sections
        self.size_bytes += SECTION_BYTES * len(sections)


class DocumentCache:
    """CachedDocuments by tenant and doc_id within ``max_bytes``; for one event loop.

    The least recently used are evicted first; the last one used always stays. A possible change
    drops older versions, which may have been removed, and marks the current version as unchecked:
    its texts may still be valid. A head is checked if it was read in the cache's current
    generation; ``mark_all`` starts a new one.
    """

    def __init__(self, *, max_bytes: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._entries: OrderedDict[EntryKey, CachedDocument] = OrderedDict()
        self._older: dict[Key, set[EntryKey]] = {}
        self._bytes = 0
        self._generation = 0

    def __repr__(self) -> str:
        return (
            f"<DocumentCache: {len(self._entries)} documents, "
            f"{self._bytes} of {self._max_bytes} bytes>"
        )

    def get(self, key: EntryKey) -> CachedDocument | None:
        """Return a cached document or version and mark it as the most recently used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def is_checked(self, entry: CachedDocument) -> bool:
        """Return whether no change was reported since the entry's head was read."""
        return entry.generation == self._generation

    def keep(self, key: Key, reading: Reading) -> CachedDocument:
        """Merge a reading into the entry of the same version, or replace another version."""
        entry = self._entries.get(key)
        if entry is None or entry.head.version != reading.head.version:
            self.drop(key)
            entry = CachedDocument(reading)
            self._add(key, entry)
        else:
            before = entry.size_bytes
            entry.add(reading)
            self._count(entry.size_bytes - before)
        entry.generation = self._generation
        self._entries.move_to_end(key)
        self._evict()
        return entry

    def keep_older(self, key: Key, reading: Reading) -> CachedDocument:
        """Add an older version of a document."""
        entry = CachedDocument(reading)
        entry_key = (*key, reading.head.version)
        self._remove(entry_key)
        self._add(entry_key, entry)
        self._older.setdefault(key, set()).add(entry_key)
        self._evict()
        return entry

    def grow(self, entry: CachedDocument, by: int) -> None:
        """Add the size of a structure built from a document, if still cached."""
        if entry.kept_as is not None and self._entries.get(entry.kept_as) is entry:
            entry.size_bytes += by
            self._count(by)
            self._evict()

    def mark(self, key: Key) -> None:
        """Mark a document as possibly changed."""
        self._drop_older(key)
        entry = self._entries.get(key)
        if entry is not None:
            entry.generation = _UNCHECKED

    def mark_all(self) -> None:
        """Mark all documents as possibly changed."""
        for key in list(self._older):
            self._drop_older(key)
        self._generation += 1

    def drop(self, key: Key) -> None:
        """Remove a document and its older versions; references in use stay valid."""
        self._drop_older(key)
        self._remove(key)

    def _drop_older(self, key: Key) -> None:
        for entry_key in list(self._older.get(key, ())):
            self._remove(entry_key)

    def _evict(self) -> None:
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            self._remove(next(iter(self._entries)))

    def _add(self, key: EntryKey, entry: CachedDocument) -> None:
        entry.kept_as = key
        self._entries[key] = entry
        self._count(entry.size_bytes)

    def _remove(self, key: EntryKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._count(-entry.size_bytes)
        tenant_id, doc_id, *version = key
        if version:
            older = self._older[tenant_id, doc_id]
            older.remove(key)
            if not older:
                del self._older[tenant_id, doc_id]

    def _count(self, by: int) -> None:
        self._bytes += by
        self._metrics.document_cache_bytes.set(self._bytes)


def _text_bytes(text: str) -> int:
    """Return the size of a text; a non-ASCII one also caches its UTF-8 form once sent."""
    return sys.getsizeof(text) if text.isascii() else 2 * sys.getsizeof(text)
