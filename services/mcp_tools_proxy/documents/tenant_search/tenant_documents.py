"""The documents of a tenant as an index reads them: all of them, for no caller."""

from collections.abc import Callable, Mapping, Sequence

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_store import (
    HEAD_ONLY,
    DocumentStore,
    Key,
    Wanted,
    in_time,
)
from mcp_tools_proxy.domain.document import Document, DocumentHead

_LISTED_AT_ONCE = 1_000
_WHOLE = Wanted(whole=True)


class TenantDocuments:
    """Reads a store, and documents that are ``held`` in memory where the store has none.

    Nothing that is read here is kept, or shown to anybody. Raises DocumentsUnavailable.
    """

    def __init__(
        self, store: DocumentStore, held: Callable[[str], Mapping[str, CachedDocument]]
    ) -> None:
        self._store = store
        self._held = held

    async def heads(self, tenant_id: str) -> Sequence[DocumentHead]:
        """Return every document of a tenant."""
        found: dict[str, DocumentHead] = {}
        after = ""
        while True:
            async with in_time(self._store):
                heads = await self._store.list_heads(tenant_id, after=after, limit=_LISTED_AT_ONCE)
            found |= {head.doc_id: head for head in heads}
            if len(heads) < _LISTED_AT_ONCE:
                break
            after = heads[-1].doc_id
        held = {doc_id: document.head for doc_id, document in self._held(tenant_id).items()}
        return list((held | found).values())

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether some of the tenant's documents may not be known yet."""
        return self._store.is_pending(tenant_id)

    async def head(self, key: Key) -> DocumentHead | None:
        """Return what a document is now; None if there is none."""
        async with in_time(self._store):
            reading = await self._store.read(key, HEAD_ONLY)
        if reading is not None:
            return reading.head
        held = self._held(key[0]).get(key[1])
        return None if held is None else held.head

    async def whole(self, key: Key) -> tuple[Document, DocumentHead] | None:
        """Return a document with its head; None if there is none."""
        async with in_time(self._store):
            reading = await self._store.read(key, _WHOLE)
        if reading is not None and reading.document is not None:
            return reading.document, reading.head
        held = self._held(key[0]).get(key[1])
        if held is None or held.document is None:
            return None
        return held.document, held.head
