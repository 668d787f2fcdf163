"""Keeps the repository equal to the files in ``documents_path``.

Each load is a full reconciliation: list the files, parse those that changed, choose one file for
each document, put and remove the difference. A change event only triggers a load.
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
"""Milliseconds in which changes are collected before the folder is scanned."""

CHECK_MS = 500
"""Milliseconds between checks that the watched folder has not been replaced."""

SCANS_AFTER_CHANGE = 3
"""How many checks in a row scan the folder after a change.

A polling watch compares times in whole seconds, so it misses a second change within one.
"""

UNREAD_CHECKS = 10
"""Checks between attempts to read unreadable files: a change of access causes no event."""

RETRY_S = 0.5
"""Seconds before a missing folder or a failed watch is tried again."""

log = structlog.get_logger()


class DocumentStore(Protocol):
    """Receives the folder's documents; called on the event loop, so it must be quick."""

    def put(self, document: Document) -> None:
        """Add the document, or replace the one of the same (tenant_id, doc_id)."""
        ...

    def remove(self, tenant_id: str, doc_id: str) -> None:
        """Remove the document."""
        ...


class DocumentFolder:
    """Keeps ``store`` equal to the documents of ``root``, plus those of ``builtin``.

    A file overrides a builtin document of the same id, until it is removed. Call ``load`` once,
    then keep ``run`` running. ``root`` need not exist.
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
        self._applied: Mapping[Pair, Document] = {}
        self._errors: Mapping[str, str] = {}
        self._present: bool | None = None
        self._vanished = False

    def __repr__(self) -> str:
        return (
            f"<DocumentFolder {str(self._root)!r} documents={len(self._applied)} "
            f"errors={len(self._errors)}>"
        )

    @property
    def errors(self) -> Mapping[str, str]:
        """The files that are not in use: name relative to the folder → reason, one line."""
        return self._errors

    @property
    def present(self) -> bool:
        """Whether the folder existed at the last load."""
        return bool(self._present)

    @property
    def vanished(self) -> bool:
        """Whether the folder existed and is now missing; its documents are served from memory."""
        return self._vanished

    async def load(self) -> None:
        """Update the store to the folder's present state."""
        present = await asyncio.to_thread(os.path.isdir, self._root)
        if present != self._present:
            write = log.info if present else log.warning
            write("documents.folder", path=str(self._root), present=present)
            self._vanished = self._present is not None and not present
            self._present = present
        files = await asyncio.to_thread(scan_folder, self._root, self._files or {})
        if files == self._files:
            return
        selection = await asyncio.to_thread(select_documents, self._root, files)
        self._files = files
        self._apply({**self._builtin, **selection.documents})
        self._report(selection.errors)

    async def run(self) -> None:
        """Load changes of the folder until cancelled; each takes effect within two seconds.

        A missing folder or a failing watch is retried, so only cancellation ends this.
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
        """Load at each change, until the folder itself is removed or replaced."""
        identity = await asyncio.to_thread(_identity, self._root)
        if identity is None:
            return
        batches = awatch(
            self._root,
            watch_filter=None,  # a mounted volume may swap its files behind a link to a dot-folder
            debounce=DEBOUNCE_MS,
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
        )
        # one more: something may have changed just before the watch began
        scans_left = SCANS_AFTER_CHANGE + 1
        async with aclosing(batches):
            async for changes in batches:
                scans_left = SCANS_AFTER_CHANGE if changes else scans_left - 1
                if scans_left > 0 or (scans_left % UNREAD_CHECKS == 0 and self._has_unread):
                    await self.load()
                if (Change.deleted, str(self._root)) in changes:
                    return
                if await asyncio.to_thread(_identity, self._root) != identity:
                    return

    @property
    def _has_unread(self) -> bool:
        """Whether any file or folder exists that could not be read."""
        return any(not file.stamp for file in (self._files or {}).values())

    def _apply(self, wanted: Mapping[Pair, Document]) -> None:
        for pair in self._applied.keys() - wanted.keys():
            self._store.remove(*pair)
        for pair, document in wanted.items():
            if self._applied.get(pair) is not document:
                self._store.put(document)
        self._applied = wanted

    def _report(self, errors: Mapping[str, str]) -> None:
        for name, reason in errors.items():
            if self._errors.get(name) != reason:
                log.warning("documents.file_ignored", file=name, reason=reason)
        self._errors = errors
        self._metrics.document_errors.set(len(errors))
        log.info("documents.loaded", documents=len(self._applied), errors=len(errors))


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
