"""Caches the chunk tables of the most recently used documents."""

import asyncio
from collections import OrderedDict

from mcp_tools_proxy.documents.retrieval.chunk_windows import ChunkTable, build_table
from mcp_tools_proxy.domain.document import Document

SMALL_CHARS = 200_000
"""Up to this size a document is cut on the event loop, which takes a few milliseconds."""


class ChunkTables:
    """An LRU cache of the tables of ``size`` documents.

    A table belongs to one Document instance: a reloaded document gets a new one.
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
