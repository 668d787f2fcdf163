"""Chooses where documents are kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mcp_tools_proxy.documents.document_store import DocumentStore
from mcp_tools_proxy.documents.folder.folder_documents import FolderDocuments
from mcp_tools_proxy.telemetry.metrics import Metrics


class OpenDocuments(Protocol):
    """A store with what its process does for it."""

    @property
    def store(self) -> DocumentStore:
        """The store itself."""
        ...

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store."""
        ...

    async def connect(self) -> None:
        """Find out what there is before the first call, as far as that takes little time."""
        ...

    async def run(self) -> None:
        """Keep up with changes in the background, until cancelled."""
        ...

    async def close(self) -> None:
        """Close files and connections."""
        ...


def build_documents(folder: Path, *, cache_dir: Path | None, metrics: Metrics) -> OpenDocuments:
    """Build what keeps the documents: a folder of files."""
    return FolderDocuments(folder, cache_dir=cache_dir, metrics=metrics)
