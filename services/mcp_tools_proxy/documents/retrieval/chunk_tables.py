"""The chunk tables of the documents in use, built once for each."""

import asyncio
from collections import OrderedDict

from mcp_tools_proxy.documents.retrieval.chunk_windows import ChunkTable, build_table
from mcp_tools_proxy.domain.document import Document

SMALL_CHARS = 200_000
"""A document up to this size is laid out on the event loop, in a few milliseconds."""


class ChunkTables:
    """Keeps the tables of the ``size`` documents used last.

    A table belongs to one Document instance: a reloaded document is another one and gets its own.
    """

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._tables: OrderedDict[Document, ChunkTable] = OrderedDict()
        self._building = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<ChunkTables {len(self._tables)} of {self._size}>"

    async def get(self, document: Document) -> ChunkTable:
        """Return the document's table; a large one is built in a thread, one at a time."""
        if document not in self._tables:
            async with self._building:
                if document not in self._tables:
                    self._keep(document, await _build(document))
        self._tables.move_to_end(document)
        return self._tables[document]

    def _keep(self, document: Document, table: ChunkTable) -> None:
        self._tables[document] = table
        if len(self._tables) > self._size:
            self._tables.popitem(last=False)


async def _build(document: Document) -> ChunkTable:
    if sum(len(page) for page in document.pages) <= SMALL_CHARS:
        return build_table(document)
    return await asyncio.to_thread(build_table, document)
