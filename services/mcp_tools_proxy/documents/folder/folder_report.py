"""Logs and counts what a documents folder holds, and what of it is not in use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import structlog

from mcp_tools_proxy.documents.folder.file_scan import misnamed_text
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.text import file_name_text

log = structlog.get_logger()


class FolderState(Protocol):
    """What is known of a folder."""

    @property
    def root(self) -> Path:
        """The folder."""
        ...

    @property
    def present(self) -> bool:
        """Whether it exists."""
        ...

    @property
    def errors(self) -> Mapping[str, str]:
        """The files that are not in use: name → reason."""
        ...

    @property
    def misnamed(self) -> Mapping[str, str]:
        """The files whose name does not spell their document: name → what it should be."""
        ...

    def __len__(self) -> int:
        """Return the number of documents."""
        ...


class FolderReport:
    """Logs each problem once, and keeps the metrics; called whenever a folder was read."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._present: bool | None = None
        self._last: tuple[Mapping[str, str], Mapping[str, str]] | None = None
        """The errors and the misnamed files that were logged last."""

    def update(self, folder: FolderState, *, has_changed: bool) -> None:
        """Log what is new; ``has_changed`` is whether any document may have changed."""
        if folder.present != self._present:
            write = log.info if folder.present else log.warning
            write("documents.folder", path=str(folder.root), present=folder.present)
            self._present = folder.present
        errors, misnamed = self._last or ({}, {})
        for name, reason in folder.errors.items():
            if errors.get(name) != reason:
                log.warning("documents.file_ignored", file=name, reason=reason)
        for name, wanted in folder.misnamed.items():
            if misnamed.get(name) != wanted:
                log.warning(
                    "documents.file_misnamed",
                    file=file_name_text(name),
                    problem=misnamed_text(wanted),
                )
        self._metrics.documents.set(len(folder))
        self._metrics.document_errors.set(len(folder.errors))
        now = (dict(folder.errors), dict(folder.misnamed))
        if has_changed or now != self._last:
            log.info("documents.loaded", documents=len(folder), errors=len(folder.errors))
        self._last = now


def log_cache_failure(path: Path, reason: str) -> None:
    """Log why what was found in files cannot be kept."""
    log.warning("documents.cache_failed", path=str(path), reason=reason)
