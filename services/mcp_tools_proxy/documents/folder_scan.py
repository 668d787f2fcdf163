"""Scans a documents folder once: reads changed files, and chooses one file for each document."""

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_tools_proxy.documents.document_file import (
    BrokenFile,
    InvalidDocument,
    document_path,
    read_document,
    tenant_of_folder,
)
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.wire.text import file_name_text, quote

Pair = tuple[str, str]
"""Tenant id and doc_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """The state of one file.

    ``document`` is its last good version. ``reason`` explains why its present version is unusable.
    ``stamp`` changes whenever the file does.
    """

    stamp: tuple[int, ...]
    document: Document | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One document for each (tenant_id, doc_id), from the file in ``paths``.

    ``errors``: relative file name → reason.
    """

    documents: Mapping[Pair, Document]
    paths: Mapping[Pair, Path]
    errors: Mapping[str, str]


def scan_folder(root: Path, known: Mapping[Path, LoadedFile]) -> dict[Path, LoadedFile]:
    """Read the ``.json`` files below ``root`` that are new or changed since ``known``.

    A file that is broken, or belongs to another tenant than its folder, keeps the document of its
    last good version. If ``root`` is missing, all ``known`` files are kept: a volume that is
    unmounted for a moment must not remove documents. Dot-files and dot-folders are ignored.
    Blocks: call it in a thread.
    """
    files: dict[Path, LoadedFile] = {}

    def keep_known_below(error: OSError) -> None:
        folder = Path(error.filename)
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            if folder == root:
                files.update(known)
            return
        files[folder] = LoadedFile(stamp=(), reason=f"cannot be listed: {error.strerror}")
        files.update((path, file) for path, file in known.items() if folder in path.parents)

    for folder, folders, names in os.walk(root, onerror=keep_known_below):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.endswith(".json") and not name.startswith("."):
                path = Path(folder, name)
                file = _read(root, path, known.get(path))
                if file is not None:
                    files[path] = file
    return files


def select_documents(root: Path, files: Mapping[Path, LoadedFile]) -> Selection:
    """Choose the file for each document: the one at its canonical place, else the first by path.

    The others of the same (tenant_id, doc_id) are errors, and so are broken files (contract §5).
    """
    chosen: dict[Pair, tuple[Path, Document]] = {}
    errors: dict[str, str] = {}
    for path in sorted(files, key=lambda path: (not _is_canonical(root, path, files[path]), path)):
        file = files[path]
        if file.reason is not None:
            errors[_shown(root, path)] = file.reason
        if file.document is None:
            continue
        pair = (file.document.tenant_id, file.document.doc_id)
        winner, _ = chosen.setdefault(pair, (path, file.document))
        if winner != path:
            errors[_shown(root, path)] = f"holds the same document as {_shown(root, winner)}"
    return Selection(
        documents={pair: document for pair, (_, document) in chosen.items()},
        paths={pair: path for pair, (path, _) in chosen.items()},
        errors=errors,
    )


def files_of(
    root: Path, files: Mapping[Path, LoadedFile], selection: Selection, pair: Pair
) -> list[Path]:
    """Return every file of one document, the one in use last; a broken one at its path as well.

    When files are removed in this order, no older copy comes into use in between.
    """
    found = {
        path
        for path, file in files.items()
        if file.document is not None and (file.document.tenant_id, file.document.doc_id) == pair
    }
    with contextlib.suppress(InvalidDocument):
        found |= {document_path(root, *pair)} & files.keys()
    return sorted(found, key=lambda path: (path == selection.paths.get(pair), path))


def _read(root: Path, path: Path, known: LoadedFile | None) -> LoadedFile | None:
    """Read one file unless it is unchanged; None when it is no regular file, or was removed."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _broken((), known, f"cannot be read: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return None  # reading a pipe would block
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    if known is not None and known.stamp == stamp:
        return known
    try:
        document = read_document(path)
    except BrokenFile as error:
        is_there = not isinstance(error.__cause__, OSError)
        return _broken(stamp if is_there else (), known, error.reason)
    tenant_id = tenant_of_folder(root, path)
    if tenant_id is not None and tenant_id != document.tenant_id:  # only that tenant may write here
        return _broken(
            stamp,
            known,
            f"its tenant_id is {quote(document.tenant_id)}, but the folder is that of "
            f"{quote(tenant_id)}; put it into the folder of its own tenant",
        )
    return LoadedFile(stamp=stamp, document=document)


def _broken(stamp: tuple[int, ...], known: LoadedFile | None, reason: str) -> LoadedFile:
    return LoadedFile(stamp=stamp, document=known.document if known else None, reason=reason)


def _is_canonical(root: Path, path: Path, file: LoadedFile) -> bool:
    if file.document is None:
        return False
    try:
        return path == document_path(root, file.document.tenant_id, file.document.doc_id)
    except InvalidDocument:
        return False


def _shown(root: Path, path: Path) -> str:
    return file_name_text("/".join(path.relative_to(root).parts))
