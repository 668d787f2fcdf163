"""Chunk windows: the request, the source interface, and the in-process source (T-03).

The latter serves ``retrieval_window_url=local``.
"""

from collections.abc import Sequence
from typing import Protocol

from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.layout import cut_window, span_of_chunk
from mcp_tools_proxy.documents.table_rows import columns_before
from mcp_tools_proxy.documents.visible_text import visible_page
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Chunk, DocumentHead, RetrievedChunk
from mcp_tools_proxy.domain.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedWindow:
    """A requested window: the anchor and the number of chunks on each side."""

    caller: Caller
    doc_id: str
    anchor_chunk_id: str
    before: int
    after: int
    trace_id: str


class Retrieval(Protocol):
    """A source of chunk windows."""

    async def window(self, wanted: WantedWindow) -> tuple[RetrievedChunk, ...]:
        """Return the window in reading order, with the anchor; shorter at a document's edges.

        Raises ChunkNotFound, AccessDenied and the other errors of T-03.
        """
        ...


class LocalRetrieval:
    """Reads chunk windows from a repository; also the core of the reference Retrieval Service.

    ``for_any_reader`` trusts the requesting gateway to have checked the document's readers.
    """

    def __init__(self, repository: DocumentRepository, *, for_any_reader: bool = False) -> None:
        self._repository = repository
        self._find = repository.find_for_any_reader if for_any_reader else repository.find

    def __repr__(self) -> str:
        return f"<LocalRetrieval {self._repository!r}>"

    async def window(self, wanted: WantedWindow) -> tuple[RetrievedChunk, ...]:
        """Return the window (Retrieval). Also raises DocumentNotFound, DocumentsUnavailable."""
        found = await self._find(wanted.caller, wanted.doc_id, WHOLE)
        table = await self._repository.chunks(found)
        chunks = cut_window(table, wanted.anchor_chunk_id, before=wanted.before, after=wanted.after)
        pages = found.pages(1, found.head.page_count)
        text_format = None if found.document is None else found.document.text_format
        return tuple(_retrieved(chunk, pages, found.head, text_format) for chunk in chunks)


def _retrieved(
    chunk: Chunk, pages: Sequence[str], head: DocumentHead, text_format: str | None
) -> RetrievedChunk:
    span = span_of_chunk(chunk, pages)
    columns = None
    if span is not None and _is_in_row(text := pages[span.page - 1], span.start_char):
        page = visible_page(text, text_format=text_format)
        columns = columns_before(page, page.level_of(span.start_char)) or None
    return RetrievedChunk(
        chunk_id=chunk.chunk_id,
        page=chunk.page,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        start_char=None if span is None else span.start_char,
        end_char=None if span is None else span.end_char,
        version=head.version,
        ocr=head.ocr_confidence(chunk.page),
        columns=columns,
    )


def _is_in_row(page: str, place: int) -> bool:
    return page.startswith("|", page.rfind("\n", 0, place) + 1)


def place_of_anchor(
    chunks: Sequence[RetrievedChunk], doc_id: str, anchor_chunk_id: str
) -> int | None:
    """Return the index of the anchor in a window, or None.

    Either id can have the form ``doc_id:anchor``: some Retrieval Services store chunks under that
    id and omit the document elsewhere.
    """
    prefix = f"{doc_id}:"
    ids = [chunk.chunk_id for chunk in chunks]
    for spelling in (anchor_chunk_id, prefix + anchor_chunk_id):
        if spelling in ids:
            return ids.index(spelling)
    short = anchor_chunk_id.removeprefix(prefix)
    return ids.index(short) if short in ids else None
