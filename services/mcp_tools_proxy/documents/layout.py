"""Cuts a document's pages into chunks, and yields the text of its sections and pages (contract §5).

The gateway and the reference Retrieval Service both cut chunks here, so their chunk ids agree.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from mcp_tools_proxy.domain.document import Chunk, Document, Section

CHUNK_CHARS = 1000
"""A chunk's largest length in characters."""

_EDGES = (re.compile(r"\n\s*\n"), re.compile(r"[.!?…](?=\s)"), re.compile(r"\s"))
"""Better edges first: paragraph, sentence, word."""


def chunks_of(document: Document) -> tuple[Chunk, ...]:
    """Return the document's chunks in reading order: its own, else ``p{page}-c{n}``, n from 1."""
    return tuple(each_chunk(document))


def each_chunk(document: Document) -> Iterable[Chunk]:
    """Yield the chunks of ``chunks_of`` one by one; chunks of pages are cut lazily."""
    return _cut(document.pages) if document.own_chunks is None else document.own_chunks


def _cut(pages: Iterable[str]) -> Iterator[Chunk]:
    chunk_index = 0
    for page, text in enumerate(pages, start=1):
        for n, (start, end) in enumerate(_spans(text), start=1):
            yield Chunk(
                chunk_id=f"p{page}-c{n}",
                page=page,
                chunk_index=chunk_index,
                source=text,
                start=start,
                end=end,
            )
            chunk_index += 1


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while True:
        while start < len(text) and text[start].isspace():
            start += 1
        if start == len(text):
            return
        end = _edge(text, start)
        yield start, start + len(text[start:end].rstrip())
        start = end


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


PAGE_SEPARATOR = "\n\n"
"""Pages are joined by a blank line (contract §2)."""


def section_parts(section: Section, pages: Sequence[str]) -> Iterator[str]:
    """Yield the section's text piece by piece, separators included; ``pages`` are the section's."""
    last = len(pages) - 1
    for number, text in enumerate(pages):
        if number:
            yield PAGE_SEPARATOR
        start = section.start_char if number == 0 else None
        end = section.end_char if number == last else None
        yield text[start:end]


def page_parts(pages: Sequence[str]) -> Iterator[str]:
    """Yield the text of consecutive pages piece by piece, separators included."""
    for number, text in enumerate(pages):
        if number:
            yield PAGE_SEPARATOR
        yield text


def by_begin(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return sections ordered by their begin; of those that begin together, parents stay first."""
    return tuple(sorted(sections, key=_begin))


def section_at(ordered: Sequence[Section], page: int, char: int) -> Section | None:
    """Find the innermost section at a place: of those that contain it, the one that begins last.

    ``ordered`` comes from ``by_begin``; ``char`` counts in the text of ``page`` (1-based).
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
