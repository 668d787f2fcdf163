"""What stands behind the repository: a place that documents are read from, in parts.

A store knows no callers, but for lists, which it filters. ``documents.document_repository`` decides
who may read, and keeps what was read.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.documents.catalog_query import CatalogEntry, CatalogQuery
from mcp_tools_proxy.domain.document import Document, DocumentHead, Section
from mcp_tools_proxy.domain.errors import DocumentsUnavailable

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
