"""Searchable text of a document: as shown, without running titles and page numbers.

Also detects listings: tables of contents and back-of-book indexes, which point to other pages.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from mcp_tools_proxy.documents.table_rows import Span, columns_before
from mcp_tools_proxy.documents.visible_text import VisibleText, visible_page, visible_text
from mcp_tools_proxy.domain.document import Chunk, Document


class SearchedText:
    """The visible text of a document's chunks for the index and for snippets.

    Lines that nearby pages repeat are left out; chunks from the file have them.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._repeated = repeated_spans(document.pages) if document.own_chunks is None else None
        self._last = 0, visible_text("", text_format=None)
        """The last page: a large one has thousands of chunks."""

    def of(self, chunk: Chunk) -> str:
        """Return the text of a chunk; within a table, after the names of the columns."""
        page, start, end = self.part(chunk)
        columns = columns_before(page, start)
        return f"{columns}\n{page.text[start:end]}" if columns else page.text[start:end]

    def part(self, chunk: Chunk) -> tuple[VisibleText, int, int]:
        """Return the visible text of a chunk's page (or of the chunk), and the part in it."""
        if self._repeated is None:
            page = visible_text(chunk.text, text_format=self._document.text_format)
            return page, 0, len(page.text)
        page = self._page(chunk.page)
        return page, page.level_of(chunk.start), page.level_of(chunk.end)

    def repeated(self, chunk: Chunk) -> Sequence[Span]:
        """Return the lines left out of a chunk's page."""
        return () if self._repeated is None else self._repeated[chunk.page - 1]

    def _page(self, page: int) -> VisibleText:
        number, visible = self._last
        if number != page:
            spans = () if self._repeated is None else self._repeated[page - 1]
            text = blanked(self._document.pages[page - 1], spans)
            visible = visible_page(text, text_format=self._document.text_format)
            self._last = page, visible
        return visible


_LEAST_ENTRIES = 3
_LEAST_SHARE = 0.6
"""Minimum share of lines that are entries."""

_LEAST_ORDER = 0.75
"""Minimum share of neighbours in order, by page or label; a table of numbers has less."""

_ENDING = re.compile(r"[\divxlc][ \t]*$", re.MULTILINE)
_LEADER = re.compile(r"(?:\. ?){4,}|(?:… ?){2,}|·{4,}|_{6,}")
_ENTRY = re.compile(r"(?P<label>\S.*?(?<!\d))[ ,.…·]+(?P<page>\d{1,4})(?:[,–-] ?\d{1,4})*$")


def is_listing(text: str, last_page: int) -> bool:
    """Return whether most lines are entries that end in a page number, up to ``last_page``.

    Table rows that end in a number do not count: they are unordered or have more numbers.
    """
    lines = text.count("\n") + 1
    if len(_ENDING.findall(text)) < max(_LEAST_ENTRIES, lines * _LEAST_SHARE):
        return False
    stripped = [line for line in map(str.strip, text.splitlines()) if line]
    leaders = sum(1 for line in stripped if _LEADER.search(line))
    if leaders >= max(_LEAST_ENTRIES, len(stripped) * _LEAST_SHARE):
        return True
    entries = [entry for line in stripped if (entry := _ENTRY.fullmatch(line))]
    pages = [int(entry["page"]) for entry in entries]
    pointing = sum(1 for page in pages if page <= last_page)
    if pointing < max(_LEAST_ENTRIES, len(stripped) * _LEAST_SHARE):
        return False
    labels = [entry["label"].casefold() for entry in entries]
    return _is_ordered(pages, sorted(pages)) or _is_ordered(labels, sorted(labels))


def _is_ordered(values: Sequence[object], ordered: Sequence[object]) -> bool:
    """Return whether most neighbours are in order and not all values are equal."""
    ranks = {value: rank for rank, value in enumerate(ordered)}
    steps = [ranks[before] <= ranks[after] for before, after in pairwise(values)]
    return ordered[0] != ordered[-1] and sum(steps) >= len(steps) * _LEAST_ORDER


EDGE_LINES = 3
"""Non-empty lines at the top and bottom of a page that can be repeated lines."""

MIN_PAGES = 3
"""Nearby pages that must contain a repeated line."""

NEAR_PAGES = 4
"""Maximum distance of these pages: left and right titles differ, and chapters end."""

LINE_CHARS = 200
"""Longer lines are text."""

MAX_PAGES = 50_000
"""Pages of an examined document: 199,000 made a million objects, and one garbage collection took
0.1 s."""

_NUMBER = re.compile(r"\d{1,6}")
_LETTER = re.compile(r"[^\W\d_]")

_COUNTED = "\x00"
"""Encloses a number that increases with the pages."""

_Key = tuple[bool, str]
"""Whether a line is at the top, and its words, with a page number relative to its page."""


class _EdgeLine(NamedTuple):
    start: int
    end: int
    at_top: bool
    keys: frozenset[_Key]


def repeated_spans(pages: Sequence[str]) -> list[tuple[Span, ...]]:
    """Return the lines of each page that nearby pages repeat at the same edge.

    The first page with such a line keeps it, so that its words can be found, and so does a page
    without other text; page numbers are removed everywhere. One number may increase with the pages;
    otherwise lines must be equal. Documents over MAX_PAGES are not examined.
    """
    if len(pages) > MAX_PAGES:
        return [()] * len(pages)
    lines = [_edge_lines(text, number) for number, text in enumerate(pages)]
    places = _places(lines)
    first = {key: numbers[0] for key, numbers in places.items()}
    repeated = [
        [
            line
            for line in found
            if any(
                _is_repeated(places[key], number) and (first[key] != number or _is_page_number(key))
                for key in line.keys
            )
        ]
        for number, found in enumerate(lines)
    ]
    return [
        tuple((line.start, line.end) for line in found) if _leaves_text(text, found) else ()
        for text, found in zip(pages, repeated, strict=True)
    ]


def blanked(text: str, spans: Sequence[Span]) -> str:
    """Return a page with ``spans`` (ascending) replaced by spaces."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], " " * (end - start))
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _edge_lines(text: str, number: int) -> list[_EdgeLine]:
    filled = list(_filled_lines(text))
    top = filled[:EDGE_LINES]
    bottom = filled[max(EDGE_LINES, len(filled) - EDGE_LINES) :]
    return [
        _EdgeLine(start, end, at_top, _keys(text[start:end], number, at_top=at_top))
        for spans, at_top in ((top, True), (bottom, False))
        for start, end in spans
        if end - start <= LINE_CHARS and text[start] != "|"  # each part of a table has its header
    ]


def _filled_lines(text: str) -> Iterator[Span]:
    start = 0
    for line in text.split("\n"):
        if not line.isspace() and line:
            yield start, start + len(line)
        start += len(line) + 1


def _keys(line: str, number: int, *, at_top: bool) -> frozenset[_Key]:
    """Return a line's comparison keys: unchanged, or with its first or last number made relative.

    The difference of page number and page index is the same on every page: "12 | Index", "3-4".
    """
    spelt = " ".join(line.split()).casefold()
    numbers = list(_NUMBER.finditer(spelt))
    keys = {spelt}
    for found in numbers[:1] + numbers[-1:]:
        counted = int(found[0]) - number
        keys.add(f"{spelt[: found.start()]}{_COUNTED}{counted}{_COUNTED}{spelt[found.end() :]}")
    return frozenset((at_top, key) for key in keys)


def _places(lines: Sequence[Sequence[_EdgeLine]]) -> dict[_Key, list[int]]:
    places: defaultdict[_Key, list[int]] = defaultdict(list)
    for number, found in enumerate(lines):
        for key in {key for line in found for key in line.keys}:
            places[key].append(number)
    return places


def _is_repeated(places: Sequence[int], number: int) -> bool:
    """Return whether enough of the ascending page indexes are near ``number``."""
    near = bisect_right(places, number + NEAR_PAGES) - bisect_left(places, number - NEAR_PAGES)
    return near >= MIN_PAGES


def _leaves_text(text: str, repeated: Sequence[_EdgeLine]) -> bool:
    parts = zip(
        [0, *(it.end for it in repeated)], [*(it.start for it in repeated), None], strict=True
    )
    return any(text[start:end].strip() for start, end in parts)


def _is_page_number(key: _Key) -> bool:
    return _COUNTED in key[1] and not _LETTER.search(key[1])
