"""The right to read a document: the tenant's own, and the user's among them (contract §2)."""

from collections import Counter

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound
from mcp_tools_proxy.wire.text import quote


class DocumentAccess:
    """Checks that a caller may read a document: the one place where that is decided.

    Counts the tenants that have a doc_id, and of each tenant its documents with readers. With
    ``hide_foreign_documents`` a document that the caller may not read seems not to exist.
    """

    def __init__(self, *, hide_foreign_documents: bool) -> None:
        self._hide_foreign_documents = hide_foreign_documents
        self._owner_counts: Counter[str] = Counter()
        """How many tenants have a document of that id."""
        self._with_readers: Counter[str] = Counter()
        """How many documents with readers a tenant has."""

    def add(self, document: Document) -> None:
        """Count a document in."""
        self._count(document, 1)

    def remove(self, document: Document) -> None:
        """Count a document out."""
        self._count(document, -1)

    def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is for some of its users only."""
        return tenant_id in self._with_readers

    def require_readable(self, document: Document | None, doc_id: str, caller: Caller) -> Document:
        """Return ``document``, what the tenant has of this id, if the caller is a reader of it.

        Raises AccessDenied if there is one, of this tenant or another, and that may be seen; else
        DocumentNotFound.
        """
        own = self.require_own(document, doc_id)
        if own.readers is None or own.readers.admit(caller):
            return own
        return self.require_own(None, doc_id)

    def require_own(self, document: Document | None, doc_id: str) -> Document:
        """Return ``document``, what the tenant has of this id; raise as ``require_readable``."""
        if document is not None:
            return document
        if doc_id in self._owner_counts and not self._hide_foreign_documents:
            raise AccessDenied(
                f"the user has no access to document {quote(doc_id)}; do not try again: use a "
                "doc_id that belongs to the user, or tell the user"
            )
        raise DocumentNotFound(
            f"there is no document {quote(doc_id)}; check the doc_id letter by letter against the "
            "one you were given, or ask the user which document is meant"
        )

    def _count(self, document: Document, by: int) -> None:
        _add(self._owner_counts, document.doc_id, by)
        if document.readers is not None:
            _add(self._with_readers, document.tenant_id, by)


def _add(counts: Counter[str], key: str, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]
