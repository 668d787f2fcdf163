"""Holds the documents in memory, with a search index of each that is searched."""

from collections.abc import Iterable

from mcp_tools_proxy.documents.document_access import DocumentAccess
from mcp_tools_proxy.documents.index_cache import IndexCache
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, Hit
from mcp_tools_proxy.telemetry.metrics import Metrics


class InMemoryRepository:
    """A DocumentRepository over Document objects, for use on one event loop.

    ``put`` replaces a document as a whole: a call in flight finishes on the one it has. With
    ``hide_foreign_documents`` other tenants' documents seem not to exist (contract §2).
    """

    def __init__(
        self,
        *,
        documents: Iterable[Document] = (),
        hide_foreign_documents: bool,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._documents: dict[tuple[str, str], Document] = {}
        self._access = DocumentAccess(hide_foreign_documents=hide_foreign_documents)
        self._indexes = IndexCache(metrics=metrics)
        for document in documents:
            self.put(document)

    def __repr__(self) -> str:
        tenants = len({tenant_id for tenant_id, _ in self._documents})
        return f"<InMemoryRepository: {len(self)} documents of {tenants} tenants, {self._indexes}>"

    def __len__(self) -> int:
        return len(self._documents)

    def put(self, document: Document) -> None:
        """Add the document, or replace the tenant's document of that id."""
        key = (document.tenant_id, document.doc_id)
        replaced = self._documents.get(key)
        if replaced is not None:
            self._indexes.drop(*key)
            self._access.remove(replaced)
        self._access.add(document)
        self._documents[key] = document
        self._metrics.documents.set(len(self._documents))

    def remove(self, tenant_id: str, doc_id: str) -> None:
        """Remove the tenant's document of that id, if there is one."""
        removed = self._documents.pop((tenant_id, doc_id), None)
        if removed is None:
            return
        self._indexes.drop(tenant_id, doc_id)
        self._access.remove(removed)
        self._metrics.documents.set(len(self._documents))

    async def get(self, caller: Caller, doc_id: str) -> Document:
        """Return a document that the caller may read (contract §2).

        Raises AccessDenied, DocumentNotFound.
        """
        document = self._documents.get((caller.tenant_id, doc_id))
        return self._access.require_readable(document, doc_id, caller)

    async def get_for_any_reader(self, tenant_id: str, doc_id: str) -> Document:
        """Return a tenant's document for a gateway that has checked its readers itself.

        Raises AccessDenied, DocumentNotFound.
        """
        return self._access.require_own(self._documents.get((tenant_id, doc_id)), doc_id)

    def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is for some of its users only."""
        return self._access.has_readers(tenant_id)

    async def search(
        self, caller: Caller, doc_id: str, query: str, *, max_results: int
    ) -> tuple[Hit, ...]:
        """Rank the places of one document that match ``query``, best first (T-07).

        The first search in a document waits for its index. Raises the errors of ``get``, and
        ShuttingDown after ``close``.
        """
        document = await self.get(caller, doc_id)
        return await self._indexes.search(document, query, max_results)

    def close(self) -> None:
        """Stop the search; documents can still be read."""
        self._indexes.close()
