"""The indexes of the tenants that search: opened when one does, closed when others do."""

import asyncio
import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from mcp_tools_proxy.documents import cache_folder
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import DocumentStore, Key
from mcp_tools_proxy.documents.tenant_search.index_entries import FORMAT
from mcp_tools_proxy.documents.tenant_search.index_files import IndexDamaged, IndexFiles
from mcp_tools_proxy.documents.tenant_search.tenant_documents import TenantDocuments
from mcp_tools_proxy.documents.tenant_search.tenant_index import BATCH_CHARS, TenantIndex

MAX_OPEN = 32
"""Indexes that are open at once; one that is closed is compared with the documents again."""


class TenantIndexes:
    """Opens indexes, the most recently used first, and brings them up to date by turns.

    Nothing is built before a tenant searches. ``run`` keeps up until cancelled. ``changed`` and
    ``all_changed`` are those of a ChangeListener.
    """

    def __init__(
        self,
        folder: Path,
        origin: str,
        documents: TenantDocuments,
        *,
        batch_chars: int = BATCH_CHARS,
    ) -> None:
        """``origin`` names the store: two that share a folder have indexes of their own."""
        name = hashlib.sha256(origin.encode(errors="surrogatepass")).hexdigest()[:24]
        self._root = folder / f"tenant-search-{FORMAT}-{name}"
        self._documents = documents
        self._batch_chars = batch_chars
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tenant-index")
        self._indexes: OrderedDict[str, TenantIndex] = OrderedDict()
        self._busy: TenantIndex | None = None
        self._has_work = asyncio.Event()
        self._stop = threading.Event()

    def __repr__(self) -> str:
        return f"<TenantIndexes {str(self._root)!r}: {len(self._indexes)} open>"

    def use(self, tenant_id: str) -> TenantIndex:
        """Return the index of a tenant, which is opened in the background."""
        index = self._indexes.get(tenant_id)
        if index is None:
            files = IndexFiles(self._root, tenant_id, self._stop)
            index = TenantIndex(
                tenant_id, files, self._documents, self._executor, batch_chars=self._batch_chars
            )
            self._indexes[tenant_id] = index
            self._has_work.set()
            self._close_unused()
        self._indexes.move_to_end(tenant_id)
        return index

    async def repair(self, index: TenantIndex, damage: IndexDamaged) -> None:
        """Replace an index that a search found damaged."""
        await index.repair(damage)
        self._has_work.set()

    def changed(self, key: Key) -> None:
        """Note that a document may have changed."""
        index = self._indexes.get(key[0])
        if index is not None:
            index.note(key[1])
            self._has_work.set()

    def all_changed(self) -> None:
        """Note that anything may have changed."""
        for index in self._indexes.values():
            index.note_all()
        self._has_work.set()

    async def run(self) -> None:
        """Update the open indexes, each a part at a time, until cancelled."""
        while True:
            self._has_work.clear()
            now = asyncio.get_running_loop().time()
            times = {it: at for it in self._indexes.values() if (at := it.next_step_at) is not None}
            for index in [it for it, at in times.items() if at <= now]:
                await self._step(index)
            if not any(at <= now for at in times.values()):
                await self._wait(min(times.values(), default=None))

    async def close(self) -> None:
        """Stop, and leave the indexes to other processes."""
        self._stop.set()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)
        for index in self._indexes.values():
            index.close()
        self._indexes.clear()

    async def _step(self, index: TenantIndex) -> None:
        if self._indexes.get(index.tenant_id) is not index:
            return
        self._busy = index
        try:
            await index.step()
        finally:
            self._busy = None
            self._close_unused()

    async def _wait(self, until: float | None) -> None:
        """Wait for work, or for the time of the next step."""
        try:
            async with asyncio.timeout_at(until):
                await self._has_work.wait()
        except TimeoutError:
            return

    def _close_unused(self) -> None:
        while len(self._indexes) > MAX_OPEN:
            unused = next(it for it in self._indexes.values() if it is not self._busy)
            del self._indexes[unused.tenant_id]
            unused.close()


def build_search_indexes(
    store: DocumentStore,
    repository: DocumentRepository,
    *,
    cache_dir: Path | None,
    folder: Path,
    url: str | None,
) -> TenantIndexes:
    """Build the indexes of a folder, or of the database of a URL."""
    origin = str(folder.absolute()) if url is None else _database_of(url)
    documents = TenantDocuments(store, repository.held)
    indexes = TenantIndexes(cache_dir or cache_folder.default_folder(), origin, documents)
    repository.listen(indexes)
    return indexes


def _database_of(url: str) -> str:
    """Return the part of a URL that names the database, without its user and password."""
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
