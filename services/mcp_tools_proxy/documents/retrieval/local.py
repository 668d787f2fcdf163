"""Chunk windows of the documents in this process: ``retrieval_window_url=local`` (T-03)."""

from collections.abc import Sequence

from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.layout import span_of_chunk
from mcp_tools_proxy.documents.retrieval.chunk_windows import cut_window
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Chunk, DocumentHead, RetrievedChunk


class LocalRetrieval:
    """Reads chunk windows from a repository; also the core of the reference Retrieval Service.

    With ``for_any_reader`` the asking gateway is trusted to have checked a document's readers.
    """

    def __init__(self, repository: DocumentRepository, *, for_any_reader: bool = False) -> None:
        self._repository = repository
        self._find = repository.find_for_any_reader if for_any_reader else repository.find

    def __repr__(self) -> str:
        return f"<LocalRetrieval {self._repository!r}>"

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
        ChunkNotFound, DocumentsUnavailable.
        """
        found = await self._find(caller, doc_id, WHOLE)
        table = await self._repository.chunks(found)
        chunks = cut_window(table, anchor_chunk_id, before=before, after=after)
        pages = found.pages(1, found.head.page_count)
        return tuple(_retrieved(chunk, pages, found.head) for chunk in chunks)


def _retrieved(chunk: Chunk, pages: Sequence[str], head: DocumentHead) -> RetrievedChunk:
    span = span_of_chunk(chunk, pages)
    return RetrievedChunk(
        chunk_id=chunk.chunk_id,
        page=chunk.page,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        start_char=None if span is None else span.start_char,
        end_char=None if span is None else span.end_char,
        version=head.version,
        ocr=head.ocr_confidence(chunk.page),
    )
