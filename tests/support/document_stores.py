"""Document stores for tests of their common behaviour."""

from pathlib import Path
from typing import Protocol

from mcp_tools_proxy.documents.document_file import document_path, write_document
from mcp_tools_proxy.documents.document_store import DocumentStore, Key
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.domain.document import Document


class FilledStore(Protocol):
    """A store to be filled by a test; changes are announced before ``put`` returns."""

    @property
    def store(self) -> DocumentStore: ...

    async def put(self, document: Document) -> None: ...

    async def remove(self, key: Key) -> None: ...


class FilledFolder:
    def __init__(self, tmp_path: Path) -> None:
        self._root = tmp_path / "documents"
        self._root.mkdir()
        self.store = FolderStore(self._root, ScanCache(tmp_path / "cache", self._root))

    async def put(self, document: Document) -> None:
        write_document(self._root, document, replace=True)
        await self.store.load()

    async def remove(self, key: Key) -> None:
        document_path(self._root, *key).unlink()
        await self.store.load()

    async def close(self) -> None:
        self.store.close()
