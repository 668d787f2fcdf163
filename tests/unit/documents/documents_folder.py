"""A test view of the documents folder, and functions that write files into it."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.document_store import HEAD_ONLY, Key
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.domain.document import Document, Readers
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document


class ServedTitles:
    """The titles that a folder's store serves; records the store's notifications."""

    def __init__(self, store: FolderStore) -> None:
        self.changes: list[Key] = []
        self._store = store
        store.listen(self)

    def changed(self, key: Key) -> None:
        self.changes.append(key)

    def all_changed(self) -> None:
        raise AssertionError("a folder misses no changes")

    async def titles(self) -> dict[Key, str]:
        readings = {key: await self._store.read(key, HEAD_ONLY) for key in self._store.catalog.keys}
        return {key: reading.head.title for key, reading in readings.items() if reading}

    async def until(self, wanted: dict[Key, str]) -> None:
        """Wait until the titles are ``wanted``: within a second by contract, longer under load."""
        with anyio.fail_after(BOUND_S):
            while await self.titles() != wanted:  # noqa: ASYNC110 - reading may change it
                await anyio.sleep(0.01)


def document(
    doc_id: str = "d",
    title: str = "one",
    tenant_id: str = "t",
    pages: Sequence[str] = ("text",),
    readers: Readers | None = None,
) -> Document:
    return make_document(
        tenant_id=tenant_id, doc_id=doc_id, title=title, pages=pages, readers=readers
    )


def place(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def rewrite(root: Path, new: Document) -> None:
    write_document(root, new, replace=True)
