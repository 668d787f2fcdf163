"""The PDFs that documents of a folder were imported from, where they are kept.

That of a document is ``.originals/TENANT/DOC_ID/VERSION.pdf``: one of another version than the
present one belongs to no document.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mcp_tools_proxy.documents.document_file import document_path
from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.folder.file_listing import stamp_of
from mcp_tools_proxy.filesystem.atomic import kept_sizes, remove_others, write_atomically

FOLDER_NAME = ".originals"
"""Begins with a dot: nothing in it is listed as a document."""


class OriginalFiles:
    """The PDFs below the folder ``root``. All methods block."""

    def __init__(self, root: Path) -> None:
        self._root = root / FOLDER_NAME

    def tag(self, key: Key, version: str) -> str | None:
        """Return the stamp of the PDF of a version; None when none is kept."""
        try:
            return repr(stamp_of(self._path(key, version).stat()))
        except OSError:
            return None

    def read(self, key: Key, version: str) -> bytes | None:
        """Read the PDF of a version; None when none is kept."""
        try:
            return self._path(key, version).read_bytes()
        except OSError:
            return None

    def keep(self, key: Key, version: str, original: bytes) -> None:
        """Keep the PDF of a version that is about to be written. Raises OSError."""
        path = self._path(key, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, original)

    def remove(self, key: Key, *, but: str | None = None) -> None:
        """Remove the PDFs of a document, except that of one version. Raises OSError."""
        remove_others(self._folder(key), () if but is None else (self._path(key, but),))

    def sizes(self, tenant_folder: str) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the PDFs that are kept of each document of a tenant."""
        return kept_sizes(self._root / tenant_folder)

    def _path(self, key: Key, version: str) -> Path:
        return self._folder(key) / f"{version}.pdf"

    def _folder(self, key: Key) -> Path:
        return document_path(self._root, *key).with_suffix("")
