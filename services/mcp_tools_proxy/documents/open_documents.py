"""Factory of the document backends: a folder (store, disk cache, watch) or PostgreSQL.

``mock_mode`` has a built-in document (contract T-05).
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Protocol

from mcp_tools_proxy.documents.document_file import read_document
from mcp_tools_proxy.documents.document_store import DocumentStore, Key, WrongRole
from mcp_tools_proxy.documents.document_writer import KEEP_VERSIONS, DocumentWriter
from mcp_tools_proxy.documents.folder.file_scan import MAX_FILE_BYTES
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache, VectorFile
from mcp_tools_proxy.documents.folder.folder_store import (
    FolderReport,
    FolderStore,
    log_cache_failure,
)
from mcp_tools_proxy.documents.folder.folder_watch import FolderWatch
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.retention import OutdatedDocuments
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.storage import cache_folder
from mcp_tools_proxy.telemetry.metrics import Metrics


class FolderDocuments:
    """OpenDocuments of a folder of document files."""

    def __init__(
        self,
        root: Path,
        *,
        cache_dir: Path | None,
        keep_versions: int,
        quota: Quota | None,
        max_file_bytes: int,
        metrics: Metrics,
    ) -> None:
        folder = cache_dir or cache_folder.default_folder()
        cache = ScanCache(folder, root, log_cache_failure)
        vectors = VectorFile(folder, root)
        self.store = FolderStore(root, cache, FolderReport(metrics), vectors, max_file_bytes)
        self.writer = FolderWriter(self.store, keep_versions=keep_versions, quota=quota)
        self._watch = FolderWatch(self.store)

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the folder and the number of unusable files."""
        store, catalog = self.store, self.store.catalog
        ignored = len(catalog.errors)
        return {
            "status": "degraded" if ignored or store.vanished else "ok",
            "documents": len(store),
            "files_ignored": ignored,
            "files_misnamed": len(catalog.misnamed),
            "files_not_read": len(catalog.not_scanned),
            "folder": "vanished" if store.vanished else "present" if store.present else "missing",
        }

    async def connect(self) -> None:
        """Scan the folder."""
        await self.store.load()

    async def refresh(self, key: Key) -> None:
        """Read a document that another process of this service has changed."""
        await self.store.refresh(key)

    async def run(self) -> None:
        """Follow changes in the folder until cancelled."""
        await self._watch.run()

    async def close(self) -> None:
        """Close the disk cache."""
        self.store.close()


class WritableDocuments(DocumentWriter, OutdatedDocuments, Protocol):
    """A writer that also finds outdated documents."""


class OpenDocuments(Protocol):
    """A document store with its writer and background work."""

    @property
    def store(self) -> DocumentStore:
        """Read interface."""
        ...

    @property
    def writer(self) -> WritableDocuments:
        """Write interface."""
        ...

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store."""
        ...

    async def connect(self) -> None:
        """Load the list of documents, within a short time."""
        ...

    async def refresh(self, key: Key) -> None:
        """Read a document that another process of this service has changed."""
        ...

    async def run(self) -> None:
        """Follow changes until cancelled."""
        ...

    async def close(self) -> None:
        """Close files and connections."""
        ...


def build_documents(
    *,
    folder: Path,
    cache_dir: Path | None,
    url: str | None,
    timeout_s: float,
    stale_s: float,
    keep_versions: int = KEEP_VERSIONS,
    quota: Quota | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    metrics: Metrics,
) -> OpenDocuments:
    """Build the documents: in PostgreSQL if ``url`` is set, otherwise in a folder."""
    if url is None:
        return FolderDocuments(
            folder,
            cache_dir=cache_dir,
            keep_versions=keep_versions,
            quota=quota,
            max_file_bytes=max_file_bytes,
            metrics=metrics,
        )
    # asyncpg is slow to import
    from mcp_tools_proxy.documents.postgres.store import (  # noqa: PLC0415
        PostgresDocuments,
    )

    return PostgresDocuments(
        url, timeout_s=timeout_s, stale_s=stale_s, keep_versions=keep_versions, quota=quota
    )


async def prepare_documents(url: str | None, owner_url: str | None, *, timeout_s: float) -> None:
    """Check the PostgreSQL URLs before the service listens.

    Raises ValueError with one line if a role bypasses row-level security.
    """
    if url is None:
        return
    # asyncpg is slow to import
    from mcp_tools_proxy.documents.postgres.schema import prepare_database  # noqa: PLC0415

    try:
        await prepare_database(url, owner_url, timeout_s=timeout_s)
    except WrongRole as error:
        raise ValueError(f"MCP_PROXY_DOCUMENTS_URL: {error}") from error


def seed_documents() -> tuple[Document, ...]:
    """Return the built-in documents: ``doc_1`` of ``tenant_1``, twelve pages on LDAP."""
    resource = resources.files("mcp_tools_proxy.documents") / "seed" / "doc_1.json"
    with resources.as_file(resource) as path:
        return (read_document(path),)
