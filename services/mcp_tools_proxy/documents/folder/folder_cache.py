"""Disk cache of a documents folder: scans of its files, and vectors of its documents.

Each folder has two SQLite files in ``cache_dir``, because the folder itself can be read-only and is
copied and listed by others. Scans spare the next start from reading unchanged files. Vectors are
costlier, so their file survives a change of the scans' format. Both can be deleted at any time:
failures (full disk, another user's folder, a damaged file) cost only time.
"""

import asyncio
import hashlib
import json
import math
import os
import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from datetime import datetime
from pathlib import Path

from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.document_file import dump_metadata, dump_readers, load_metadata
from mcp_tools_proxy.documents.document_store import Key, StoredVectors
from mcp_tools_proxy.documents.folder.file_scan import FileLayout, FileScan, Stamp
from mcp_tools_proxy.domain.document import DocumentHead, DocumentSource, Readers, Section
from mcp_tools_proxy.storage.cache_folder import make_private

BUSY_TIMEOUT_S = 2.0
"""Seconds to wait for another process that writes to the same file."""

RETRY_S = 30.0
"""Seconds before a failed file is retried; until then each cold read parses a whole document."""

_FAILURES = (OSError, sqlite3.Error, ValueError, TypeError, KeyError, OverflowError)
"""Errors from a full disk, a damaged or foreign file, or an inode over 63 bits."""


def digest_of(documents: Path) -> str:
    """Return the part of the cache file names that identifies a folder."""
    return hashlib.sha256(os.fsencode(documents.absolute())).hexdigest()[:24]


class CacheFile:
    """An SQLite file with ``tables``; ``on_failure`` is called once. Blocking: use in a thread."""

    def __init__(self, path: Path, tables: str, on_failure: Callable[[Path, str], None]) -> None:
        self._path = path
        self._tables = tables
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._retry_at = 0.0

    def __repr__(self) -> str:
        return repr(str(self._path))

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection | None]:
        """Yield the open database and commit; yield None for a while after a failure."""
        with self._lock:
            self._open()
            try:
                yield self._database
                if self._database is not None:
                    self._database.commit()
            except _FAILURES as error:
                self._give_up(str(error))

    def close(self) -> None:
        """Close the file for good."""
        with self._lock:
            self._retry_at = math.inf
            self._release()

    def _open(self) -> None:
        if self._database is not None or time.monotonic() < self._retry_at:
            return
        try:
            self._database = _open(self._path, self._tables)
        except _FAILURES as error:
            self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        if self._retry_at == 0:
            self._on_failure(self._path, reason)
        self._retry_at = time.monotonic() + RETRY_S
        self._release()

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _open(path: Path, tables: str) -> sqlite3.Connection:
    """Open the file; replace a damaged one. Raises OSError, sqlite3.Error."""
    make_private(path.parent)
    try:
        return _connect(path, tables)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        return _connect(path, tables)


def _connect(path: Path, tables: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(tables)
    except sqlite3.Error:
        database.close()
        raise
    return database


FORMAT = 6
"""Part of the file's name: a release with another format scans the folder again."""

_TABLES = """
CREATE TABLE IF NOT EXISTS scans (
    name BLOB PRIMARY KEY, mtime INTEGER, ctime INTEGER, size INTEGER, inode INTEGER, reason TEXT,
    tenant_id TEXT, doc_id TEXT, title TEXT, tags TEXT, page_count INTEGER, section_count INTEGER,
    text_chars INTEGER, version TEXT, readers TEXT, language TEXT, ocr TEXT, date TEXT,
    metadata TEXT, source TEXT, expires_at TEXT, untrusted INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS layouts (
    name BLOB PRIMARY KEY, mtime INTEGER, ctime INTEGER, size INTEGER, inode INTEGER, spans BLOB,
    sections BLOB
);
"""

_Row = tuple[object, ...]


class ScanCache:
    """The scans of one documents folder, by file name. Blocking: call in a thread."""

    def __init__(
        self,
        folder: Path,
        documents: Path,
        on_failure: Callable[[Path, str], None] = lambda _path, _reason: None,
    ) -> None:
        path = folder / f"documents-{FORMAT}-{digest_of(documents)}.sqlite"
        self._file = CacheFile(path, _TABLES, on_failure)

    def __repr__(self) -> str:
        return f"<ScanCache {self._file!r}>"

    def load(self) -> dict[str, FileScan]:
        """Return all kept scans; none if they are unreadable."""
        with self._file.using() as database:
            if database is not None:
                rows = database.execute("SELECT * FROM scans")
                return {os.fsdecode(row[0]): _scan(row) for row in rows}
        return {}

    def keep(self, scans: Mapping[str, FileScan]) -> None:
        """Add or replace scans."""
        with self._file.using() as database:
            if database is not None:
                rows = [_row(name, scan) for name, scan in scans.items() if scan.stamp is not None]
                layouts = [
                    (os.fsencode(name), *scan.stamp, *_layout_row(scan.layout))
                    for name, scan in scans.items()
                    if scan.stamp is not None and scan.layout is not None
                ]
                marks = ", ".join("?" * 22)
                database.executemany(f"INSERT OR REPLACE INTO scans VALUES ({marks})", rows)  # noqa: S608 - question marks
                database.executemany(
                    "INSERT OR REPLACE INTO layouts VALUES (?, ?, ?, ?, ?, ?, ?)", layouts
                )

    def forget(self, names: Iterable[str]) -> None:
        """Remove the scans of deleted files."""
        with self._file.using() as database:
            if database is not None:
                rows = [(os.fsencode(name),) for name in names]
                database.executemany("DELETE FROM scans WHERE name = ?", rows)
                database.executemany("DELETE FROM layouts WHERE name = ?", rows)

    def layout(self, name: str, stamp: Stamp) -> FileLayout | None:
        """Return the positions of a file's parts, or None if unknown.

        The key is the stamp: files that differ in white space only have the same version.
        """
        with self._file.using() as database:
            if database is not None:
                wanted = (
                    "SELECT spans, sections FROM layouts "
                    "WHERE (name, mtime, ctime, size, inode) = (?, ?, ?, ?, ?)"
                )
                for row in database.execute(wanted, (os.fsencode(name), *stamp)):
                    return _layout(*row)
        return None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _row(name: str, scan: FileScan) -> _Row:
    head = scan.head
    stamp = scan.stamp or (0, 0, 0, 0)
    if head is None:
        return (os.fsencode(name), *stamp, scan.reason, *(None,) * 16)
    readers = None if head.readers is None else json.dumps(dump_readers(head.readers))
    return (
        os.fsencode(name),
        *stamp,
        None,
        head.tenant_id,
        head.doc_id,
        head.title,
        json.dumps(head.tags) if head.tags else None,
        head.page_count,
        head.section_count,
        head.text_chars,
        head.version,
        readers,
        head.language,
        json.dumps(head.ocr) if head.ocr else None,
        head.date,
        json.dumps(dump_metadata(head.metadata)) if head.metadata else None,
        None if head.source is None else json.dumps(head.source),
        None if head.expires_at is None else head.expires_at.isoformat(),
        head.is_untrusted,
    )


def _scan(row: tuple[object, ...]) -> FileScan:
    _, mtime, ctime, size, inode, reason, tenant_id, doc_id, title, tags, pages, *rest = row
    stamp: Stamp = (mtime, ctime, size, inode)  # type: ignore[assignment] # as they were written
    if tenant_id is None:
        return FileScan(stamp=stamp, reason=str(reason))
    sections, chars, version, readers, language, ocr, date, metadata, source, *last = rest
    expires_at, untrusted = last
    head = DocumentHead(
        tenant_id=str(tenant_id),
        doc_id=str(doc_id),
        title=str(title),
        tags=() if tags is None else tuple(json.loads(str(tags))),
        page_count=int(pages),  # type: ignore[call-overload]
        section_count=int(sections),  # type: ignore[call-overload]
        text_chars=int(chars),  # type: ignore[call-overload]
        version=str(version),
        readers=None if readers is None else _readers(json.loads(str(readers))),
        language=None if language is None else str(language),
        ocr=() if ocr is None else tuple(json.loads(str(ocr))),
        date=None if date is None else str(date),
        metadata={} if metadata is None else load_metadata(json.loads(str(metadata))),
        source=None if source is None else DocumentSource(*json.loads(str(source))),
        expires_at=None if expires_at is None else datetime.fromisoformat(str(expires_at)),
        is_untrusted=bool(untrusted),
    )
    return FileScan(stamp=stamp, head=head)


def _layout_row(layout: FileLayout) -> tuple[bytes, bytes]:
    return layout.spans.tobytes(), to_json([astuple(it) for it in layout.sections.values()])


def _layout(spans: bytes, sections: bytes) -> FileLayout:
    numbers = array("Q")
    numbers.frombytes(spans)
    named = [field.name for field in fields(Section)]
    found = (Section(**dict(zip(named, row, strict=True))) for row in from_json(sections))
    return FileLayout(spans=numbers, sections={section.section_id: section for section in found})


def _readers(named: Mapping[str, list[str]]) -> Readers:
    return Readers(users=frozenset(named["users"]), roles=frozenset(named["roles"]))


_VECTORS_FORMAT = 1

_VECTORS_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (
    name BLOB PRIMARY KEY, version TEXT, model TEXT, dimension INTEGER, data BLOB
);
"""

FileName = Callable[[Key], str | None]
"""Returns the name of the file in use for a document, or None."""


class VectorFile:
    """The vectors of one documents folder. Blocking: call in a thread."""

    def __init__(self, folder: Path, documents: Path) -> None:
        path = folder / f"vectors-{_VECTORS_FORMAT}-{digest_of(documents)}.sqlite"
        self._file = CacheFile(path, _VECTORS_TABLES, lambda _path, _reason: None)

    def __repr__(self) -> str:
        return f"<VectorFile {self._file!r}>"

    def read(self, name: str, version: str, model: str) -> StoredVectors | None:
        """Return the vectors of a file's document, or None."""
        with self._file.using() as database:
            if database is not None:
                wanted = (
                    "SELECT dimension, data FROM vectors WHERE (name, version, model) = (?, ?, ?)"
                )
                for dimension, data in database.execute(
                    wanted, (os.fsencode(name), version, model)
                ):
                    return StoredVectors(
                        version=version, model=model, dimension=dimension, data=data
                    )
        return None

    def write(self, name: str, vectors: StoredVectors) -> None:
        """Replace the vectors of a file's document."""
        with self._file.using() as database:
            if database is not None:
                database.execute(
                    "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)",
                    (
                        os.fsencode(name),
                        vectors.version,
                        vectors.model,
                        vectors.dimension,
                        vectors.data,
                    ),
                )

    def forget(self, names: Iterable[str]) -> None:
        """Remove the vectors of deleted files."""
        if not self._file.is_there:
            return
        with self._file.using() as database:
            if database is not None:
                rows = [(os.fsencode(name),) for name in names]
                database.executemany("DELETE FROM vectors WHERE name = ?", rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FolderVectors:
    """A VectorStore over a file; ``file_name`` finds the file of a document."""

    def __init__(self, file: VectorFile, file_name: FileName) -> None:
        self._file = file
        self._file_name = file_name

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        """Return the vectors of a version by a model, or None."""
        name = self._file_name(key)
        if name is None:
            return None
        return await asyncio.to_thread(self._file.read, name, version, model)

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Replace stored vectors; outdated ones are never read."""
        name = self._file_name(key)
        if name is not None:
            await asyncio.to_thread(self._file.write, name, vectors)
