"""Chunking of pages, and lookup of sections and chunks by position (contract §5).

The gateway and the reference Retrieval Service share this module, so their chunk ids agree.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from mcp_tools_proxy.documents.visible_text import visible_text, whole_lines
from mcp_tools_proxy.domain.document import Chunk, Document, PageSpan, Section
from mcp_tools_proxy.domain.errors import ChunkNotFound
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import quote

CHUNK_CHARS = 1000
"""Maximum length of a chunk in characters; a row of a table can be longer."""

MAX_ROW_CHARS = 20_000
"""A longer row of a table is cut between cells, and a longer cell like other text."""

_MOST_ABOVE = 200
"""Characters of text, such as a heading, that stay with a long first row of a table."""

_BAR = re.compile(r"(?<=[^\s|]\s)\|(?=\s)")
"""Between two cells; the first is not empty."""

_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)*+(?:\n|$)")
"""The line below the header of a table."""

_EDGES = (re.compile(r"\n\s*\n"), re.compile(r"[.!?…](?=\s)"), re.compile(r"\s"))
"""Where chunks end, best first: paragraph, sentence, word."""


def chunks_of(document: Document) -> tuple[Chunk, ...]:
    """Return a document's chunks in reading order: its own, or ``p{page}-c{n}``, n from 1."""
    return tuple(each_chunk(document))


def each_chunk(document: Document) -> Iterable[Chunk]:
    """Yield the chunks of ``chunks_of``; chunks of pages are cut lazily."""
    if document.own_chunks is not None:
        return document.own_chunks
    return _cut(document.pages, document.text_format)


def span_of_chunk(chunk: Chunk, pages: Sequence[str]) -> PageSpan | None:
    """Return a chunk's position on its page; None if the page does not contain its text.

    Chunks from the file can name a page that does not exist.
    """
    if not 1 <= chunk.page <= len(pages):
        return None
    page = pages[chunk.page - 1]
    if chunk.source is page:
        return PageSpan(chunk.page, chunk.start, chunk.end)
    start = page.find(chunk.text) if chunk.text else -1
    return None if start < 0 else PageSpan(chunk.page, start, start + len(chunk.text))


def _cut(pages: Iterable[str], text_format: str | None) -> Iterator[Chunk]:
    """Cut pages; documents without a known format keep the chunks that they have always had."""
    chunk_index = 0
    for page, text in enumerate(pages, start=1):
        for chunk in _cut_page(text, page, text_format, chunk_index):
            yield chunk
            chunk_index = chunk.chunk_index + 1


def _cut_page(text: str, page: int, text_format: str | None, first: int) -> Iterator[Chunk]:
    tables = _tables(text, text_format) if text_format is not None else ()
    for n, (start, end) in enumerate(_spans(text, tables)):
        yield Chunk(
            chunk_id=f"p{page}-c{n + 1}",
            page=page,
            chunk_index=first + n,
            source=text,
            start=start,
            end=end,
        )


def chunks_of_part(
    text: str, page: int, text_format: str | None, start: int, end: int
) -> Iterator[Chunk]:
    """Yield the chunks of a page that overlap a part of it; ``chunk_index`` is always 0."""
    for chunk in _cut_page(text, page, text_format, 0):
        if chunk.start >= end:
            return
        if chunk.end > start:
            yield replace(chunk, chunk_index=0)


def _tables(text: str, text_format: str | None) -> Sequence[tuple[int, int]]:
    if "|" not in text:
        return ()
    visible = visible_text(text, text_format=text_format)
    return [
        whole_lines(text, visible.start_of(it.start), visible.end_of(it.end))
        for it in visible.tables
    ]


def _spans(text: str, tables: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    while True:
        while start < len(text) and text[start].isspace():
            start += 1
        if start == len(text):
            return
        end = _edge(text, start)
        table = bisect_right(tables, end, key=itemgetter(0)) - 1
        if table >= 0 and end < tables[table][1]:
            end = _row_edge(text, start, end, tables[table])
        yield start, start + len(text[start:end].rstrip())
        start = end


def _row_edge(text: str, start: int, end: int, table: tuple[int, int]) -> int:
    """Return the end of the rows of a table before ``end``, or of the first row after ``start``.

    The header and the first row stay together.
    """
    table_start, table_end = table
    header_end = table_start
    if start < table_start + 2 * MAX_ROW_CHARS:
        header_end = _header_end(text, table_start, min(table_end, table_start + 2 * MAX_ROW_CHARS))
    last = text.rfind("\n", max(start, table_start), end) + 1
    if last > max(start, header_end):
        return last
    if start < table_start - _MOST_ABOVE:
        return table_start
    start = max(start, table_start)
    if start < header_end:
        end = max(end, header_end)
    following = text.find("\n", end, min(table_end, start + MAX_ROW_CHARS))
    if following >= 0:
        return following + 1
    return table_end if table_end - start <= MAX_ROW_CHARS else _cell_edge(text, start, end)


def _header_end(text: str, start: int, end: int) -> int:
    """Return the end of the header of a table, with the line below it, or its start."""
    rule = text.find("\n", start, end) + 1
    found = _RULE.match(text, rule, end) if rule else None
    return found.end() if found else start


def _cell_edge(text: str, start: int, end: int) -> int:
    """Return the start of the last cell within MAX_ROW_CHARS; ``end`` if a cell is longer."""
    bars = [it.start() for it in _BAR.finditer(text, start + 1, start + MAX_ROW_CHARS)]
    return bars[-1] if bars else end


def _edge(text: str, start: int) -> int:
    limit = start + CHUNK_CHARS
    if limit >= len(text):
        return len(text)
    for edge in _EDGES:
        last = 0
        for match in edge.finditer(text, start + CHUNK_CHARS // 2, limit):
            last = match.end()
        if last:
            return last
    return limit


def by_begin(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return sections ordered by start; parents precede children with the same start."""
    return tuple(sorted(sections, key=_begin))


def section_at(ordered: Sequence[Section], page: int, char: int) -> Section | None:
    """Find the innermost section at a position: of those that contain it, the last to start.

    ``ordered`` comes from ``by_begin``; ``char`` is an offset in the text of ``page`` (1-based).
    """
    for place in range(bisect_right(ordered, (page, char), key=_begin) - 1, -1, -1):
        section = ordered[place]
        if page < section.page_end or (
            page == section.page_end and (section.end_char is None or char < section.end_char)
        ):
            return section
    return None


def _begin(section: Section) -> tuple[int, int]:
    return section.page_start, section.start_char or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTable:
    """A document's chunks in reading order, and each chunk_id's index."""

    chunks: tuple[Chunk, ...]
    places: Mapping[str, int]


def build_table(document: Document) -> ChunkTable:
    """Build the chunk table of a document; takes about 20 ms per MB of text."""
    chunks = chunks_of(document)
    return ChunkTable(
        chunks=chunks, places={chunk.chunk_id: place for place, chunk in enumerate(chunks)}
    )


def cut_window(
    table: ChunkTable, anchor_chunk_id: str, *, before: int, after: int
) -> tuple[Chunk, ...]:
    """Return the anchor with ``before`` and ``after`` (≥ 0) neighbours; fewer at the edges (T-02).

    Raises ChunkNotFound.
    """
    place = table.places.get(anchor_chunk_id)
    if place is None:
        raise ChunkNotFound(
            f"the document has no chunk {quote(anchor_chunk_id)}; take a chunk_id from "
            "doc_local_search"
        )
    return table.chunks[max(place - before, 0) : place + after + 1]
