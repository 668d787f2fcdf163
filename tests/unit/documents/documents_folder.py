"""A store for tests of the documents folder, and files to put there."""

from pathlib import Path

import anyio

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import Document
from tests.support.bounds import BOUND_S


class Shelf:
    """A store that wakes those who wait for its content."""

    def __init__(self) -> None:
        self.titles: dict[tuple[str, str], str] = {}
        self.puts = 0
        self._changed = anyio.Event()

    def put(self, document: Document) -> None:
        self.titles[document.tenant_id, document.doc_id] = document.title
        self.puts += 1
        self._wake()

    def remove(self, tenant_id: str, doc_id: str) -> None:
        del self.titles[tenant_id, doc_id]
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def until(self, wanted: dict[tuple[str, str], str]) -> None:
        """Wait until the titles are ``wanted``: within 2 s by contract, 4 s on a busy machine."""
        with anyio.fail_after(BOUND_S):
            while self.titles != wanted:
                await self._changed.wait()


def document(doc_id: str = "d", title: str = "one", tenant_id: str = "t") -> Document:
    return Document(tenant_id=tenant_id, doc_id=doc_id, title=title, pages=("text",))


def place(path: Path, content: bytes) -> None:
    """Put a file there in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def rewrite(root: Path, new: Document) -> None:
    write_document(root, new, replace=True)
