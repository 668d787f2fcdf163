"""Keeps what was found in document files on disk, so that the next start reads none of them.

An SQLite file in ``cache_dir`` for each folder. It can be removed at any time. A failure (full
disk, another user's folder, a damaged file) costs the next start time and nothing else.
"""

import json
import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, fields
from pathlib import Path

from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.document_file import dump_readers
from mcp_tools_proxy.documents.folder.cache_file import CacheFile, digest_of
from mcp_tools_proxy.documents.folder.file_listing import Stamp
from mcp_tools_proxy.documents.folder.file_scan import FileLayout, FileScan
from mcp_tools_proxy.domain.document import DocumentHead, Readers, Section

FORMAT = 4
"""Part of the file's name: a release that keeps something else reads the folder anew."""

_TABLES = """
CREATE TABLE IF NOT EXISTS scans (
    name BLOB PRIMARY KEY, mtime INTEGER, ctime INTEGER, size INTEGER, inode INTEGER, reason TEXT,
    tenant_id TEXT, doc_id TEXT, title TEXT, tags TEXT, page_count INTEGER, section_count INTEGER,
    text_chars INTEGER, version TEXT, readers TEXT, language TEXT, ocr TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS layouts (
    name BLOB PRIMARY KEY, mtime INTEGER, ctime INTEGER, size INTEGER, inode INTEGER, spans BLOB,
    sections BLOB
);
"""

_Row = tuple[object, ...]


class ScanCache:
    """The scans of one documents folder, by file name. Blocks: call it in a thread."""

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
        """Return every scan that is kept; none where they cannot be read."""
        with self._file.using() as database:
            if database is not None:
                rows = database.execute("SELECT * FROM scans")
                return {os.fsdecode(row[0]): _scan(row) for row in rows}
        return {}

    def keep(self, scans: Mapping[str, FileScan]) -> None:
        """Keep scans in place of older ones of the same names."""
        with self._file.using() as database:
            if database is not None:
                rows = [_row(name, scan) for name, scan in scans.items() if scan.stamp is not None]
                layouts = [
                    (os.fsencode(name), *scan.stamp, *_layout_row(scan.layout))
                    for name, scan in scans.items()
                    if scan.stamp is not None and scan.layout is not None
                ]
                marks = ", ".join("?" * 17)
                database.executemany(f"INSERT OR REPLACE INTO scans VALUES ({marks})", rows)  # noqa: S608 - question marks
                database.executemany(
                    "INSERT OR REPLACE INTO layouts VALUES (?, ?, ?, ?, ?, ?, ?)", layouts
                )

    def forget(self, names: Iterable[str]) -> None:
        """Remove the scans of files that are gone."""
        with self._file.using() as database:
            if database is not None:
                rows = [(os.fsencode(name),) for name in names]
                database.executemany("DELETE FROM scans WHERE name = ?", rows)
                database.executemany("DELETE FROM layouts WHERE name = ?", rows)

    def layout(self, name: str, stamp: Stamp) -> FileLayout | None:
        """Return where the parts of a file stand; None where that is not known.

        Not by its version, which two files have that differ in their spaces only.
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
        return (os.fsencode(name), *stamp, scan.reason, *(None,) * 11)
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
    )


def _scan(row: tuple[object, ...]) -> FileScan:
    _, mtime, ctime, size, inode, reason, tenant_id, doc_id, title, tags, pages, *rest = row
    stamp: Stamp = (mtime, ctime, size, inode)  # type: ignore[assignment]  # as they were written
    if tenant_id is None:
        return FileScan(stamp=stamp, reason=str(reason))
    sections, chars, version, readers, language, ocr = rest
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
