"""Files kept besides a folder's documents: older versions and original PDFs.

Older versions are files that this service has replaced: ``.versions/TENANT/DOC_ID/VERSION.json``.
``kept.json`` beside them lists the current version, then the older ones, newest first. If the
document has another version, it was replaced by hand, and the older versions do not apply.

The source PDF of a document is ``.originals/TENANT/DOC_ID/VERSION.pdf``; only that of the current
version is used.
"""

import dataclasses
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.document_file import BrokenFile, document_path, parse_document
from mcp_tools_proxy.documents.document_store import Key, Reading
from mcp_tools_proxy.documents.folder.file_scan import SUFFIX, stamp_of
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.storage.files import write_atomically

_LIST = f"kept{SUFFIX}"


class _VersionFiles:
    """Files of document versions in ``folder`` below ``root``. All methods block."""

    folder: ClassVar[str]
    """Starts with a dot, so that its files are not listed as documents."""
    suffix: ClassVar[str]

    def __init__(self, root: Path) -> None:
        self._root = root / self.folder

    def sizes(self, tenant_folder: str) -> Mapping[str, Sequence[int]]:
        """Return the file sizes of each document of a tenant. Raises OSError."""
        folder = self._root / tenant_folder
        if not folder.is_dir():
            return {}
        with os.scandir(folder) as entries:
            return {entry.name: _file_sizes(entry.path) for entry in entries if entry.is_dir()}

    def _folder(self, key: Key) -> Path:
        return document_path(self._root, *key).with_suffix("")

    def _path(self, key: Key, version: str) -> Path:
        return self._folder(key) / f"{version}{self.suffix}"

    def _remove_others(self, key: Key, kept: Collection[Path]) -> None:
        """Remove a document's files except ``kept``, and its empty folder. Raises OSError."""
        folder = self._folder(key)
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            if path not in kept:
                path.unlink(missing_ok=True)
        if not any(path.exists() for path in kept):
            folder.rmdir()


class OlderFiles(_VersionFiles):
    """Files of older versions."""

    folder = ".versions"
    suffix = SUFFIX

    def versions(self, key: Key, present: str) -> Sequence[str]:
        """Return the older versions of a document, newest first."""
        try:
            replaced_by, *older = from_json((self._folder(key) / _LIST).read_bytes())
        except (OSError, ValueError, TypeError):
            return ()
        return older if replaced_by == present else ()

    def read(self, key: Key, version: str, present: str) -> Reading | None:
        """Read an older version of a document; None if it is not kept or has changed."""
        if version not in self.versions(key, present):
            return None
        path = self._path(key, version)
        try:
            document = parse_document(path, path.read_bytes())
        except (OSError, BrokenFile):
            return None
        document = dataclasses.replace(
            document, readers=None, warnings=(), source=None, expires_at=None
        )
        head = head_of(document)
        is_same = (head.tenant_id, head.doc_id, head.version) == (*key, version)
        return Reading(head=head, document=document) if is_same else None

    def keep(self, key: Key, file: Path, version: str) -> None:
        """Keep a document's file before it is replaced. Raises OSError."""
        kept = self._path(key, version)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
        source = Path(os.path.realpath(file))
        try:
            kept.hardlink_to(source)
        except OSError:  # no hard links, or another file system
            shutil.copyfile(source, kept)

    def list(self, key: Key, older: Sequence[str], *, present: str) -> None:
        """List the kept versions of a written document and remove all others.

        If it raises OSError, no versions are kept.
        """
        if older:
            write_atomically(self._folder(key) / _LIST, to_json([present, *older]))
        self._remove_but(key, older)

    def remove(self, key: Key) -> None:
        """Remove all older versions of a document. Raises OSError."""
        self._remove_but(key, ())

    def _remove_but(self, key: Key, older: Iterable[str]) -> None:
        kept = {self._path(key, version) for version in older}
        if kept:
            kept.add(self._folder(key) / _LIST)
        self._remove_others(key, kept)


class OriginalFiles(_VersionFiles):
    """Original PDFs."""

    folder = ".originals"
    suffix = ".pdf"

    def tag(self, key: Key, version: str) -> str | None:
        """Return the stamp of a version's PDF, or None."""
        try:
            return repr(stamp_of(self._path(key, version).stat()))
        except OSError:
            return None

    def read(self, key: Key, version: str) -> bytes | None:
        """Read a version's PDF, or None."""
        try:
            return self._path(key, version).read_bytes()
        except OSError:
            return None

    def keep(self, key: Key, version: str, original: bytes) -> None:
        """Keep the PDF of a version before that is written. Raises OSError."""
        path = self._path(key, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, original)

    def remove(self, key: Key, *, but: str | None = None) -> None:
        """Remove the PDFs of a document except that of version ``but``. Raises OSError."""
        self._remove_others(key, () if but is None else (self._path(key, but),))


def _file_sizes(folder: str) -> Sequence[int]:
    with os.scandir(folder) as entries:
        return [entry.stat().st_size for entry in entries]
