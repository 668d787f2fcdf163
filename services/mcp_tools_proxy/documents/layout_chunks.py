"""Where a document's chunks lie when it brings none of its own (contract §5).

The gateway and the reference Retrieval Service both cut here, so their chunk ids agree.
"""

import re
from collections.abc import Iterable, Iterator

from mcp_tools_proxy.domain.document import Chunk, Document

CHUNK_CHARS = 1000
"""A chunk's largest length in characters."""

_EDGES = (re.compile(r"\n\s*\n"), re.compile(r"[.!?…](?=\s)"), re.compile(r"\s"))
"""Better edges first: paragraph, sentence, word."""


def chunks_of(document: Document) -> tuple[Chunk, ...]:
    """List the document's chunks in reading order: its own, else ``p{page}-c{n}``, n from 1."""
    return tuple(each_chunk(document))


def each_chunk(document: Document) -> Iterable[Chunk]:
    """Give what ``chunks_of`` lists one by one; those cut from pages are cut when asked for."""
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
