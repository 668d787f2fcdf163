"""What changes documents: one interface for import, operator's routes and command line."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.embeddings.vector_store import VectorStore
from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers

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
