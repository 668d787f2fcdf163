"""The store behind the repository: documents are read from it in parts, listed, and have vectors.

A store knows no callers, but for lists, which it filters. ``documents.document_repository`` decides
who may read, and keeps what was read.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, DocumentHead, Section
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.wire.text import normalize

Key = tuple[str, str]
"""Tenant id and doc_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parts of a document that a call needs, besides its head.

    ``pages`` are the first and the last page (1-based); those past the end are not there.
    ``section_id`` asks for the pages of that section, and for all sections' places.
    """

    pages: tuple[int, int] | None = None
    sections: bool = False
    section_id: str | None = None
    whole: bool = False

    @property
    def is_head_only(self) -> bool:
        """Whether no part is wanted besides the head."""
        return not (self.pages or self.sections or self.section_id is not None or self.whole)

    def page_numbers(self, sections: Mapping[str, Section], page_count: int) -> range:
        """Return the pages that are wanted and there: of the section, if one is asked for."""
        span = self.pages
        if self.section_id is not None:
            section = sections.get(self.section_id)
            span = None if section is None else (section.page_start, section.page_end)
        return range(0) if span is None else range(span[0], min(span[1], page_count) + 1)


HEAD_ONLY = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a store read of one version of a document: at least the parts that were wanted.

    ``sections`` is keyed by section_id, in reading order; ``document`` is the whole of it.
    """

    head: DocumentHead
    pages: Mapping[int, str] = field(default_factory=dict)
    sections: Mapping[str, Section] | None = None
    document: Document | None = None


NAME_CHARS = 1_000
"""Characters of a title or a tag that a query is compared with."""

TAGS_COUNTED = 100
"""How many tags of a document lists and searches know. With 600,000 in each of ten documents, the
index had none of them after 20 s, and the event loop waited for 0.3 s."""

SEPARATOR = "\n"
"""Stands between the names of a document where they are one text; no word of a query has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogQuery:
    """The documents that ``caller`` may read and is bound to, behind ``after`` by doc_id.

    ``words`` all occur in the title, the id or a tag, ``tag`` is one of the tags, and the id begins
    with ``id_prefix``; these three are folded (``fold``).
    """

    caller: Caller
    words: tuple[str, ...] = ()
    tag: str | None = None
    id_prefix: str = ""
    after: str = ""
    limit: int

    def admits(self, head: DocumentHead, names: Sequence[str], text: str) -> bool:
        """Return whether a document is listed; ``names`` are ``folded_names``, ``text`` joined."""
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
    """One document of a list; ``updated`` is when its content was last written."""

    head: DocumentHead
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPage:
    """Some documents of a list, by doc_id.

    With ``has_more`` there are others behind the last one; while ``is_pending`` some are not known
    yet.
    """

    entries: Sequence[CatalogEntry]
    has_more: bool
    is_pending: bool


class ChangeListener(Protocol):
    """Is told what may have changed in a store; called on the event loop, so it must be quick."""

    def changed(self, key: Key) -> None:
        """Receive that a document was added, replaced, removed, or has other readers."""
        ...

    def all_changed(self) -> None:
        """Receive that changes may have been missed: anything may have changed."""
        ...


class DocumentStore(Protocol):
    """Documents by tenant and doc_id; two tenants may use the same doc_id.

    Implementers never mix two versions of a document in one reading, and never block the event
    loop. Each method raises DocumentsUnavailable while the store cannot be read.
    """

    @property
    def is_current(self) -> bool:
        """Whether the listener has been told of all changes up to a moment ago.

        While it is not, what was read before is not served without asking the store again.
        """
        ...

    @property
    def timeout_s(self) -> float | None:
        """Seconds that one call may wait for the store in all; None without a limit."""
        ...

    def listen(self, listener: ChangeListener) -> None:
        """Send changes to ``listener`` from now on."""
        ...

    async def read(self, key: Key, wanted: Wanted) -> Reading | None:
        """Read the wanted parts of a document, of one version; None when there is none."""
        ...

    async def read_older(self, key: Key, version: str) -> Reading | None:
        """Read an older version of a document, whole; None when it is not kept.

        Its head names no readers: those of the document itself count.
        """
        ...

    async def original_tag(self, key: Key, version: str) -> str | None:
        """Return a tag of the PDF that is kept of a version, another one for another file.

        None when none is kept.
        """
        ...

    async def read_original(self, key: Key, version: str) -> bytes | None:
        """Read the PDF that is kept of a version; None when none is kept."""
        ...

    async def list_readable(self, query: CatalogQuery) -> Sequence[CatalogEntry]:
        """Return the first ``query.limit`` documents that the query admits, ordered by doc_id."""
        ...

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        """Return the first documents of a tenant behind an id, ordered by it: those that nobody
        may read as well. For no caller.
        """
        ...

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether some of the tenant's documents may not be in lists yet."""
        ...

    async def has_doc_id(self, doc_id: str) -> bool:
        """Return whether any tenant has a document of that id."""
        ...

    async def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is, or may be, for some of its users only."""
        ...


NUMBER_BYTES = 2
"""A number is a half float (IEEE 754), little-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectors:
    """The vectors of a document's first chunks, in reading order, as bytes.

    ``version`` is that of the document, ``model`` what made them; ``dimension`` numbers for each.
    """

    version: str
    model: str
    dimension: int
    data: bytes

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return len(self.data) // (self.dimension * NUMBER_BYTES)


class VectorStore(Protocol):
    """Keeps vectors; they are removed with their document, and can always be made anew.

    Implementers never block the event loop. Each method raises DocumentsUnavailable while the
    store cannot be reached.
    """

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        """Read the vectors of one version by one model; None when there are none."""
        ...

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Keep vectors in place of older ones; not if the document has another version now."""
        ...


@asynccontextmanager
async def in_time(store: DocumentStore) -> AsyncIterator[None]:
    """Limit what one call waits for a store in all. Raises DocumentsUnavailable."""
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
    """Return the form in which names are compared: compatible characters, without case."""
    return normalize("NFKC", text[:NAME_CHARS]).casefold()


def folded_names(head: DocumentHead) -> tuple[str, ...]:
    """Return the title, the id and the first tags of a document, folded."""
    return fold_names(head.title, head.doc_id, head.tags)


def fold_names(title: str, doc_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a document folded: of its tags the first TAGS_COUNTED."""
    return tuple(map(fold, (title, doc_id, *tags[:TAGS_COUNTED])))


def words_of(query: str, *, limit: int) -> tuple[str, ...]:
    """Return the first words of a query, folded."""
    return tuple(fold(query).split()[:limit])


class DatabaseProblem(Exception):
    """The database cannot be used as it is; one line that says what to do."""


class WrongRole(DatabaseProblem):
    """The role of the gateway may more than it should, or less than it needs."""
