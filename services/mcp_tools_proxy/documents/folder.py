"""The live view of ``documents_path``: what lies in the folder is what the repository holds.

Each look at the folder is a whole reconciliation: list the files, parse those that changed, choose
one file for each document, put and remove the difference. A change event only says when to look.
"""

import asyncio
import os
import stat
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog
from watchfiles import Change, awatch

from mcp_tools_proxy.documents.files import (
    BrokenFile,
    InvalidDocument,
    document_path,
    read_document,
)
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.telemetry.metrics import Metrics

DEBOUNCE_MS = 400
"""How long changes are collected before the folder is looked at."""

CHECK_MS = 500
"""How often a quiet watch makes sure that the folder is still the same one."""

LOOKS = 3
"""How many checks in a row look at the files after a change.

A polling watch compares whole seconds, so it misses what follows a change within one.
"""

RETRY_S = 0.5
"""The pause before a folder that is missing, or a watch that failed, is tried again."""

log = structlog.get_logger()

_Pair = tuple[str, str]


class DocumentStore(Protocol):
    """Where the folder's documents go; called on the event loop, so it must be quick."""

    def put(self, document: Document) -> None:
        """Add the document, or replace the one of the same (tenant_id, doc_id)."""
        ...

    def remove(self, tenant_id: str, doc_id: str) -> None:
        """Take the document out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """What is known of one file.

    ``document`` is its last good version. ``reason`` says why its present version is unusable.
    ``stamp`` changes whenever the file does.
    """

    stamp: tuple[int, ...]
    document: Document | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One document for each (tenant_id, doc_id); ``errors``: relative file name → reason."""

    documents: Mapping[_Pair, Document]
    errors: Mapping[str, str]


def scan_folder(root: Path, known: Mapping[Path, LoadedFile]) -> dict[Path, LoadedFile]:
    """Read the ``.json`` files below ``root`` that are new or changed since ``known``.

    A version that is broken keeps the document of the version before it. Dot-files and what lies
    in dot-folders are ignored; a missing ``root`` holds no files. Blocks: call it in a thread.
    """
    files: dict[Path, LoadedFile] = {}

    def keep_what_was_below(error: OSError) -> None:
        folder = Path(error.filename)
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return
        files[folder] = LoadedFile(stamp=(), reason=f"cannot be listed: {error.strerror}")
        files.update((path, file) for path, file in known.items() if folder in path.parents)

    for folder, folders, names in os.walk(root, onerror=keep_what_was_below):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.endswith(".json") and not name.startswith("."):
                path = Path(folder, name)
                file = _read(path, known.get(path))
                if file is not None:
                    files[path] = file
    return files


def select_documents(root: Path, files: Mapping[Path, LoadedFile]) -> Selection:
    """Choose the file for each document: the one at its canonical place, else the first by path.

    The others of the same (tenant_id, doc_id) are errors, and so are broken files (contract §5).
    """
    chosen: dict[_Pair, tuple[Path, Document]] = {}
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
        documents={pair: document for pair, (_, document) in chosen.items()}, errors=errors
    )


class DocumentFolder:
    """Keeps ``store`` equal to the documents of ``root``, and of ``builtin`` beneath them.

    A file may take the place of a builtin document, which comes back when the file goes. Call
    ``load`` once, then keep ``watch`` running. ``root`` need not exist.
    """

    def __init__(
        self,
        root: Path,
        store: DocumentStore,
        metrics: Metrics,
        *,
        builtin: tuple[Document, ...] = (),
    ) -> None:
        self._root = root.absolute()
        self._store = store
        self._metrics = metrics
        self._builtin = {(document.tenant_id, document.doc_id): document for document in builtin}
        self._files: Mapping[Path, LoadedFile] | None = None
        self._held: Mapping[_Pair, Document] = {}
        self._errors: Mapping[str, str] = {}
        self._present: bool | None = None

    def __repr__(self) -> str:
        return (
            f"<DocumentFolder {str(self._root)!r} documents={len(self._held)} "
            f"errors={len(self._errors)}>"
        )

    @property
    def errors(self) -> Mapping[str, str]:
        """The files that are not in use: name relative to the folder → reason, one line."""
        return self._errors

    @property
    def present(self) -> bool:
        """Whether the folder was there at the last look."""
        return bool(self._present)

    async def load(self) -> None:
        """Bring the store to the folder's present state."""
        present = await asyncio.to_thread(os.path.isdir, self._root)
        if present != self._present:
            tell = log.info if present else log.warning
            tell("documents.folder", path=str(self._root), present=present)
            self._present = present
        files = await asyncio.to_thread(scan_folder, self._root, self._files or {})
        if files == self._files:
            return
        selection = await asyncio.to_thread(select_documents, self._root, files)
        self._files = files
        self._apply({**self._builtin, **selection.documents})
        self._report(selection.errors)

    async def watch(self) -> None:
        """Follow the folder until cancelled; a change shows within two seconds.

        A folder that is missing or a watch that fails is looked at again and again, so nothing
        but cancelling ends this.
        """
        trouble = ""
        while True:
            try:
                await self._follow()
                await self.load()
                trouble = ""
            except* (OSError, RuntimeError) as group:  # RuntimeError: watchfiles' internal errors
                now = str(group.exceptions[0])
                if now != trouble:
                    log.warning("documents.watch_failed", reason=now)
                trouble = now
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        """Load at each change, until the folder itself is gone or another one."""
        identity = await asyncio.to_thread(_identity, self._root)
        if identity is None:
            return
        batches = awatch(
            self._root,
            watch_filter=None,  # a volume may swap its files behind a dot-folder's link
            debounce=DEBOUNCE_MS,
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
        )
        looks = LOOKS  # something may have changed just before the watch began
        async with aclosing(batches):
            async for changes in batches:
                looks = LOOKS if changes else looks
                if looks:
                    await self.load()
                    looks -= 1
                if (Change.deleted, str(self._root)) in changes:
                    return
                if await asyncio.to_thread(_identity, self._root) != identity:
                    return

    def _apply(self, wanted: Mapping[_Pair, Document]) -> None:
        for pair in self._held.keys() - wanted.keys():
            self._store.remove(*pair)
        for pair, document in wanted.items():
            if self._held.get(pair) is not document:
                self._store.put(document)
        self._held = wanted

    def _report(self, errors: Mapping[str, str]) -> None:
        for name, reason in errors.items():
            if self._errors.get(name) != reason:
                log.warning("documents.file_ignored", file=name, reason=reason)
        self._errors = errors
        self._metrics.document_errors.set(len(errors))
        log.info("documents.loaded", documents=len(self._held), errors=len(errors))


def _read(path: Path, known: LoadedFile | None) -> LoadedFile | None:
    """Read one file unless it is as ``known``; None when it is no file, or no longer there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _broken((), known, f"cannot be read: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return None  # reading a pipe would wait for its writer
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    if known is not None and known.stamp == stamp:
        return known
    try:
        return LoadedFile(stamp=stamp, document=read_document(path))
    except BrokenFile as error:
        return _broken(stamp, known, error.reason)


def _broken(stamp: tuple[int, ...], known: LoadedFile | None, reason: str) -> LoadedFile:
    return LoadedFile(stamp=stamp, document=known.document if known else None, reason=reason)


def _is_canonical(root: Path, path: Path, file: LoadedFile) -> bool:
    if file.document is None:
        return False
    try:
        return path == document_path(root, file.document.tenant_id, file.document.doc_id)
    except InvalidDocument:
        return False


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _shown(root: Path, path: Path) -> str:
    """Give the name to report; bytes that are not UTF-8 show as escapes."""
    name = "/".join(path.relative_to(root).parts)
    return os.fsencode(name).decode(errors="backslashreplace")
