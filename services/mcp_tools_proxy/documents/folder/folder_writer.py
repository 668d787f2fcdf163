"""DocumentWriter over a folder: one file per document, written atomically under one lock."""

import asyncio
import dataclasses
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import (
    DocumentDump,
    InvalidDocument,
    WrittenFile,
    document_path,
    write_document,
)
from mcp_tools_proxy.documents.document_store import (
    HEAD_ONLY,
    DocumentFilter,
    Key,
    VectorStore,
    Wanted,
    folded_names,
)
from mcp_tools_proxy.documents.document_writer import (
    KEEP_VERSIONS,
    DocumentUsage,
    Expected,
    NoSuchDocument,
    ReadOnlyDocuments,
    VersionConflict,
    WriteFailed,
    check_expected,
    check_quota,
    facts_bytes,
)
from mcp_tools_proxy.documents.folder.file_scan import (
    SUFFIX,
    FileLayout,
    FileScan,
    canonical_name,
    list_files,
    misnamed_text,
    stamp_of,
)
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.kept_files import OlderFiles, OriginalFiles
from mcp_tools_proxy.documents.retention import RetentionRule, reason_to_remove
from mcp_tools_proxy.documents.versions import head_of, rights_tag
from mcp_tools_proxy.domain.document import Document, DocumentHead, ImportWarning, Readers
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.storage.files import remove_unfinished
from mcp_tools_proxy.wire.text import file_name_text

LOCK_NAME = ".documents.lock"
"""Lock file for changes to the folder; its leading dot hides it from the documents."""

KEYS_PER_TURN = 500
"""Documents compared with rules before the event loop can run other tasks."""

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def _ignore(_doc_id: str, _path: Path) -> None:
    """Do nothing: the default callback."""


def _close(locked: asyncio.Future[int]) -> None:
    """Close a descriptor obtained after a cancellation."""
    if not locked.cancelled() and locked.exception() is None:
        os.close(locked.result())


class FolderWriter:
    """A DocumentWriter over the files of a store's folder.

    ``shown_root`` is the folder in messages; ``on_removed`` is called with a document's id and each
    removed file. ``quota`` limits each tenant's documents.
    """

    def __init__(
        self,
        store: FolderStore,
        *,
        shown_root: Path | None = None,
        on_removed: Callable[[str, Path], None] = _ignore,
        keep_versions: int = KEEP_VERSIONS,
        quota: Quota | None = None,
    ) -> None:
        self._store = store
        self._root = store.root
        self._older = OlderFiles(store.root)
        self._originals = OriginalFiles(store.root)
        self._keep_versions = keep_versions
        self._quota = quota
        self._shown_root = shown_root or store.root
        self._on_removed = on_removed
        self._removes_unfinished = True
        """Whether the next change removes the unfinished files of killed writers."""
        self._changing = asyncio.Lock()
        """Held before the file lock: otherwise each waiting change occupies a thread, until the
        lock holder cannot get one."""

    def __repr__(self) -> str:
        return f"<FolderWriter {str(self._root)!r}>"

    @property
    def name(self) -> str:
        """Human-readable location of the documents."""
        return str(self._shown_root)

    @property
    def vectors(self) -> VectorStore:
        """Store of the documents' vectors."""
        return self._store.vectors

    def place(self, key: Key) -> str:
        """Return the path of a document's file."""
        found = self._store.catalog.file_of(key)
        name = canonical_name(*key) if found is None else found[0]
        return str(self._shown(name or ""))

    async def problems_of(self, key: Key) -> Mapping[str, str]:
        """Return the unusable files of a document: path → reason."""
        return {
            file_name_text(str(self._shown(name))): file.reason
            for name, file in self._store.catalog.files_of(key).items()
            if file.reason is not None
        }

    @property
    def unusable(self) -> Mapping[str, str]:
        """Files not in use: name relative to the folder → reason, one line each."""
        return self._store.catalog.errors

    async def problems(self) -> Mapping[str, str]:
        """Return the files not in use, and those in use with a wrong name."""
        problems = dict(self._store.catalog.errors)
        for name, wanted in self._store.catalog.misnamed.items():
            problems.setdefault(file_name_text(name), misnamed_text(wanted))
        return problems

    async def list_heads(
        self,
        tenant_id: str | None,
        *,
        after: Key | None = None,
        limit: int,
        filter: DocumentFilter | None = None,
    ) -> tuple[DocumentHead, ...]:
        """Return up to ``limit`` documents after ``after``, ordered by tenant and doc_id."""
        heads: list[DocumentHead] = []
        for key in sorted(self._store.catalog.keys):
            if (after is not None and key <= after) or tenant_id not in (None, key[0]):
                continue
            reading = await self._store.read(key, HEAD_ONLY)
            if reading is not None and (
                filter is None or filter.admits(reading.head, folded_names(reading.head)[2:])
            ):
                heads.append(reading.head)
            if len(heads) == limit:
                break
        return tuple(heads)

    async def head(self, key: Key) -> DocumentHead | None:
        """Return the head of a document, or None."""
        reading = await self._store.read(key, HEAD_ONLY)
        return None if reading is None else reading.head

    async def document(self, key: Key) -> Document | None:
        """Return a whole document, or None."""
        reading = await self._store.read(key, Wanted(whole=True))
        return None if reading is None else reading.document

    async def older_versions(self, key: Key) -> Sequence[str]:
        """Return the kept older versions of a document, newest first."""
        head = await self.head(key)
        if head is None:
            return ()
        return await asyncio.to_thread(self._older.versions, key, head.version)

    async def put(
        self,
        document: Document,
        *,
        expected: Expected | str,
        keep_readers: bool,
        original: bytes | None = None,
    ) -> DocumentHead:
        """Write a document to its canonical file and remove its other files.

        Raises VersionConflict, and InvalidDocument for a document that cannot be written or would
        replace a broken file with unknown readers.
        """
        key = (document.tenant_id, document.doc_id)
        async with self._writing(key) as old:
            check_expected(old, expected, None if old is None else old.version)
            if old is None and (broken := await self.problems_of(key)):
                self._refuse_broken(broken, expected, keep_readers=keep_readers)
            readers = old.readers if old is not None and keep_readers else document.readers
            is_untrusted = document.is_untrusted or (old is not None and old.is_untrusted)
            written = dataclasses.replace(document, readers=readers, is_untrusted=is_untrusted)
            return await self._write(written, old, original)

    async def set_readers(
        self, key: Key, readers: Readers | None, *, expected: Expected | str
    ) -> DocumentHead:
        """Change the readers of a document. Raises VersionConflict, NoSuchDocument."""
        async with self._writing(key) as old:
            if old is None:
                raise NoSuchDocument
            check_expected(old, expected, rights_tag(old.readers))
            document = await self.document(key)
            if document is None:
                raise NoSuchDocument
            return await self._write(dataclasses.replace(document, readers=readers), old)

    async def set_facts(
        self, key: Key, facts: EditableFacts, *, expected: Expected | str
    ) -> DocumentHead:
        """Change the facts of a document. Raises VersionConflict, NoSuchDocument."""
        async with self._writing(key) as old:
            document = None if old is None else await self.document(key)
            if old is None or document is None:
                raise NoSuchDocument
            check_expected(old, expected, EditableFacts.of(old).etag)
            original = await asyncio.to_thread(self._originals.read, key, old.version)
            return await self._write(facts.set_on(document), old, original)

    async def warnings(self, key: Key) -> Sequence[ImportWarning]:
        """Return the warnings of a document's import."""
        document = await self.document(key)
        return () if document is None else document.warnings

    async def remove(self, key: Key, *, expected: Expected | str) -> DocumentHead | None:
        """Remove every file of a document. Raises VersionConflict, NoSuchDocument."""
        async with self._writing(key) as old:
            if old is not None or expected is not Expected.ANYTHING:
                check_expected(old, expected, None if old is None else old.version)
            await self._remove_all(key)
        return old

    async def remove_unchanged(self, head: DocumentHead) -> bool:
        """Remove a document that still has this head; return whether it was removed."""
        key = (head.tenant_id, head.doc_id)
        async with self._writing(key) as old:
            if old != head:
                return False
            await self._remove_all(key)
        return True

    @asynccontextmanager
    async def outdated(
        self, rules: Sequence[RetentionRule], *, limit: int
    ) -> AsyncIterator[Sequence[tuple[DocumentHead, str]]]:
        """Find the first documents that have expired, or whose rule has, with the reasons."""
        now = datetime.now(UTC)
        found: list[tuple[DocumentHead, str]] = []
        for number, key in enumerate(sorted(self._store.catalog.keys)):
            if number % KEYS_PER_TURN == KEYS_PER_TURN - 1:
                await asyncio.sleep(0)
            file = self._store.catalog.file_of(key)
            if file is None or file[1].reason or file[1].head is None or file[1].stamp is None:
                continue
            head, updated = file[1].head, datetime.fromtimestamp(file[1].stamp[0] / 1e9, UTC)
            if (reason := reason_to_remove(head, updated, rules, now)) is not None:
                found.append((head, reason))
            if len(found) == limit:
                break
        yield found

    async def close(self) -> None:
        """Close the store."""
        self._store.close()

    async def _write(
        self, document: Document, old: DocumentHead | None, original: bytes | None = None
    ) -> DocumentHead:
        """Write the canonical file, then remove the document's other files."""
        key = (document.tenant_id, document.doc_id)
        path = document_path(self._root, *key)
        with self._store.writing(path.relative_to(self._root).as_posix()):
            head, others = await self._replace(document, path, old, original)
        if others:
            await self._remove(key, others)
        return head

    async def _replace(
        self, document: Document, path: Path, old: DocumentHead | None, original: bytes | None
    ) -> tuple[DocumentHead, list[str]]:
        """Write the canonical file; return its head and the document's other files."""
        key = (document.tenant_id, document.doc_id)
        try:
            head = await asyncio.to_thread(head_of, document)
            await self._check_quota(document, head, old, original)
            older = await self._keep_older(key, old, head.version)
            written = await asyncio.to_thread(self._write_file, document, head, old, original)
        except OSError as error:
            raise self._failure(error) from error
        except ValueError as error:  # a lone surrogate has no UTF-8
            raise InvalidDocument(f"cannot be written as JSON: {error}") from error
        await asyncio.to_thread(self._remove_outdated, head, older)
        layout = FileLayout(spans=written.spans, sections=document.sections)
        scan = FileScan(stamp=stamp_of(written.status), head=head, layout=layout)
        others = await asyncio.to_thread(self._others, [*self._store.catalog.files_of(key)], path)
        await self._store.apply_written(path.relative_to(self._root).as_posix(), scan)
        return head, others

    async def _check_quota(
        self,
        document: Document,
        head: DocumentHead,
        old: DocumentHead | None,
        original: bytes | None,
    ) -> None:
        """Check the quota under the lock against the files on disk, as other processes write too.

        Facts count only for files that this process has read.
        """
        if self._quota is not None:
            heads = self._store.heads_of(head.tenant_id)
            size = partial(self._check_sizes, self._quota, document, head, old, original, heads)
            await asyncio.to_thread(size)

    def _check_sizes(
        self,
        quota: Quota,
        document: Document,
        head: DocumentHead,
        old: DocumentHead | None,
        original: bytes | None,
        heads: Sequence[DocumentHead],
    ) -> None:
        sizes = self._sizes(head.tenant_id)
        own = document_path(Path(), head.tenant_id, head.doc_id).name
        is_there = own in sizes or old is not None
        largest, kept_original = sizes.pop(own, (0, 0))
        written = sum(map(len, DocumentDump(document)))
        facts = sum(facts_bytes(it) for it in heads if it.doc_id != head.doc_id)
        check_quota(
            quota,
            others=DocumentUsage(len(sizes), sum(map(sum, sizes.values())), facts),
            old=DocumentUsage(
                int(is_there), largest + kept_original, 0 if old is None else facts_bytes(old)
            ),
            new=DocumentUsage(1, max(written, largest) + len(original or b""), facts_bytes(head)),
        )

    def _sizes(self, tenant_id: str) -> dict[str, tuple[int, int]]:
        """Return the bytes of each document of a tenant by file: largest version, and PDF."""
        folder = document_path(self._root, tenant_id, "-").parent
        older = self._older.sizes(folder.name)
        originals = self._originals.sizes(folder.name)
        return {
            name: (
                max(stamp[2], *older.get(name.removesuffix(SUFFIX), (0,))),
                sum(originals.get(name.removesuffix(SUFFIX), ())),
            )
            for name, stamp in list_files(folder).files.items()
        }

    def _write_file(
        self,
        document: Document,
        head: DocumentHead,
        old: DocumentHead | None,
        original: bytes | None,
    ) -> WrittenFile:
        """Write a document's PDF, then its file; remove the PDF if that fails.

        Otherwise the PDF of a document that does not exist would stay.
        """
        key = (document.tenant_id, document.doc_id)
        try:
            if original is not None:
                self._originals.keep(key, head.version, original)
            return write_document(self._root, document, replace=True)
        except Exception:
            with suppress(OSError):
                self._originals.remove(key, but=None if old is None else old.version)
            raise

    async def _keep_older(self, key: Key, old: DocumentHead | None, new: str) -> Sequence[str]:
        """Keep the version that ``new`` replaces; return the versions older than ``new``."""
        found = self._store.catalog.file_of(key)
        if old is None or found is None:
            await asyncio.to_thread(self._remove_kept, key)  # of an earlier document with that id
            return ()
        older = await asyncio.to_thread(self._older.versions, key, old.version)
        if old.version == new:
            return older
        if self._keep_versions > 1:
            await asyncio.to_thread(self._older.keep, key, self._root / found[0], old.version)
        older = [old.version, *(version for version in older if version != new)]
        return older[: self._keep_versions - 1]

    def _remove_kept(self, key: Key) -> None:
        self._older.remove(key)
        self._originals.remove(key)

    def _remove_outdated(self, head: DocumentHead, older: Sequence[str]) -> None:
        """Remove outdated versions and PDFs; after a failure, the next change removes them."""
        key = (head.tenant_id, head.doc_id)
        with suppress(OSError):
            self._older.list(key, older, present=head.version)
            self._originals.remove(key, but=head.version)

    def _others(self, names: list[str], written: Path) -> list[str]:
        """Return the files that are not links to the written one."""
        kept = os.path.realpath(written)
        return [name for name in names if os.path.realpath(self._root / name) != kept]

    async def _remove_all(self, key: Key) -> None:
        names = list(self._store.catalog.files_of(key))
        if not names:
            raise NoSuchDocument
        try:
            await asyncio.to_thread(self._remove_kept, key)
        except OSError as error:
            raise self._failure(error) from error
        await self._remove(key, names)

    async def _remove(self, key: Key, names: list[str]) -> None:
        try:
            for name in names:
                path = self._root / name
                await asyncio.to_thread(path.unlink, missing_ok=True)  # another process may have
                self._on_removed(key[1], self._shown(name))
        except OSError as error:
            raise self._failure(error) from error
        finally:
            await self._store.refresh(key)

    def _refuse_broken(
        self, broken: Mapping[str, str], expected: Expected | str, *, keep_readers: bool
    ) -> None:
        if expected is Expected.NOTHING:
            raise VersionConflict(None)
        if keep_readers:
            path = next(iter(broken))
            raise InvalidDocument(
                f"{path} cannot be read, so the readers of the document are unknown: fix it, or "
                "remove it with documents remove, and import again"
            )

    @asynccontextmanager
    async def _writing(self, key: Key) -> AsyncIterator[DocumentHead | None]:
        """Hold the folder's lock and yield the document's current head."""
        async with self._changing:
            descriptor = await self._locked()
            try:
                await self._store.refresh(key)
                found = self._store.catalog.file_of(key)
                is_usable = found is not None and found[1].reason is None
                yield await self.head(key) if is_usable else None
            finally:
                os.close(descriptor)

    async def _locked(self) -> int:
        """Return the lock's descriptor; close one obtained after a cancellation."""
        locking = asyncio.get_running_loop().run_in_executor(None, self._lock)
        try:
            return await asyncio.shield(locking)
        except asyncio.CancelledError:
            locking.add_done_callback(_close)
            raise

    def _lock(self) -> int:
        """Open the lock file and wait for the lock; closing the descriptor releases it."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        except OSError as error:
            raise self._failure(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if self._removes_unfinished:
                remove_unfinished(self._root)
                self._removes_unfinished = False
        except OSError as error:
            os.close(descriptor)
            raise self._failure(error) from error
        return descriptor

    def _failure(self, error: OSError) -> ReadOnlyDocuments | WriteFailed:
        reason = f"{self.name} cannot be written: {error.strerror}"
        return ReadOnlyDocuments(reason) if error.errno in _READ_ONLY else WriteFailed(reason)

    def _shown(self, name: str) -> Path:
        return self._shown_root / name
