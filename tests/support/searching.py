"""Searches across the documents of a test's store, with indexes on disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.search.tenant_index import Progress, TenantDocuments
from mcp_tools_proxy.documents.search.tenant_search import (
    FoundPlaces,
    TenantIndexes,
    TenantQuery,
    TenantSearch,
)
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_document
from tests.support.document_stores import FilledStore
from tests.support.service import eventually

ANN = Readers(users=frozenset({"ann"}))


class CountedDocuments(TenantDocuments):
    """Counts the documents read for indexing; once ``gate`` is shut, reading those in ``gated``
    blocks, or all if it is empty.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.read: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.gated: set[str] = set()

    async def whole(self, key: Key) -> tuple[Document, DocumentHead] | None:
        if not self.gated or key[1] in self.gated:
            await self.gate.wait()
        self.read.append(key[1])
        return await super().whole(key)


class Searching:
    """A search over a store, whose indexes follow the store only within ``following``."""

    def __init__(self, filled: FilledStore, folder: Path, *, batch_chars: int = 10**6) -> None:
        self.repository = DocumentRepository(
            filled.store, cache_bytes=10**6, hide_foreign_documents=False, metrics=Metrics()
        )
        self.documents = CountedDocuments(filled.store, self.repository.held)
        self.indexes = TenantIndexes(folder, "store", self.documents, batch_chars=batch_chars)
        self.repository.listen(self.indexes)
        self.search = TenantSearch(self.repository, self.indexes)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.indexes.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def catch_up(self, tenant_id: str = "acme") -> None:
        """Update a tenant's index and wait for it."""
        index = self.indexes.use(tenant_id)

        async def is_done() -> bool:
            return index.next_step_at is None

        async with self.following():
            await eventually(is_done)

    async def find(self, query: str, who: Caller | None = None, **narrowed: Any) -> FoundPlaces:
        wanted = {"max_results": 10, **narrowed}
        return await self.search.search(TenantQuery(caller=who or caller(), text=query, **wanted))

    async def ids(self, query: str, who: Caller | None = None, **narrowed: Any) -> list[str]:
        found = await self.find(query, who, **narrowed)
        shown = [document.head.doc_id for document, _, _ in found.places]
        return sorted([*shown, *(copy for place in found.places for copy in place.copies)])

    async def close(self) -> None:
        self.search.close()
        await self.indexes.close()
        self.repository.close()


@asynccontextmanager
async def searching(filled: FilledStore, folder: Path, **options: Any) -> AsyncIterator[Searching]:
    made = Searching(filled, folder, **options)
    try:
        yield made
    finally:
        await made.close()


def caller(user_id: str = "bob", *roles: str, **fields: Any) -> Caller:
    return Caller(**{"tenant_id": "acme", "user_id": user_id, "roles": roles, **fields})


def document(doc_id: str, *pages: str, **fields: Any) -> Document:
    made = make_document(tenant_id=fields.pop("tenant_id", "acme"), doc_id=doc_id, pages=pages)
    return replace(made, **fields)


def progress(done: int, total: int) -> Progress:
    return Progress(done=done, total=total)
