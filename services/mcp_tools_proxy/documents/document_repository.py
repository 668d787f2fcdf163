"""What tools need of the documents: one document of a tenant, and a search in it."""

from typing import Protocol

from mcp_tools_proxy.domain.document import Document, Hit


class DocumentRepository(Protocol):
    """Documents by (tenant_id, doc_id); two tenants may use the same doc_id.

    Implementers never return anything of another tenant, in results, errors or ranking (contract
    §2), and never block the event loop.
    """

    async def get(self, tenant_id: str, doc_id: str) -> Document:
        """Return the tenant's document.

        Raises AccessDenied when only other tenants have a document of that id (DocumentNotFound
        when the repository hides foreign documents), DocumentNotFound when no tenant has.
        """
        ...

    async def search(
        self, tenant_id: str, doc_id: str, query: str, *, max_results: int
    ) -> tuple[Hit, ...]:
        """Rank the places of one document that match ``query``, best first (T-07).

        Accepts any query text; returns () without a match. Raises the errors of ``get``.
        """
        ...
