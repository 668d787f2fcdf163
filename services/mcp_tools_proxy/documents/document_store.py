"""Store interface: partial reads of documents, lists and vectors.

A store checks access only in lists. ``documents.document_repository`` checks it for reads, and
caches documents.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import datetime
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, DocumentHead, Section
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import normalize

Key = tuple[str, str]
"""Tenant id and doc_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Parts of a document that a call needs besides its head.

    ``pages`` are the first and the last page (1-based); pages past the end are ignored.
    ``section_id`` requests that section's pages and the positions of all sections.
    """

    pages: tuple[int, int] | None = None
    sections: bool = False
    section_id: str | None = None
    whole: bool = False

    @property
    def is_head_only(self) -> bool:
        """Whether only the head is wanted."""
        return not (self.pages or self.sections or self.section_id is not None or self.whole)

    def page_numbers(self, sections: Mapping[str, Section], page_count: int) -> range:
        """Return the wanted pages that exist; those of the section if ``section_id`` is set."""
        span = self.pages
        if self.section_id is not None:
            section = sections.get(self.section_id)
            span = None if section is None else (section.page_start, section.page_end)
        return range(0) if span is None else range(span[0], min(span[1], page_count) + 1)


HEAD_ONLY = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The wanted parts of one version of a document, or more.

    ``sections`` is keyed by section_id, in reading order.
    """

    head: DocumentHead
    pages: Mapping[int, str] = field(default_factory=dict)
    sections: Mapping[str, Section] | None = None
    document: Document | None = None


NAME_CHARS = 1_000
"""Characters of a title or tag that queries are compared with."""

TAGS_COUNTED = 100
"""Tags per document in lists and searches. With 600,000 in each of ten documents, the index had
none of them after 20 s, and the event loop waited for 0.3 s."""

SEPARATOR = "\n"
"""Joins the names of a document into one text; query words do not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogQuery:
    """A query for documents after ``after`` (by doc_id) that ``caller`` can read and is bound to.

    Every word of ``words`` is in the title, the id or a tag; ``tag`` is a tag; the id starts with
    ``id_prefix``. All three are folded (``fold``).
    """

    caller: Caller
    words: tuple[str, ...] = ()
    tag: str | None = None
    id_prefix: str = ""
    after: str = ""
    limit: int

    def admits(self, head: DocumentHead, names: Sequence[str], text: str) -> bool:
        """Return whether a document matches; ``names`` are ``folded_names``, joined as ``text``."""
        documents, readers = self.caller.documents, head.readers
        if documents is not None and head.doc_id not in documents:
            return False
        if readers is not None and not readers.admit(self.caller):
            return False
        return self._matches(names, text)

    def _matches(self, names: Sequence[str], text: str) -> bool:
        for word in self.words:  # a generator took twice the time, 16 ms for 10,000 documents
            if word not in text:
                return False
        if self.tag is not None and self.tag not in names[2:]:
            return False
        return names[1].startswith(self.id_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A listed document; ``updated`` is the time of its last content change."""

    head: DocumentHead
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPage:
    """A page of a document list, ordered by doc_id.

    ``is_pending``: the store has not listed all documents yet.
    """

    entries: Sequence[CatalogEntry]
    has_more: bool
    is_pending: bool


class ChangeListener(Protocol):
    """Receives changes of a store, on the event loop; must be quick."""

    def changed(self, key: Key) -> None:
        """Receive that a document was added, replaced or removed, or that its readers changed."""
        ...

    def all_changed(self) -> None:
        """Receive that changes may have been missed."""
        ...


class DocumentStore(Protocol):
    """Documents by tenant and doc_id; two tenants can use the same doc_id.

    Implementations never mix versions in one reading and never block the event loop. Each method
    raises DocumentsUnavailable while the store cannot be read.
    """

    @property
    def is_current(self) -> bool:
        """Whether the listener has received all changes up to a moment ago.

        If not, cached documents are not served without asking the store.
        """
        ...

    @property
    def timeout_s(self) -> float | None:
        """Seconds that one call can wait for the store in total; None means unlimited."""
        ...

    def listen(self, listener: ChangeListener) -> None:
        """Send changes to ``listener`` from now on."""
        ...

    async def read(self, key: Key, wanted: Wanted) -> Reading | None:
        """Read the wanted parts of one version of a document; None if it does not exist."""
        ...

    async def read_older(self, key: Key, version: str) -> Reading | None:
        """Read an older version, whole; None if it is not kept.

        The head has no readers: those of the current document apply.
        """
        ...

    async def original_tag(self, key: Key, version: str) -> str | None:
        """Return a tag that identifies the kept PDF of a version; None without a PDF."""
        ...

    async def read_original(self, key: Key, version: str) -> bytes | None:
        """Read the kept PDF of a version; None without a PDF."""
        ...

    async def list_readable(self, query: CatalogQuery) -> Sequence[CatalogEntry]:
        """Return the first ``query.limit`` documents that the query admits, ordered by doc_id."""
        ...

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        """Return a tenant's first documents after an id, without checking access."""
        ...

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether lists may lack some of the tenant's documents."""
        ...

    async def has_doc_id(self, doc_id: str) -> bool:
        """Return whether any tenant has a document with that id."""
        ...

    async def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is, or could be, limited to some users."""
        ...


NUMBER_BYTES = 2
"""Size of a number: a half float (IEEE 754), little-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectors:
    """The vectors of a document's first chunks, in reading order, as bytes.

    ``model`` is the embedding model; each vector has ``dimension`` numbers.
    """

    version: str
    model: str
    dimension: int
    data: bytes

    @property
    def count(self) -> int:
        """Number of vectors."""
        return len(self.data) // (self.dimension * NUMBER_BYTES)


class VectorStore(Protocol):
    """Stores vectors; they are removed with their document and can be computed again.

    Implementations never block the event loop. Each method raises DocumentsUnavailable while the
    store is unreachable.
    """

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        """Return the vectors of a version by a model, or None."""
        ...

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Replace stored vectors unless the document has another version."""
        ...


@asynccontextmanager
async def in_time(store: DocumentStore) -> AsyncIterator[None]:
    """Limit the total wait of one call for a store. Raises DocumentsUnavailable."""
    limit = asyncio.timeout(store.timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise DocumentsUnavailable(
            "the documents could not be read in time; try again later, or continue without them"
        ) from None


def fold(text: str) -> str:
    """Return a name for comparison: NFKC, case-folded, at most NAME_CHARS."""
    return normalize("NFKC", text[:NAME_CHARS]).casefold()


def folded_names(head: DocumentHead) -> tuple[str, ...]:
    """Return the folded title, id and first tags of a document."""
    return fold_names(head.title, head.doc_id, head.tags)


def fold_names(title: str, doc_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Fold the title, the id and the first TAGS_COUNTED tags."""
    return tuple(map(fold, (title, doc_id, *tags[:TAGS_COUNTED])))


def words_of(query: str, *, limit: int) -> tuple[str, ...]:
    """Return the first words of a query, folded."""
    return tuple(fold(query).split()[:limit])


class DatabaseProblem(Exception):
    """The database is unusable; the message is one line with advice."""


class WrongRole(DatabaseProblem):
    """The gateway's role has too many or too few privileges."""
