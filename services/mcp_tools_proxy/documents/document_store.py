"""Store interface: partial reads of documents, lists and vectors.

A store checks access only in lists. ``documents.document_repository`` checks it for reads, and
caches documents.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import UTC, datetime
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, DocumentHead, MetadataValue, Section
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFilter:
    """Wanted values of an own field: one of ``values`` (folded), or a number in a range."""

    values: frozenset[str] | None = None
    minimum: float | None = None
    maximum: float | None = None

    def admits(self, value: MetadataValue | None) -> bool:
        """Return whether a document with that value matches; one without the field never does."""
        if value is None:
            return False
        if self.values is not None:
            return not self.values.isdisjoint(folded_values(value))
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.minimum is None or self.minimum <= value) and (
            self.maximum is None or value <= self.maximum
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    """A filter of documents; tags and values of own fields are folded, ``language`` lower-case.

    A language includes its regions: ``de`` admits ``de-AT``. Documents without a date match no
    range of dates.
    """

    any_tags: frozenset[str] | None = None
    all_tags: frozenset[str] = frozenset()
    not_tags: frozenset[str] = frozenset()
    language: str | None = None
    date_from: str | None = None
    date_to: str | None = None
    fields: Mapping[str, FieldFilter] = field(default_factory=dict)

    def admits(self, head: DocumentHead, tags: Sequence[str]) -> bool:
        """Return whether a document matches; ``tags`` are its folded tags."""
        return (
            (self.any_tags is None or not self.any_tags.isdisjoint(tags))
            and self.all_tags.issubset(tags)
            and self.not_tags.isdisjoint(tags)
            and self._admits_language(head.language)
            and self._admits_date(head.date)
            and all(it.admits(head.metadata.get(name)) for name, it in self.fields.items())
        )

    def _admits_language(self, language: str | None) -> bool:
        if self.language is None:
            return True
        return language is not None and f"{language.lower()}-".startswith(f"{self.language}-")

    def _admits_date(self, date: str | None) -> bool:
        if self.date_from is None and self.date_to is None:
            return True
        return date is not None and (self.date_from or "") <= date <= (self.date_to or "9999-12-31")


def filter_of_tag(tag: str) -> DocumentFilter:
    """Return a filter for the documents with a tag."""
    return DocumentFilter(any_tags=frozenset({fold(tag)}))


def field_terms(metadata: Mapping[str, MetadataValue]) -> list[str]:
    """Return a term for each value of the own fields, for databases."""
    return [field_term(name, it) for name, value in metadata.items() for it in folded_values(value)]


def field_term(name: str, folded: str) -> str:
    """Return the term of a folded value."""
    return f"{name}\n{folded}"


def folded_values(value: MetadataValue) -> Iterator[str]:
    """Yield the values in one spelling: a model does not know whether 2027 is a text."""
    if isinstance(value, tuple):
        yield from map(fold, value)
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    else:
        yield fold(str(value))


SEPARATOR = "\n"
"""Joins the names of a document into one text; query words do not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogQuery:
    """A query for documents after ``after`` (by doc_id) that ``caller`` can read and is bound to.

    Documents that expired until ``now`` do not match. Every word of ``words`` is in the title, the
    id or a tag; ``tag`` is a tag; the id starts with ``id_prefix``. All three are folded.
    """

    caller: Caller
    words: tuple[str, ...] = ()
    tag: str | None = None
    id_prefix: str = ""
    after: str = ""
    limit: int
    filter: DocumentFilter | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def admits(self, head: DocumentHead, names: Sequence[str], text: str) -> bool:
        """Return whether a document matches; ``names`` are ``folded_names``, joined as ``text``."""
        documents, readers = self.caller.documents, head.readers
        if documents is not None and head.doc_id not in documents:
            return False
        if readers is not None and not readers.admit(self.caller):
            return False
        if has_expired(head, self.now) or not self._matches(names, text):
            return False
        return self.filter is None or self.filter.admits(head, names[2:])

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

    async def readable_ids(self, query: CatalogQuery) -> Sequence[str]:
        """Return the ids of all documents that the query admits, without its limit."""
        ...

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        """Return a tenant's first documents after an id, without checking access."""
        ...

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether lists may lack some of the tenant's documents."""
        ...

    async def has_doc_id(self, doc_id: str) -> bool:
        """Return whether any tenant has an unexpired document with that id."""
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


def has_expired(head: DocumentHead, now: datetime) -> bool:
    """Return whether a document has expired."""
    return head.expires_at is not None and head.expires_at <= now


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
