"""A tenant's right to a document: its own documents only (contract §2)."""

from collections import Counter

from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound
from mcp_tools_proxy.wire.text import quote


class DocumentAccess:
    """Checks that a tenant has a document of its own; counts the tenants that have a doc_id.

    With ``hide_foreign_documents`` other tenants' documents seem not to exist.
    """

    def __init__(self, *, hide_foreign_documents: bool) -> None:
        self._hide_foreign_documents = hide_foreign_documents
        self._owner_counts: Counter[str] = Counter()
        """How many tenants have a document of that id."""

    def add_owner(self, doc_id: str) -> None:
        """Count one more tenant that has a document of this id."""
        self._owner_counts[doc_id] += 1

    def remove_owner(self, doc_id: str) -> None:
        """Count one tenant less."""
        self._owner_counts[doc_id] -= 1
        if not self._owner_counts[doc_id]:
            del self._owner_counts[doc_id]

    def require_own(self, document: Document | None, doc_id: str) -> Document:
        """Return ``document``, what the tenant has of this id; raise if that is None.

        Raises AccessDenied if another tenant has one and may be seen to, else DocumentNotFound.
        """
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
