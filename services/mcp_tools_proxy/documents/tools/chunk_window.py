"""read_chunk_window: a chunk and its neighbours, from the Retrieval Service."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NotRequired, Self, cast

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.chunk_windows import Retrieval, WantedWindow, place_of_anchor
from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.document_store import HEAD_ONLY
from mcp_tools_proxy.documents.tools.local_tool import (
    ConflictingArguments,
    DocumentArguments,
    Id,
    LocalTool,
    Natural,
    build_local_tool,
    document_finder,
)
from mcp_tools_proxy.documents.tools.sources import WindowSource, window_sources
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.domain.errors import DocumentRefused, WindowTooLarge
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.wire.text import cut_utf8, cut_utf8_tail, estimate_tokens, utf8_len

DEFAULT_RADIUS = 2

COLUMNS_CHARS = 1_000


def window_radius(*radii: int | None, legacy_total: int | None = None) -> int:
    """Return the maximum number of chunks on each side of an anchor (T-02).

    That is the minimum of the set radii and of floor((N-1)/2) for a legacy total N ≥ 1, or 2 if
    none is set.
    """
    known = [radius for radius in radii if radius is not None]
    if legacy_total is not None:
        known.append((legacy_total - 1) // 2)
    return min(known, default=DEFAULT_RADIUS)


def trim_window(texts: Sequence[str], anchor: int, max_bytes: int) -> dict[int, str]:
    """Cut a window's texts to ``max_bytes`` of UTF-8 in total; return the rest by index.

    Bytes are spent from the anchor outwards: a chunk before the anchor loses its beginning, the
    anchor and the chunks after it their end (T-02).
    """
    kept: dict[int, str] = {}
    bytes_left = max_bytes
    for place in sorted(range(len(texts)), key=lambda i: (abs(i - anchor), i < anchor)):
        cut = cut_utf8_tail if place < anchor else cut_utf8
        piece = cut(texts[place], bytes_left)
        if piece or not texts[place]:
            kept[place] = piece
        bytes_left -= utf8_len(piece)
        if len(piece) < len(texts[place]):
            break
    return dict(sorted(kept.items()))


class WindowArguments(DocumentArguments):
    """Arguments of read_chunk_window."""

    anchor_chunk_id: Id
    section_id: SkipJsonSchema[Id | None] = None
    """Ignored and not in the schema: existing callers always send it."""
    window_before: Natural = 0
    window_after: Natural = 0
    radius: Annotated[Natural | None, Field(description="Sets both sides.")] = None

    @model_validator(mode="after")
    def _check_radius_is_both_sides(self) -> Self:
        if self.radius is None:
            return self
        sides = [it for it in ("window_before", "window_after") if it in self.model_fields_set]
        if any(getattr(self, side) != self.radius for side in sides):
            raise ConflictingArguments(
                "radius sets both sides: leave out window_before and window_after, or send the "
                "same number",
                *("radius", *sides),
            )
        return self

    @property
    def sides(self) -> tuple[int, int]:
        """Chunks before and after the anchor."""
        if self.radius is not None:
            return self.radius, self.radius
        return self.window_before, self.window_after


class ChunkText(TypedDict):
    """One chunk; ``page`` and ``chunk_index`` are present if Retrieval sends them.

    ``columns`` has the names of the columns if the chunk starts within a table.
    ``sources`` has one source with the chunk's position, as far as Retrieval sends it.
    """

    chunk_id: str
    page: NotRequired[int]
    chunk_index: NotRequired[int]
    columns: NotRequired[str]
    text: str
    sources: NotRequired[list[WindowSource]]


class ChunkWindow(TypedDict):
    """The chunks in reading order; fewer than requested at a document's edges."""

    doc_id: str
    anchor_chunk_id: str
    window_before: int
    window_after: int
    chunks: list[ChunkText]
    count: int
    tokens: int
    requested_total: int
    truncated: bool


def window_tool(
    repository: DocumentRepository,
    retrieval: Retrieval,
    *,
    radius: int,
    configured: bool,
    own_documents_only: bool,
    windows_are_local: bool = False,
    retrieval_knows_caller: bool,
    max_text_bytes: int,
) -> LocalTool[WindowArguments, CachedDocument | None]:
    """Build read_chunk_window (T-02 … T-04).

    With ``own_documents_only``, the document must be in ``repository``. Otherwise Retrieval decides
    about access, but only after the request, so the call is always charged to the document's
    budget. Once a document of the tenant has readers, a Retrieval Service that does not receive the
    caller is asked only for documents that the caller can read.
    """
    find_own = document_finder(repository, lambda _: WHOLE if windows_are_local else HEAD_ONLY)

    async def find(arguments: DocumentArguments, call: Call) -> CachedDocument | None:
        if call.caller.documents is not None:
            repository.check_bound(call.caller.documents, arguments.doc_id)
        if not own_documents_only and (
            retrieval_knows_caller or not await repository.has_readers(call.caller.tenant_id)
        ):
            return None
        return await find_own(arguments, call)

    def check_sides(arguments: WindowArguments) -> None:
        before, after = arguments.sides
        if max(before, after) > radius:
            raise WindowTooLarge(
                f"{before} chunks before and {after} after were requested, the limit of radius is "
                f"{radius}; request at most {radius} on each side",
                details={
                    "window_before": before,
                    "window_after": after,
                    "max_window_radius": radius,
                },
            )

    async def read_window(
        arguments: WindowArguments, call: Call, found: CachedDocument | None
    ) -> Result:
        before, after = arguments.sides
        is_untrusted = found is None and await _is_marked(repository, arguments, call)
        chunks = await retrieval.window(
            WantedWindow(
                caller=call.caller,
                doc_id=arguments.doc_id,
                anchor_chunk_id=arguments.anchor_chunk_id,
                before=before,
                after=after,
                trace_id=call.trace_id,
            )
        )
        kept = _trim(arguments, chunks, max_text_bytes)
        tokens = estimate_tokens(sum(len(chunk["text"]) for chunk in kept))
        result: ChunkWindow = {
            "doc_id": arguments.doc_id,
            "anchor_chunk_id": arguments.anchor_chunk_id,
            "window_before": before,
            "window_after": after,
            "chunks": kept,
            "count": len(kept),
            "tokens": tokens,
            "requested_total": before + after + 1,
            "truncated": [chunk["text"] for chunk in kept] != [chunk.text for chunk in chunks],
        }
        return Result(value=result, tokens=tokens, reads_untrusted=is_untrusted)

    return build_local_tool(
        name="read_chunk_window",
        description=(
            "Read a chunk, by the chunk_id of a search result, and its neighbours: at most "
            f"{radius} on each side, and {max_text_bytes} bytes of text in total."
        ),
        is_configured=configured,
        arguments=WindowArguments,
        result=ChunkWindow,
        function=read_window,
        find_document=find,
        check=check_sides,
        ignores_unknown_arguments=True,
    )


async def _is_marked(
    repository: DocumentRepository, arguments: WindowArguments, call: Call
) -> bool:
    """Return whether a document is marked untrusted here although Retrieval decides about it."""
    if call.run is None:
        return False
    try:
        own = await repository.find_for_any_reader(call.caller, arguments.doc_id)
    except DocumentRefused:
        return False
    return own.head.is_untrusted


def _trim(
    arguments: WindowArguments, chunks: Sequence[RetrievedChunk], max_bytes: int
) -> list[ChunkText]:
    anchor = place_of_anchor(chunks, arguments.doc_id, arguments.anchor_chunk_id) or 0
    kept = trim_window([chunk.text for chunk in chunks], anchor, max_bytes)
    return [
        _entry(arguments.doc_id, _cut_chunk(chunks[place], text, is_tail=place < anchor))
        for place, text in kept.items()
    ]


def _cut_chunk(chunk: RetrievedChunk, text: str, *, is_tail: bool) -> RetrievedChunk:
    """Return a chunk cut to ``text``: its end with ``is_tail``, otherwise its beginning."""
    start, end = chunk.start_char, chunk.end_char
    if start is not None and end is not None and end - start == len(chunk.text):
        start, end = (end - len(text), end) if is_tail else (start, start + len(text))
    return replace(chunk, text=text, start_char=start, end_char=end)


def _entry(doc_id: str, chunk: RetrievedChunk) -> ChunkText:
    known = {
        "chunk_id": chunk.chunk_id,
        "page": chunk.page,
        "chunk_index": chunk.chunk_index,
        "columns": chunk.columns and chunk.columns[:COLUMNS_CHARS],
        "text": chunk.text,
        "sources": window_sources(doc_id, chunk),
    }
    return cast("ChunkText", without_none(known))
