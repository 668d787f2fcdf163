"""Older versions of a folder's documents: the files that our own writing has replaced.

Those of a document are ``.versions/TENANT/DOC_ID/VERSION.json``, and ``kept.json`` beside them
lists them behind the version that replaced the newest of them. Where the document is at another
version, it was put there by hand, and none of them belongs to it.
"""

import dataclasses
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.document_file import BrokenFile, document_path, parse_document
from mcp_tools_proxy.documents.document_store import Key, Reading
from mcp_tools_proxy.documents.folder.file_listing import SUFFIX
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.filesystem.atomic import kept_sizes, remove_others, write_atomically

FOLDER_NAME = ".versions"
"""Begins with a dot: nothing in it is listed as a document."""

_LIST = f"kept{SUFFIX}"


class OlderFiles:
    """The files of older versions below the folder ``root``. All methods block."""

    def __init__(self, root: Path) -> None:
        self._root = root / FOLDER_NAME

    def versions(self, key: Key, present: str) -> Sequence[str]:
        """Return the older versions of a document, the newest first."""
        try:
            replaced_by, *older = from_json((self._folder(key) / _LIST).read_bytes())
        except (OSError, ValueError, TypeError):
            return ()
        return older if replaced_by == present else ()

    def read(self, key: Key, version: str, present: str) -> Reading | None:
        """Read an older version of a document; None when it is not kept, or is no longer that."""
        if version not in self.versions(key, present):
            return None
        path = self._path(key, version)
        try:
            document = parse_document(path, path.read_bytes())
        except (OSError, BrokenFile):
            return None
        document = dataclasses.replace(document, readers=None)
        head = head_of(document)
        is_same = (head.tenant_id, head.doc_id, head.version) == (*key, version)
        return Reading(head=head, document=document) if is_same else None

    def keep(self, key: Key, file: Path, version: str) -> None:
        """Keep a document's file, which is about to be replaced. Raises OSError."""
        kept = self._path(key, version)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
        source = Path(os.path.realpath(file))
        try:
            kept.hardlink_to(source)
        except OSError:  # the file system has no links, or the file is in another one
            shutil.copyfile(source, kept)

    def list(self, key: Key, older: Sequence[str], *, present: str) -> None:
        """Write which versions are kept of a document that was written, and remove all others.

        Raises OSError; nothing is kept then.
        """
        if older:
            write_atomically(self._folder(key) / _LIST, to_json([present, *older]))
        self._remove_but(key, older)

    def remove(self, key: Key) -> None:
        """Remove all older versions of a document. Raises OSError."""
        self._remove_but(key, ())

    def sizes(self, tenant_folder: str) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the files that are kept of each document of a tenant."""
        return kept_sizes(self._root / tenant_folder)

    def _folder(self, key: Key) -> Path:
        return document_path(self._root, *key).with_suffix("")

    def _path(self, key: Key, version: str) -> Path:
        return self._folder(key) / f"{version}{SUFFIX}"

    def _remove_but(self, key: Key, older: Iterable[str]) -> None:
        kept = {self._path(key, version) for version in older}
        if kept:
            kept.add(self._folder(key) / _LIST)
        remove_others(self._folder(key), kept)
