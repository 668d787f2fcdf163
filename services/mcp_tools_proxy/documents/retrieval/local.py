"""Chunk windows of the documents in this process: ``retrieval_window_url=local`` (T-03)."""

from collections.abc import Awaitable, Callable

from mcp_tools_proxy.documents.retrieval.chunk_tables import ChunkTables
from mcp_tools_proxy.documents.retrieval.chunk_windows import cut_window
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Chunk, Document, RetrievedChunk

MAX_TABLES = 64
"""Documents whose chunk tables are cached."""


class LocalRetrieval:
    """Reads chunk windows from a repository; also the core of the reference Retrieval Service.

    ``find_document`` returns the document of that id which a caller may read.
    """

    def __init__(self, find_document: Callable[[Caller, str], Awaitable[Document]]) -> None:
        self._find_document = find_document
        self._tables = ChunkTables(size=MAX_TABLES)

    def __repr__(self) -> str:
        return f"<LocalRetrieval {self._tables}>"

    async def window(
        self,
        *,
        caller: Caller,
        doc_id: str,
        anchor_chunk_id: str,
        before: int,
        after: int,
        trace_id: str,
    ) -> tuple[RetrievedChunk, ...]:
        """Return the anchor with ``before`` and ``after`` chunks around it, in reading order.

        There are fewer at the document's edges. Raises AccessDenied, DocumentNotFound,
        ChunkNotFound.
        """
        document = await self._find_document(caller, doc_id)
        table = await self._tables.get(document)
        chunks = cut_window(table, anchor_chunk_id, before=before, after=after)
        return tuple(map(_retrieved, chunks))


def _retrieved(chunk: Chunk) -> RetrievedChunk:
    return RetrievedChunk(
        chunk_id=chunk.chunk_id, page=chunk.page, chunk_index=chunk.chunk_index, text=chunk.text
    )
