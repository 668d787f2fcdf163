"""Lists the documents of a folder for a caller, from what the catalog knows: no file is opened."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from mcp_tools_proxy.documents.catalog_query import (
    SEPARATOR,
    CatalogEntry,
    CatalogQuery,
    folded_names,
)
from mcp_tools_proxy.documents.folder.folder_catalog import FolderCatalog, KnownFile
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MAX_TENANTS = 64
"""Tenants whose documents are kept in order."""

ENTRIES_PER_TURN = 1_000
"""How many documents are compared before the event loop may run other tasks: 0.3 ms."""


@dataclass(frozen=True, slots=True)
class _Entry:
    head: DocumentHead
    updated_ns: int
    names: tuple[str, ...]
    text: str
    """The names as one text, for words."""


@dataclass(frozen=True, slots=True)
class _TenantList:
    """The known documents of a tenant by id, and the revision of the catalog that they are of."""

    revision: int
    ids: Sequence[str]
    entries: Sequence[_Entry]


class FolderLists:
    """The documents of each tenant in order, built when a list needs them after a change."""

    def __init__(self, catalog: FolderCatalog) -> None:
        self._catalog = catalog
        self._by_tenant: dict[str, _TenantList] = {}
        self._building = asyncio.Lock()

    async def list_readable(self, query: CatalogQuery) -> Sequence[CatalogEntry]:
        """Return the first documents that a query admits."""
        listed = await self._list_of(query.caller.tenant_id)
        found: list[CatalogEntry] = []
        start = bisect_right(listed.ids, query.after)
        for number in range(start, len(listed.entries)):
            if (number - start) % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1:
                await asyncio.sleep(0)
            entry = listed.entries[number]
            if query.admits(entry.head, entry.names, entry.text):
                found.append(CatalogEntry(head=entry.head, updated=_time_of(entry.updated_ns)))
                if len(found) == query.limit:
                    break
        return found

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        """Return the first documents of a tenant behind an id."""
        listed = await self._list_of(tenant_id)
        start = bisect_right(listed.ids, after)
        return [entry.head for entry in listed.entries[start : start + limit]]

    async def _list_of(self, tenant_id: str) -> _TenantList:
        """Return the documents of a tenant as they are now; sorted and folded in a thread."""
        known = self._by_tenant.get(tenant_id)
        if known is not None and known.revision == self._catalog.revision_of(tenant_id):
            return known
        async with self._building:
            known = self._by_tenant.pop(tenant_id, None)
            revision = self._catalog.revision_of(tenant_id)
            if known is None or known.revision != revision:
                files = self._catalog.files_of_tenant(tenant_id)
                known = await asyncio.to_thread(_build, revision, files, known)
            if len(self._by_tenant) == MAX_TENANTS:
                del self._by_tenant[next(iter(self._by_tenant))]
            self._by_tenant[tenant_id] = known
        return known


def _build(revision: int, files: Iterable[KnownFile], before: _TenantList | None) -> _TenantList:
    """Sort the documents of a tenant; names that were folded before are not folded again."""
    folded: Mapping[int, _Entry] = {}
    if before is not None:
        folded = {id(entry.head): entry for entry in before.entries}
    entries = [
        _entry(file.head, file.stamp[0], folded.get(id(file.head)))
        for file in files
        if file.scanned and file.head is not None and file.stamp is not None
    ]
    entries.sort(key=lambda entry: entry.head.doc_id)
    return _TenantList(revision, [entry.head.doc_id for entry in entries], entries)


def _entry(head: DocumentHead, updated_ns: int, before: _Entry | None) -> _Entry:
    if before is not None:
        return _Entry(head, updated_ns, before.names, before.text)
    names = folded_names(head)
    return _Entry(head, updated_ns, names, SEPARATOR.join(names))


def _time_of(updated_ns: int) -> datetime:
    return datetime.fromtimestamp(updated_ns // 1_000_000_000, UTC)
