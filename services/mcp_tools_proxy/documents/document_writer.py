"""What changes documents: one interface for import, operator's routes and command line.

A tenant's documents have a quota, and so have their facts, which are kept in memory.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from pydantic_core import to_json

from mcp_tools_proxy.documents.document_file import InvalidDocument, dump_readers
from mcp_tools_proxy.documents.document_store import Key, VectorStore
from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers
from mcp_tools_proxy.domain.quota import Quota, Usage

KEEP_VERSIONS = 2
"""Versions of a document that are kept where no setting says more: the present one, and the one
before."""


class Expected(Enum):
    """What a change expects to find, where that is not one version."""

    ANYTHING = "anything"
    NOTHING = "nothing"
    """No document of that id: the change makes a new one."""


class VersionConflict(Exception):
    """The document is not what the change expected; ``head`` is what there is, None if nothing."""

    def __init__(self, head: DocumentHead | None) -> None:
        super().__init__("the document is not the expected version")
        self.head = head


def check_expected(
    found: DocumentHead | None, expected: Expected | str, version: str | None
) -> None:
    """Raise VersionConflict unless what was found, and its version, are what was expected."""
    if expected is Expected.ANYTHING:
        return
    if found is not None if expected is Expected.NOTHING else version != expected:
        raise VersionConflict(found)


class NoSuchDocument(Exception):
    """The tenant has no document of that id."""


class TenantNeeded(Exception):
    """The store lists the documents of one tenant only: this process may not see all."""


class ReadOnlyDocuments(Exception):
    """The store cannot be written; ``reason`` is one line for an operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WriteFailed(Exception):
    """A change could not be written, and nothing was changed; ``reason`` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DocumentWriter(Protocol):
    """Changes documents, and reads them for whoever looks after them: no readers are checked.

    A change is made whole or not at all, and is atomic with the check of what it expects, also
    across processes. Those that change raise ReadOnlyDocuments and WriteFailed; each raises
    DocumentsUnavailable while the store cannot be reached.
    """

    @property
    def name(self) -> str:
        """Where documents are kept, for a person."""
        ...

    @property
    def vectors(self) -> VectorStore:
        """What keeps the vectors of the documents."""
        ...

    def place(self, key: Key) -> str:
        """Return where a document is kept, for a person."""
        ...

    async def problems_of(self, key: Key) -> Mapping[str, str]:
        """Return what is there of a document and cannot be used: place → reason, one line each."""
        ...

    async def list_heads(
        self, tenant_id: str | None, *, after: Key | None = None, limit: int
    ) -> tuple[DocumentHead, ...]:
        """Return the next ``limit`` documents behind ``after``, ordered by tenant and doc_id.

        Without ``tenant_id`` those of all tenants. Raises TenantNeeded where the store does not
        let this process see them.
        """
        ...

    async def problems(self) -> Mapping[str, str]:
        """Return what is there and not in use: name → reason, one line each."""
        ...

    async def head(self, key: Key) -> DocumentHead | None:
        """Return the head of a document; None when there is none."""
        ...

    async def document(self, key: Key) -> Document | None:
        """Return a whole document; None when there is none."""
        ...

    async def older_versions(self, key: Key) -> Sequence[str]:
        """Return the older versions of a document that are kept, the newest first."""
        ...

    async def put(
        self,
        document: Document,
        *,
        expected: Expected | str,
        keep_readers: bool,
        original: bytes | None = None,
    ) -> DocumentHead:
        """Write a document as a new version; ``expected`` is a version, or an Expected.

        The version that it replaces is kept, and as many older ones as the writer was told to.
        With ``keep_readers`` a document that is replaced keeps its readers, read with it in one
        step, and those of ``document`` are for a new one only. ``original`` is the PDF that it was
        made of, which is kept with this version only. Raises VersionConflict, InvalidDocument;
        QuotaExceeded where the writer has a quota.
        """
        ...

    async def set_readers(
        self, key: Key, readers: Readers | None, *, expected: Expected | str
    ) -> DocumentHead:
        """Change who may read a document; ``expected`` is a tag of rights (``rights_tag``).

        Raises VersionConflict, NoSuchDocument, and as ``put`` where the writer has a quota.
        """
        ...

    async def remove(self, key: Key, *, expected: Expected | str) -> DocumentHead | None:
        """Remove a document, broken or not, with its older versions.

        Returns what it was, None for a broken one. Raises VersionConflict, NoSuchDocument.
        """
        ...

    async def close(self) -> None:
        """Close what it has opened."""
        ...


MAX_FACTS_BYTES = 65_536
"""Bytes of one document's facts. They are kept in memory, where a tag of 8 characters takes seven
times its bytes: 86 MB of tags took 600 MB, and as much again when the tenant searched."""

FACTS_BYTES_EACH = 1024
"""Bytes of facts for each document of the quota: what a tenant may have in all."""


class DocumentUsage(NamedTuple):
    """Stored documents: their number, their bytes, and the bytes of their facts."""

    entries: int = 0
    bytes: int = 0
    facts_bytes: int = 0

    @property
    def stored(self) -> Usage:
        """The number and the bytes."""
        return Usage(self.entries, self.bytes)


def facts_bytes(head: DocumentHead) -> int:
    """Return the bytes of a document's facts: its title, tags, readers and OCR values as JSON."""
    readers = None if head.readers is None else dump_readers(head.readers)
    return len(to_json([head.title, head.tags, readers, head.ocr]))


def check_quota(
    quota: Quota, *, others: DocumentUsage, old: DocumentUsage, new: DocumentUsage
) -> None:
    """Check a write of ``new`` in place of ``old``. Raises QuotaExceeded, InvalidDocument."""
    if new.facts_bytes > max(old.facts_bytes, MAX_FACTS_BYTES):
        raise InvalidDocument(
            f"title, tags, readers and ocr are {new.facts_bytes} bytes together, and the limit is "
            f"{MAX_FACTS_BYTES}; shorten them"
        )
    quota.check(others=others.stored, old=old.stored, new=new.stored)
    sizes = others.facts_bytes, old.facts_bytes, new.facts_bytes
    quota.check_unit("facts_bytes", quota.count * FACTS_BYTES_EACH, sizes)
