"""Write interface of the document store, for the import, the operator routes and the CLI.

A tenant has a quota for its documents and for their facts, which stay in memory.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from pydantic_core import to_json

from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import (
    InvalidDocument,
    dump_metadata,
    dump_readers,
)
from mcp_tools_proxy.documents.document_store import DocumentFilter, Key, VectorStore
from mcp_tools_proxy.domain.document import Document, DocumentHead, ImportWarning, Readers
from mcp_tools_proxy.domain.quota import Quota, Usage

KEEP_VERSIONS = 2
"""Versions of a document to keep by default: the current one and the previous one."""


class Expected(Enum):
    """Expectations of a change other than a specific version."""

    ANYTHING = "anything"
    NOTHING = "nothing"
    """No document has the id; the change creates one."""


class VersionConflict(Exception):
    """The document is not the expected one; ``head`` is the current head, or None."""

    def __init__(self, head: DocumentHead | None) -> None:
        super().__init__("the document is not the expected version")
        self.head = head


def check_expected(
    found: DocumentHead | None, expected: Expected | str, version: str | None
) -> None:
    """Raise VersionConflict unless the document and its version match ``expected``."""
    if expected is Expected.ANYTHING:
        return
    if found is not None if expected is Expected.NOTHING else version != expected:
        raise VersionConflict(found)


class NoSuchDocument(Exception):
    """The tenant has no document with that id."""


class TenantNeeded(Exception):
    """The store requires a tenant: this process cannot read all tenants' documents."""


class ReadOnlyDocuments(Exception):
    """The store is read-only; ``reason`` is one line for an operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WriteFailed(Exception):
    """A write failed without effect; ``reason`` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DocumentWriter(Protocol):
    """Reads and changes documents for operators, without checking readers.

    A change, with its check of ``expected``, is atomic across processes. Changes raise
    ReadOnlyDocuments and WriteFailed; every method raises DocumentsUnavailable while the store is
    unreachable.
    """

    @property
    def name(self) -> str:
        """Human-readable location of the documents."""
        ...

    @property
    def vectors(self) -> VectorStore:
        """Store of the documents' vectors."""
        ...

    def place(self, key: Key) -> str:
        """Return the human-readable location of a document."""
        ...

    async def problems_of(self, key: Key) -> Mapping[str, str]:
        """Return the unusable parts of a document: location → reason, one line each."""
        ...

    async def list_heads(
        self,
        tenant_id: str | None,
        *,
        after: Key | None = None,
        limit: int,
        filter: DocumentFilter | None = None,
    ) -> tuple[DocumentHead, ...]:
        """Return up to ``limit`` documents after ``after``, ordered by tenant and doc_id.

        Expired documents are listed until they are removed. Without ``tenant_id``, list all
        tenants; raises TenantNeeded if the store forbids that.
        """
        ...

    async def problems(self) -> Mapping[str, str]:
        """Return the stored items that are not in use: name → reason, one line each."""
        ...

    async def head(self, key: Key) -> DocumentHead | None:
        """Return the head of a document, or None."""
        ...

    async def document(self, key: Key) -> Document | None:
        """Return a whole document, or None."""
        ...

    async def older_versions(self, key: Key) -> Sequence[str]:
        """Return the kept older versions of a document, newest first."""
        ...

    async def put(
        self,
        document: Document,
        *,
        expected: Expected | str,
        keep_readers: bool,
        original: bytes | None = None,
    ) -> DocumentHead:
        """Write a document as a new version; ``expected`` is a version or an Expected.

        The replaced version is kept, within the configured number. With ``keep_readers``, a
        replaced document keeps its readers, and those of ``document`` apply to a new one only. A
        replaced document that is marked untrusted stays so; only ``set_facts`` removes the mark.
        ``original`` is the source PDF, kept with this version. Raises VersionConflict,
        InvalidDocument, and QuotaExceeded if the writer has a quota.
        """
        ...

    async def set_readers(
        self, key: Key, readers: Readers | None, *, expected: Expected | str
    ) -> DocumentHead:
        """Change the readers of a document; ``expected`` is its ``rights_tag``.

        Raises VersionConflict, NoSuchDocument, and the quota errors of ``put``.
        """
        ...

    async def set_facts(
        self, key: Key, facts: EditableFacts, *, expected: Expected | str
    ) -> DocumentHead:
        """Change the facts of a document; ``expected`` is the ``etag`` of its present facts.

        Raises VersionConflict, NoSuchDocument, and the errors of ``put``.
        """
        ...

    async def warnings(self, key: Key) -> Sequence[ImportWarning]:
        """Return the warnings of a document's import."""
        ...

    async def remove(self, key: Key, *, expected: Expected | str) -> DocumentHead | None:
        """Remove a document, valid or invalid, with its older versions.

        Returns the removed head, or None for an invalid document. Raises VersionConflict,
        NoSuchDocument.
        """
        ...

    async def remove_unchanged(self, head: DocumentHead) -> bool:
        """Remove a document that still has this head; return whether it was removed."""
        ...

    async def close(self) -> None:
        """Close the writer's resources."""
        ...


MAX_FACTS_BYTES = 65_536
"""Limit for the facts of one document, which stay in memory. Tags of 8 characters take seven times
their bytes: 86 MB took 600 MB, and as much again when the tenant searched."""

FACTS_BYTES_EACH = 1024
"""Facts quota of a tenant, per document of its document quota."""


class DocumentUsage(NamedTuple):
    """Number and bytes of stored documents, and the bytes of their facts."""

    entries: int = 0
    bytes: int = 0
    facts_bytes: int = 0

    @property
    def stored(self) -> Usage:
        """Number and bytes, without the facts."""
        return Usage(self.entries, self.bytes)


def facts_bytes(head: DocumentHead) -> int:
    """Return the bytes of a document's facts as JSON: the head without numbers and version."""
    readers = None if head.readers is None else dump_readers(head.readers)
    later = filter(None, (dump_metadata(head.metadata), head.source))
    return len(to_json([head.title, head.tags, readers, head.ocr, *later]))


def check_quota(
    quota: Quota, *, others: DocumentUsage, old: DocumentUsage, new: DocumentUsage
) -> None:
    """Check the replacement of ``old`` by ``new``. Raises QuotaExceeded, InvalidDocument."""
    if new.facts_bytes > max(old.facts_bytes, MAX_FACTS_BYTES):
        raise InvalidDocument(
            f"title, tags, readers, ocr, metadata and source are {new.facts_bytes} bytes together, "
            f"and the limit is {MAX_FACTS_BYTES}; shorten them"
        )
    quota.check(others=others.stored, old=old.stored, new=new.stored)
    sizes = others.facts_bytes, old.facts_bytes, new.facts_bytes
    quota.check_unit("facts_bytes", quota.count * FACTS_BYTES_EACH, sizes)
