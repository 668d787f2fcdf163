"""DocumentStore over the files of one folder; logs the folder's problems."""

import asyncio
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic_core import from_json

from mcp_tools_proxy.documents.document_store import (
    HEAD_ONLY,
    CatalogEntry,
    CatalogQuery,
    ChangeListener,
    Key,
    Reading,
    VectorStore,
    Wanted,
)
from mcp_tools_proxy.documents.folder.file_scan import (
    MAX_FILE_BYTES,
    FileScan,
    canonical_name,
    list_files,
    misnamed_text,
    scan_file,
    stamp_of,
)
from mcp_tools_proxy.documents.folder.folder_cache import FolderVectors, ScanCache, VectorFile
from mcp_tools_proxy.documents.folder.folder_catalog import FolderCatalog, FolderLists, KnownFile
from mcp_tools_proxy.documents.folder.kept_files import OlderFiles, OriginalFiles
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.text import file_name_text

SCANNED_FIRST_BYTES = 8_000_000
"""Total size of files scanned before the start completes; takes 0.1 s."""

BATCH_BYTES = 1_000_000
BATCH_FILES = 64
"""Limits of one background batch, which is then kept on disk."""

ATTEMPTS = 3
"""Attempts to read a document whose file keeps changing."""

log = structlog.get_logger()


class FolderReport:
    """Logs each problem once and updates the metrics after each reading of the folder."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.present: bool | None = None
        self._last: tuple[Mapping[str, str], Mapping[str, str]] | None = None

    def update(self, folder: "FolderStore", *, has_changed: bool) -> None:
        """Log new problems; ``has_changed``: any document may have changed."""
        if folder.present != self.present:
            write = log.info if folder.present else log.warning
            write("documents.folder", path=str(folder.root), present=folder.present)
            self.present = folder.present
        errors, misnamed = self._last or ({}, {})
        for name, reason in folder.catalog.errors.items():
            if errors.get(name) != reason:
                log.warning("documents.file_ignored", file=name, reason=reason)
        for name, wanted in folder.catalog.misnamed.items():
            if misnamed.get(name) != wanted:
                log.warning(
                    "documents.file_misnamed",
                    file=file_name_text(name),
                    problem=misnamed_text(wanted),
                )
        self._metrics.documents.set(len(folder))
        self._metrics.document_errors.set(len(folder.catalog.errors))
        now = (dict(folder.catalog.errors), dict(folder.catalog.misnamed))
        if has_changed or now != self._last:
            log.info("documents.loaded", documents=len(folder), errors=len(folder.catalog.errors))
        self._last = now


def log_cache_failure(path: Path, reason: str) -> None:
    """Log the reason why scans cannot be kept."""
    log.warning("documents.cache_failed", path=str(path), reason=reason)


class FolderStore:
    """A DocumentStore over the files of ``root``, which need not exist.

    Call ``load`` once, and again whenever the folder may have changed (``FolderWatch``); keep
    ``scan_rest`` running. Files are read in threads.

    A load lists names and stamps; scans from the disk cache are valid for equal stamps. Other files
    are scanned at once if they are small in total, otherwise in background batches; a read scans
    its file immediately. Texts are not kept: a read of pages uses the byte positions of the scan
    and then checks the stamp; if that differs, the file is scanned again.
    """

    def __init__(
        self,
        root: Path,
        cache: ScanCache,
        reporter: FolderReport | None = None,
        vectors: VectorFile | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.root = root.absolute()
        self._max_file_bytes = max_file_bytes
        self._cache = cache
        self._vectors = vectors
        self._reporter = reporter
        self.catalog = FolderCatalog()
        self._lists = FolderLists(self.catalog)
        self._older = OlderFiles(self.root)
        self._originals = OriginalFiles(self.root)
        self._listener: ChangeListener | None = None
        self._has_earlier = False
        self._loading = asyncio.Lock()
        self._new_files = asyncio.Event()
        self._being_written: set[str] = set()
        self.present = False
        """Whether the folder existed at the last load."""
        self.vanished = False
        """Whether the folder existed and is now missing; cached documents are still served."""

    def __repr__(self) -> str:
        return (
            f"<FolderStore {str(self.root)!r} documents={len(self.catalog)} "
            f"errors={len(self.catalog.errors)}>"
        )

    def __len__(self) -> int:
        return len(self.catalog)

    @property
    def is_current(self) -> bool:
        """Return True: changes of files are always reported."""
        return True

    @property
    def timeout_s(self) -> float | None:
        """Return None: no limit."""
        return None

    def listen(self, listener: ChangeListener) -> None:
        """Send changes to ``listener`` from now on."""
        self._listener = listener

    async def load(self) -> None:
        """List the folder: names, sizes and times."""
        async with self._loading:
            # sequential: two threads would compete for the GIL and take 80 ms more
            known = await asyncio.to_thread(self._load_earlier)
            listing = await asyncio.to_thread(list_files, self.root)
            self.vanished = not listing.is_there and (self.present or self.vanished)
            self.present = listing.is_there
            before = known.keys() | self.catalog.names
            is_whole = listing.is_there and not listing.unlisted
            removed = before - listing.files.keys() - listing.unread.keys() if is_whole else set()
            changed = self.catalog.apply_listing(listing, known)
            self._notify(changed)
            if removed:
                await asyncio.to_thread(self._forget, removed)
            self._has_earlier = True
        waiting = self._to_scan()
        if sum(listing.files[name][2] for name in waiting) <= SCANNED_FIRST_BYTES:
            await self._scan_all(waiting)
        else:
            self._new_files.set()
        self._report(has_changed=bool(changed))

    def _load_earlier(self) -> Mapping[str, FileScan]:
        """Return the scans of earlier starts on the first call."""
        return {} if self._has_earlier else self._cache.load()

    async def scan_rest(self) -> None:
        """Scan new files in the background until cancelled."""
        while True:
            await self._new_files.wait()
            self._new_files.clear()
            while waiting := self._to_scan():
                await self._scan_all(waiting[:BATCH_FILES])
            self._report(has_changed=True)

    async def scan_all(self) -> None:
        """Scan every unscanned file."""
        await self._scan_all(self.catalog.not_scanned)

    def heads_of(self, tenant_id: str) -> list[DocumentHead]:
        """Return the heads of a tenant's known documents."""
        files = self.catalog.files_of_tenant(tenant_id)
        return [file.head for file in files if file.head is not None]

    async def refresh(self, key: Key) -> None:
        """Scan the files of a document that may have changed."""
        async with self._loading:  # a concurrent, older listing would remove the result
            for name in {*self.catalog.files_of(key), canonical_name(*key)}:
                if name is not None:
                    await self._scan(name)
        self._report(has_changed=True)

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Exclude a file from scans while the block writes it.

        A concurrent scan would only waste the document's memory. One writer at a time per file.
        """
        self._being_written.add(name)
        try:
            yield
        finally:
            self._being_written.remove(name)

    async def apply_written(self, name: str, scan: FileScan) -> None:
        """Apply a written file without reading it."""
        async with self._loading:  # as above
            await self._apply(name, scan)
        self._report(has_changed=True)

    async def read(self, key: Key, wanted: Wanted) -> Reading | None:
        """Read the wanted parts of a document, or None.

        Raises DocumentsUnavailable if the file is invalid or keeps changing.
        """
        for _ in range(ATTEMPTS):
            found = self.catalog.file_of(key)
            if found is None:
                return None
            name, file = found
            if file.scanned and (wanted.is_head_only or file.reason is not None):
                return _head_of(file, wanted)
            reading = None
            if file.scanned and not wanted.whole:
                reading = await asyncio.to_thread(self._read_parts, name, file, wanted)
            if reading is None:
                reading = _whole(await self._scan(name), key)
            if reading is not None:
                return reading
        raise DocumentsUnavailable(
            "the document is being changed; try again in a moment", retry_after_s=1
        )

    async def read_older(self, key: Key, version: str) -> Reading | None:
        """Read an older version, whole; None if it is not kept."""
        reading = await self.read(key, HEAD_ONLY)
        if reading is None:
            return None
        return await asyncio.to_thread(self._older.read, key, version, reading.head.version)

    async def original_tag(self, key: Key, version: str) -> str | None:
        """Return a tag of the kept PDF of a version; None without a PDF."""
        return await asyncio.to_thread(self._originals.tag, key, version)

    async def read_original(self, key: Key, version: str) -> bytes | None:
        """Read the kept PDF of a version; None without a PDF."""
        return await asyncio.to_thread(self._originals.read, key, version)

    async def list_readable(self, query: CatalogQuery) -> Sequence[CatalogEntry]:
        """Return the first documents that a query admits, without unscanned files."""
        return await self._lists.list_readable(query)

    async def readable_ids(self, query: CatalogQuery) -> Sequence[str]:
        """Return the ids of all documents that a query admits, without unscanned files."""
        listed = await self._lists.list_readable(replace(query, limit=sys.maxsize))
        return [entry.head.doc_id for entry in listed]

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        """Return a tenant's first documents after an id."""
        return await self._lists.list_heads(tenant_id, after=after, limit=limit)

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether an unscanned file could be a document of the tenant."""
        return self.catalog.has_not_scanned(tenant_id)

    async def has_doc_id(self, doc_id: str) -> bool:
        """Return whether any tenant has a document with that id."""
        return self.catalog.has_doc_id(doc_id, datetime.now(UTC))

    async def has_readers(self, tenant_id: str) -> bool:
        """Return whether a document of the tenant has readers; unscanned ones count."""
        return self.catalog.has_readers(tenant_id)

    @property
    def vectors(self) -> VectorStore:
        """Store of the documents' vectors."""
        if self._vectors is None:
            raise RuntimeError("this store was opened without its vectors")
        return FolderVectors(self._vectors, self._name_of)

    def close(self) -> None:
        """Close the disk caches."""
        self._cache.close()
        if self._vectors is not None:
            self._vectors.close()

    def _name_of(self, key: Key) -> str | None:
        found = self.catalog.file_of(key)
        return None if found is None else found[0]

    def _forget(self, names: Collection[str]) -> None:
        self._cache.forget(names)
        if self._vectors is not None:
            self._vectors.forget(names)

    def _to_scan(self) -> list[str]:
        """Return the unscanned files that are not being written."""
        return [name for name in self.catalog.not_scanned if name not in self._being_written]

    async def _scan(self, name: str) -> FileScan:
        scan = await asyncio.to_thread(scan_file, self.root, name, self._max_file_bytes)
        if scan.stamp is None and await asyncio.to_thread(_is_removed, self.root, name):
            self._notify(self.catalog.forget(name))
            await asyncio.to_thread(self._forget, [name])
        else:
            await self._apply(name, scan)
        return scan

    async def _apply(self, name: str, scan: FileScan) -> None:
        await asyncio.to_thread(self._cache.keep, {name: scan})
        self._notify(self.catalog.apply_scan(name, scan))

    async def _scan_all(self, names: list[str]) -> None:
        while names:
            scans = await asyncio.to_thread(_scan_batch, self.root, names, self._max_file_bytes)
            names = names[len(scans) :]
            await asyncio.to_thread(self._cache.keep, scans)
            for name, scan in scans.items():
                self._notify(self.catalog.apply_scan(name, scan))

    def _read_parts(self, name: str, file: KnownFile, wanted: Wanted) -> Reading | None:
        """Read parts of a file; None if it changed since its scan or must be read whole."""
        head = file.head
        if head is None or file.stamp is None:
            return None
        layout = self._cache.layout(name, file.stamp)
        if layout is None:
            return None
        pages: dict[int, str] = {}
        if numbers := wanted.page_numbers(layout.sections, head.page_count):
            try:
                with open(self.root / name, "rb") as opened:
                    for number in numbers:
                        begin, end = layout.spans[2 * number - 2 : 2 * number]
                        pages[number] = from_json(os.pread(opened.fileno(), end - begin, begin))
                    if stamp_of(os.fstat(opened.fileno())) != file.stamp:
                        return None
            except (OSError, ValueError):  # ValueError: the file changed, or the cache is damaged
                return None
        return Reading(head=head, pages=pages, sections=layout.sections)

    def _notify(self, changed: set[Key]) -> None:
        if self._listener is not None:
            for key in changed:
                self._listener.changed(key)

    def _report(self, *, has_changed: bool) -> None:
        if self._reporter is not None:
            self._reporter.update(self, has_changed=has_changed)


def _is_removed(root: Path, name: str) -> bool:
    """Return whether the file is gone but the folder exists."""
    return root.is_dir() and not os.path.lexists(root / name)


def _scan_batch(root: Path, names: list[str], max_bytes: int) -> dict[str, FileScan]:
    scans: dict[str, FileScan] = {}
    read_bytes = 0
    for name in names:
        scan = scan_file(root, name, max_bytes)
        scans[name] = scan
        read_bytes += scan.stamp[2] if scan.stamp else 0
        if read_bytes > BATCH_BYTES or len(scans) == BATCH_FILES:
            break
    return scans


def _head_of(file: KnownFile, wanted: Wanted) -> Reading | None:
    """Return the head of a file; raise DocumentsUnavailable if more is wanted of a broken file."""
    if file.head is None:
        return None
    if wanted.is_head_only:
        return Reading(head=file.head)
    raise DocumentsUnavailable(
        "the document cannot be read now, because its file is broken or cannot be opened; try "
        "again later, or tell the user"
    )


def _whole(scan: FileScan, key: Key) -> Reading | None:
    """Return the content of a scan if it is the wanted document."""
    head = scan.head
    if head is None or (head.tenant_id, head.doc_id) != key:
        return None
    return Reading(head=head, document=scan.document)
