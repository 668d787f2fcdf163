"""In-memory catalog of a documents folder, and lists for callers. No I/O."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime

from mcp_tools_proxy.documents.document_store import (
    SEPARATOR,
    CatalogEntry,
    CatalogQuery,
    Key,
    folded_names,
    has_expired,
)
from mcp_tools_proxy.documents.folder.file_scan import (
    FileScan,
    Listing,
    Stamp,
    canonical_name,
    spelled_key,
)
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import file_name_text


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """The state of one file.

    ``head`` is from its last valid content; ``reason`` explains why its current content is
    unusable. Until the file is ``scanned``, both can be outdated.
    """

    stamp: Stamp | None
    spelled: Key | None
    """Tenant and doc_id in its name."""
    head: DocumentHead | None = None
    reason: str | None = None
    scanned: bool = False

    @property
    def key(self) -> Key | None:
        """The file's document, as far as known."""
        if self.head is not None:
            return self.head.tenant_id, self.head.doc_id
        return None if self.scanned else self.spelled


class FolderCatalog:
    """The files of a folder, and the file in use for each document.

    That is the file with the document's canonical name or, until a later release and with a
    warning, another file with its ids inside.
    """

    def __init__(self) -> None:
        self._files: dict[str, KnownFile] = {}
        self._unlisted: Mapping[str, str] = {}
        self._restricted: Counter[str | None] = Counter()
        """Files per tenant whose document has readers, or could have."""
        self._not_scanned: Counter[str | None] = Counter()
        self._revisions: Counter[str] = Counter()
        self._served: dict[Key, str] = {}
        self._served_of: dict[str, list[str]] = {}
        self._doc_ids: Counter[str] = Counter()
        self._expiring: dict[str, list[Key]] = {}
        """Documents with an expiry, by doc_id."""
        self._errors: dict[str, str] = {}
        self._misnamed: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._served)

    @property
    def errors(self) -> Mapping[str, str]:
        """Files not in use: name → reason, one line."""
        return self._errors

    @property
    def misnamed(self) -> Mapping[str, str]:
        """Files in use with a wrong name: name → canonical name."""
        return self._misnamed

    @property
    def names(self) -> Set[str]:
        """Names of all files."""
        return self._files.keys()

    @property
    def not_scanned(self) -> list[str]:
        """Names of the files that are not scanned."""
        return [name for name, file in self._files.items() if not file.scanned]

    @property
    def has_unread(self) -> bool:
        """Whether a file or folder is unreadable; its permissions can change without an event."""
        return bool(self._unlisted) or any(file.stamp is None for file in self._files.values())

    def file_of(self, key: Key) -> tuple[str, KnownFile] | None:
        """Return the name and the state of the file in use for a document."""
        name = self._served.get(key)
        return None if name is None else (name, self._files[name])

    def files_of(self, key: Key) -> dict[str, KnownFile]:
        """Return all files of a document by name, including broken ones; the one in use is last."""
        names = [
            name
            for name, file in self._files.items()
            if file.key == key or (file.key is None and file.spelled == key)
        ]
        names.sort(key=lambda name: (name == self._served.get(key), name))
        return {name: self._files[name] for name in names}

    def has_doc_id(self, doc_id: str, now: datetime) -> bool:
        """Return whether any tenant has an unexpired document with that id."""
        expiring = self._expiring.get(doc_id, ())
        files = (self._files[self._served[key]] for key in expiring)
        expired = sum(file.head is not None and has_expired(file.head, now) for file in files)
        return self._doc_ids[doc_id] > expired

    def has_readers(self, tenant_id: str) -> bool:
        """Return whether a document of the tenant has readers, or could have."""
        return bool(self._restricted[tenant_id] or self._restricted[None])

    def has_not_scanned(self, tenant_id: str) -> bool:
        """Return whether an unscanned file belongs to the tenant, or could."""
        return bool(self._not_scanned[tenant_id] or self._not_scanned[None])

    def revision_of(self, tenant_id: str) -> int:
        """Return a number that changes with each change of a tenant's documents."""
        return self._revisions[tenant_id]

    def files_of_tenant(self, tenant_id: str) -> list[KnownFile]:
        """Return the files in use of a tenant."""
        return [self._files[name] for name in self._served_of.get(tenant_id, ())]

    @property
    def keys(self) -> Set[Key]:
        """Keys of all documents."""
        return self._served.keys()

    def apply_listing(self, listing: Listing, scans: Mapping[str, FileScan]) -> set[Key]:
        """Apply a listing; return the documents that may have changed.

        ``scans`` of earlier starts are valid for equal stamps. Files in an unlisted folder are
        kept, and so are all files while the root is missing: a briefly unmounted volume must not
        remove documents.
        """
        if not listing.is_there:
            return set()
        changed: set[Key | None] = set()
        for name in [name for name in self._files if not self._is_listed(name, listing)]:
            changed.add(self._files[name].key)
            self._set(name, None)
        for name, stamp in listing.files.items():
            known = self._files.get(name)
            if known is not None and known.stamp == stamp:
                continue
            file = _listed(name, stamp, known, scans.get(name))
            changed.add(file.key)
            if known is not None:
                changed.add(known.key)
            self._set(name, file)
        for name, reason in listing.unread.items():
            known = self._files.get(name) or KnownFile(stamp=None, spelled=spelled_key(name))
            self._set(name, replace(known, stamp=None, reason=reason, scanned=True))
        is_other = self._unlisted != listing.unlisted
        self._unlisted = listing.unlisted
        if changed or is_other or listing.unread:
            changed |= self._select()
        return {key for key in changed if key is not None}

    def apply_scan(self, name: str, scan: FileScan) -> set[Key]:
        """Apply the scan of a file; return the changed documents."""
        known = self._files.get(name)
        if known is None:
            known = KnownFile(stamp=None, spelled=spelled_key(name))
        head = known.head if scan.head is None else scan.head
        file = replace(known, stamp=scan.stamp, head=head, reason=scan.reason, scanned=True)
        self._set(name, file)
        is_as_expected = file.reason is known.reason is None and file.key == known.key
        if _expiry_of(file) != _expiry_of(known):
            is_as_expected = False
        if is_as_expected and file.key is not None and self._served.get(file.key) == name:
            selected = set()
        else:
            selected = self._select()
        return selected if file.head == known.head else selected | _keys(known, file)

    def forget(self, name: str) -> set[Key]:
        """Remove a file; return the changed documents."""
        known = self._files.get(name)
        if known is None:
            return set()
        self._set(name, None)
        return self._select() | _keys(known)

    def _is_listed(self, name: str, listing: Listing) -> bool:
        """Return whether a file exists, or could: its folder could not be listed."""
        if name in listing.files or name in listing.unread:
            return True
        return any(not folder or name.startswith(f"{folder}/") for folder in listing.unlisted)

    def _set(self, name: str, file: KnownFile | None) -> None:
        if (old := self._files.pop(name, None)) is not None:
            self._count(old, -1)
        if file is not None:
            self._files[name] = file
            self._count(file, 1)

    def _count(self, file: KnownFile, by: int) -> None:
        tenant_id = file.key[0] if file.key else None
        if tenant_id is not None:
            self._revisions[tenant_id] += 1
        if not file.scanned:
            self._not_scanned[tenant_id] += by
        if not file.scanned or (file.head is not None and file.head.readers is not None):
            self._restricted[tenant_id] += by

    def _select(self) -> set[Key]:
        """Choose the file of each document; return the documents whose file changed."""
        before, self._served = self._served, {}
        self._errors = {file_name_text(name): reason for name, reason in self._unlisted.items()}
        self._misnamed = {}
        others: list[tuple[str, Key]] = []
        for name, file in self._files.items():
            key = file.key
            if file.reason is not None:
                self._errors[file_name_text(name)] = file.reason
            if key is not None and key == file.spelled:
                self._served[key] = name
            elif key is not None:
                others.append((name, key))
        for name, key in sorted(others):
            winner = self._served.setdefault(key, name)
            if winner != name:
                reason = f"holds the same document as {file_name_text(winner)}"
                self._errors[file_name_text(name)] = reason
            else:
                self._misnamed[name] = canonical_name(*key) or (
                    "a shorter id, because this one is too long for a file name"
                )
        self._group_served()
        return {key for key, name in self._served.items() if before.get(key) != name} | (
            before.keys() - self._served.keys()
        )

    def _group_served(self) -> None:
        self._served_of = {}
        self._expiring = {}
        for key, name in self._served.items():
            tenant_id, doc_id = key
            self._served_of.setdefault(tenant_id, []).append(name)
            if _expiry_of(self._files[name]) is not None:
                self._expiring.setdefault(doc_id, []).append(key)
        self._doc_ids = Counter(doc_id for _, doc_id in self._served)


def _expiry_of(file: KnownFile) -> datetime | None:
    return None if file.head is None else file.head.expires_at


def _listed(name: str, stamp: Stamp, known: KnownFile | None, scan: FileScan | None) -> KnownFile:
    spelled = spelled_key(name) if known is None else known.spelled
    if scan is not None and scan.stamp == stamp:
        head = scan.head or (known.head if known else None)
        return KnownFile(stamp=stamp, spelled=spelled, head=head, reason=scan.reason, scanned=True)
    return KnownFile(stamp=stamp, spelled=spelled, head=known.head if known else None)


def _keys(*files: KnownFile) -> set[Key]:
    return {file.key for file in files if file.key is not None}


MAX_TENANTS = 64
"""Tenants with cached sorted lists."""

ENTRIES_PER_TURN = 1_000
"""Documents compared before the event loop can run other tasks: 0.3 ms."""


@dataclass(frozen=True, slots=True)
class _Entry:
    head: DocumentHead
    updated_ns: int
    names: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _TenantList:
    revision: int
    ids: Sequence[str]
    entries: Sequence[_Entry]


class FolderLists:
    """Sorted documents of each tenant, rebuilt when a list is requested after a change."""

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
        """Return a tenant's first documents after an id."""
        listed = await self._list_of(tenant_id)
        start = bisect_right(listed.ids, after)
        return [entry.head for entry in listed.entries[start : start + limit]]

    async def _list_of(self, tenant_id: str) -> _TenantList:
        """Return the current documents of a tenant; a thread sorts and folds them."""
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
    """Sort the documents of a tenant; reuse the folded names of the previous list."""
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
