"""The folder of document files as a whole: the store, its cache on disk, and the watch."""

from collections.abc import Mapping
from pathlib import Path

from mcp_tools_proxy.documents import cache_folder
from mcp_tools_proxy.documents.folder.folder_report import FolderReport, log_cache_failure
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_watch import FolderWatch
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.folder.scan_cache import ScanCache
from mcp_tools_proxy.documents.folder.vector_file import VectorFile
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.telemetry.metrics import Metrics


class FolderDocuments:
    """Keeps up with a folder of document files (OpenDocuments)."""

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
        """Return whether the folder is there, and what of it is not in use."""
        store = self.store
        ignored = len(store.errors)
        return {
            "status": "degraded" if ignored or store.vanished else "ok",
            "documents": len(store),
            "files_ignored": ignored,
            "files_misnamed": len(store.misnamed),
            "files_not_read": store.not_scanned,
            "folder": "vanished" if store.vanished else "present" if store.present else "missing",
        }

    async def connect(self) -> None:
        """List the folder."""
        await self.store.load()

    async def run(self) -> None:
        """Follow the folder, until cancelled."""
        await self._watch.run()

    async def close(self) -> None:
        """Close the cache on disk."""
        self.store.close()
