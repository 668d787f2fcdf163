"""What tools need of the documents: one document of a tenant, and a search in it."""

from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, Hit


class DocumentRepository(Protocol):
    """Documents by tenant and doc_id; two tenants may use the same doc_id.

    Implementers never return anything of another tenant, or of a document that the caller is no
    reader of, in results, errors or ranking (contract §2), and never block the event loop.
    """

    async def get(self, caller: Caller, doc_id: str) -> Document:
        """Return the document of the caller's tenant.

        Raises AccessDenied when there is a document of that id that the caller may not read, of
        another tenant or of this one (DocumentNotFound when the repository hides such documents);
        DocumentNotFound when no tenant has one.
        """
        ...

    def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is for some of its users only."""
        ...

    async def search(
        self, caller: Caller, doc_id: str, query: str, *, max_results: int
    ) -> tuple[Hit, ...]:
        """Rank the places of one document that match ``query``, best first (T-07).

        Accepts any query text; returns () without a match. Raises the errors of ``get``.
        """
        ...
