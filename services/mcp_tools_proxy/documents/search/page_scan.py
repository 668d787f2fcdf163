"""Search in a document whose index is not built yet: a scan of its pages, within a short time."""

import math
import time
import unicodedata
from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple

from mcp_tools_proxy.documents.layout import by_begin, chunks_of_part, section_at
from mcp_tools_proxy.documents.pacing import pause
from mcp_tools_proxy.documents.search.analysis import Analysis, analysis_of, language_of
from mcp_tools_proxy.documents.search.query import words_of
from mcp_tools_proxy.documents.search.snippets import MatchFinder
from mcp_tools_proxy.documents.search.spellings import fold
from mcp_tools_proxy.documents.visible_text import visible_text
from mcp_tools_proxy.domain.document import Chunk, Document, Hit, PageSpan

SCAN_S = 3.0
"""Longest scan; the rest of the document is not searched."""

_PART_CHARS = 32_000
"""Longest part of a page that is read at once."""

_PARTS_BETWEEN_PAUSES = 50
_LEAST_KEY = 3
_WEIGHT = 1_000


class _Part(NamedTuple):
    """A part of a page, or a chunk from the file, with the number of each key in it."""

    page: int
    start: int
    end: int
    chunk: Chunk | None
    counts: Sequence[int]


def scan_document(document: Document, query: str, max_results: int) -> tuple[Hit, ...]:
    """Return places with words of a query, those with more and rarer ones first.

    Words are compared by their beginnings only. Takes up to SCAN_S: call in a thread.
    """
    analysis = analysis_of(language_of(document))
    keys = _keys(analysis, query)
    if not keys:
        return ()
    found, count = _count(document, list(keys))
    seen = [sum(1 for part in found if part.counts[n]) for n in range(len(keys))]
    rarity = [math.log1p(count / (1 + number)) for number in seen]

    def score(part: _Part) -> float:
        return sum(
            weight * number / (number + 1)
            for weight, number in zip(rarity, part.counts, strict=True)
        )

    weights = {
        term: math.ceil(_WEIGHT * weight) or 1
        for terms, weight in zip(keys.values(), rarity, strict=True)
        for term in terms
    }
    finder = MatchFinder(weights, analysis)
    sections = by_begin(document.sections.values())
    hits: list[Hit] = []
    for part in nlargest(max_results, found, key=score):
        chunk = part.chunk or _best_chunk(document, part, finder)
        text = chunk.source[chunk.start : chunk.end]
        visible = visible_text(text, text_format=document.text_format)
        quoted = finder.quote(visible, 0, len(visible.text))
        span = section = None
        if part.chunk is None:
            span = PageSpan(chunk.page, chunk.start + quoted.start, chunk.start + quoted.end)
            section = section_at(sections, chunk.page, chunk.start + quoted.match)
        hits.append(
            Hit(
                snippet=quoted.snippet,
                page=chunk.page,
                score=round(score(part), 4),
                section_id=section.section_id if section else None,
                chunk_id=chunk.chunk_id,
                span=span,
            )
        )
    return tuple(hits)


def _keys(analysis: Analysis, query: str) -> dict[str, set[str]]:
    """Return the beginnings of a query's words that all their forms have, and their terms."""
    keys: dict[str, set[str]] = {}
    for terms_of in (analysis.content_terms, analysis.terms):
        for word in words_of(query):
            written = fold(word).casefold()
            for term in terms_of(word):
                same = sum(1 for _ in _same_beginning(written, term))
                key = written[:same] if same >= min(_LEAST_KEY, len(written)) else term
                keys.setdefault(key, set()).add(term)
        if keys:
            break
    return keys


def _same_beginning(one: str, other: str) -> Iterator[str]:
    for a, b in zip(one, other, strict=False):
        if unicodedata.normalize("NFD", a)[0] != b:
            return
        yield a


def _count(document: Document, keys: Sequence[str]) -> tuple[list[_Part], int]:
    """Return the parts with one of the keys, and the number of parts read in time."""
    found: list[_Part] = []
    deadline = time.monotonic() + SCAN_S
    count = 0
    for page, start, end, chunk, text in _parts(document):
        count += 1
        lowered = fold(text).casefold()
        counts = [lowered.count(key) for key in keys]
        if any(counts):
            found.append(_Part(page, start, end, chunk, counts))
        if count % _PARTS_BETWEEN_PAUSES == 0:
            if time.monotonic() > deadline:
                break
            pause()
    return found, count


def _parts(document: Document) -> Iterator[tuple[int, int, int, Chunk | None, str]]:
    if document.own_chunks is not None:
        for chunk in document.own_chunks:
            yield chunk.page, 0, len(chunk.text), chunk, chunk.text[:_PART_CHARS]
        return
    for page, text in enumerate(document.pages, start=1):
        for start in range(0, len(text), _PART_CHARS):
            end = min(start + _PART_CHARS, len(text))
            yield page, start, end, None, text[start:end]


def _best_chunk(document: Document, part: _Part, finder: MatchFinder) -> Chunk:
    """Return the chunk of a part with the most weight of the query."""
    text = document.pages[part.page - 1]
    chunks = chunks_of_part(text, part.page, document.text_format, part.start, part.end)
    return max(chunks, key=lambda chunk: finder.weight(chunk.text))
