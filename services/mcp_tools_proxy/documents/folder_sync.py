"""The live view of ``documents_path``: what lies in the folder is what the repository holds.

Each look at the folder is a whole reconciliation: list the files, parse those that changed, choose
one file for each document, put and remove the difference. A change event only says when to look.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import structlog
from watchfiles import Change, awatch

from mcp_tools_proxy.documents.folder_scan import LoadedFile, Pair, scan_folder, select_documents
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

UNREAD_CHECKS = 10
"""After how many checks what could not be read is read again: it does not change when it can be."""

RETRY_S = 0.5
"""The pause before a folder that is missing, or a watch that failed, is tried again."""

log = structlog.get_logger()


class DocumentStore(Protocol):
    """Where the folder's documents go; called on the event loop, so it must be quick."""

    def put(self, document: Document) -> None:
        """Add the document, or replace the one of the same (tenant_id, doc_id)."""
        ...

    def remove(self, tenant_id: str, doc_id: str) -> None:
        """Take the document out."""
        ...


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
        self._held: Mapping[Pair, Document] = {}
        self._errors: Mapping[str, str] = {}
        self._present: bool | None = None
        self._vanished = False

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

    @property
    def vanished(self) -> bool:
        """Whether the folder was there before and is gone: what it held is served from memory."""
        return self._vanished

    async def load(self) -> None:
        """Bring the store to the folder's present state."""
        present = await asyncio.to_thread(os.path.isdir, self._root)
        if present != self._present:
            tell = log.info if present else log.warning
            tell("documents.folder", path=str(self._root), present=present)
            self._vanished = self._present is not None and not present
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
        looks = LOOKS + 1  # something may have changed just before the watch began
        async with aclosing(batches):
            async for changes in batches:
                looks = LOOKS if changes else looks - 1
                if looks > 0 or (looks % UNREAD_CHECKS == 0 and self._has_unread):
                    await self.load()
                if (Change.deleted, str(self._root)) in changes:
                    return
                if await asyncio.to_thread(_identity, self._root) != identity:
                    return

    @property
    def _has_unread(self) -> bool:
        """Whether a file or folder is there and could not be read."""
        return any(not file.stamp for file in (self._files or {}).values())

    def _apply(self, wanted: Mapping[Pair, Document]) -> None:
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


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
