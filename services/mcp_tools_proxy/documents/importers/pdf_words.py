"""Words of a PDF page with their positions, and lines of justified text.

A call of PDFium costs 0.3 to 0.6 µs, so only the first and the last character of a word are
located: a page of 2,600 characters takes 1 ms, half of what its text takes.
"""

import math
import re
from collections.abc import Sequence
from ctypes import addressof, byref, c_double, create_string_buffer
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from sys import intern
from typing import NamedTuple

from pypdfium2 import PdfTextPage, raw

from mcp_tools_proxy.documents.importers.hyphens import DIVISION

_WORD = re.compile(rf"[^\s{DIVISION}]+{DIVISION}?|{DIVISION}")

_SPACE = re.compile(r"\s+")
_LINE = re.compile(rf"[^\s{DIVISION}][^\n{DIVISION}]*{DIVISION}?|{DIVISION}")
_SLOPE = 0.05
_PUNCTUATION = f".,;:!?)]}}>\"'’”»{DIVISION}"

_NAME_BYTES = 100
_HYPHEN_CODE = 2
"""PDFium's code of the character that becomes DIVISION in the text."""


@dataclass(slots=True, eq=False)
class PageWord:
    """A word: ``[start:end]`` in the page's text, and the text that it gets in the document.

    ``y`` and ``last_y`` are the baselines of its first and last letter, in points. A glued word
    follows the previous one without a space, one beside it with a space, whatever the text has.
    """

    start: int
    end: int
    text: str
    left: float
    right: float
    y: float
    last_y: float
    is_glued: bool = False
    is_beside: bool = False


class Character(NamedTuple):
    """A character with its type size, in points; the size is 0 if the text is not upright."""

    text: str
    left: float
    right: float
    y: float
    size: float


@lru_cache(maxsize=200)
def _font_name(name: bytes) -> str:
    """Return the name without the prefix of a subset; names are interned."""
    return intern(name.decode("utf-8", "replace").rpartition("+")[2])


class PageCharacters:
    """The text of a page, and the positions of its characters."""

    def __init__(self, page: PdfTextPage, *, without: str = "") -> None:
        """Read the text, ``without`` its end."""
        self.text: str = page.get_text_range().removesuffix(without)
        self._textpage = page  # closed when collected
        self._page = page.raw
        self._box, self._matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self._x, self._y = c_double(), c_double()
        self._at_box, self._at_matrix = byref(self._box), byref(self._matrix)
        self._at_x, self._at_y = byref(self._x), byref(self._y)
        self._name = create_string_buffer(_NAME_BYTES)
        count = page.count_chars()
        self._indexes = None if count == len(self.text) else self._align(count)

    def _align(self, count: int) -> Sequence[int]:
        """Return the index of each character of the text; the text lacks some of them."""
        indexes: list[int] = []
        for index in range(count):
            if len(indexes) == len(self.text):
                break
            code = raw.FPDFText_GetUnicode(self._page, index)
            expected = self.text[len(indexes)]
            if expected > "\uffff":  # PDFium counts two: mathematical letters, emoji
                expected = chr(0xD7C0 + (ord(expected) >> 10))
            if code == _HYPHEN_CODE or chr(code) == expected:
                indexes.append(index)
        return indexes

    @property
    def is_located(self) -> bool:
        """Whether positions are known."""
        return self._indexes is None or len(self._indexes) == len(self.text)

    def origin(self, offset: int) -> tuple[float, float]:
        """Return the left end of a character's baseline."""
        index = offset if self._indexes is None else self._indexes[offset]
        raw.FPDFText_GetCharOrigin(self._page, index, self._at_x, self._at_y)
        return self._x.value, self._y.value

    def _right(self, offset: int) -> float:
        index = offset if self._indexes is None else self._indexes[offset]
        raw.FPDFText_GetLooseCharBox(self._page, index, self._at_box)
        return float(self._box.right)

    def character(self, offset: int) -> Character:
        """Return the character at ``offset`` of the text."""
        left, y = self.origin(offset)
        return Character(self.text[offset], left, self._right(offset), y, self.size(offset))

    def font(self, offset: int) -> str:
        """Return the name of a character's font."""
        index = offset if self._indexes is None else self._indexes[offset]
        length = raw.FPDFText_GetFontInfo(self._page, index, self._name, _NAME_BYTES, None)
        return _font_name(self._name.raw[: max(0, min(length, _NAME_BYTES) - 1)])

    def is_one_object(self, word: PageWord) -> bool:
        """Return whether a word was written at once, so that its letters have one size."""
        indexes = self._indexes
        first, last = word.start, word.end - 1
        if indexes is not None:
            first, last = indexes[first], indexes[last]
        one, other = (raw.FPDFText_GetTextObject(self._page, it) for it in (first, last))
        return bool(one and other) and addressof(one.contents) == addressof(other.contents)

    def characters(self, word: PageWord) -> list[Character]:
        """Return the characters of a word."""
        return [self.character(offset) for offset in range(word.start, word.end)]

    def spans(self) -> list[tuple[int, int]]:
        """Return the start and end of each line of the text."""
        return [match.span() for match in _LINE.finditer(self.text)]

    def size(self, offset: int) -> float:
        """Return the type size of a character; 0 if it is not upright."""
        index = offset if self._indexes is None else self._indexes[offset]
        raw.FPDFText_GetMatrix(self._page, index, self._at_matrix)
        matrix = self._matrix
        if matrix.a <= 0 or abs(matrix.b) >= _SLOPE * matrix.a:
            return 0.0
        scale = math.hypot(matrix.c, matrix.d)
        return float(raw.FPDFText_GetFontSize(self._page, index)) * scale

    def has_wide_gap(self, span: tuple[int, int], least: float) -> bool:
        """Return whether two words of a line are further apart than ``least`` points."""
        page, indexes, box, at_box = self._page, self._indexes, self._box, self._at_box
        loose_box = raw.FPDFText_GetLooseCharBox
        for match in _SPACE.finditer(self.text, *span):
            start, end = match.span()
            if end >= span[1]:
                break
            last, following = start - 1, end
            if indexes is not None:
                last, following = indexes[last], indexes[following]
            loose_box(page, last, at_box)
            right = box.right
            loose_box(page, following, at_box)
            if box.left - right > least:
                return True
        return False

    def edges(self, span: tuple[int, int]) -> tuple[float, float, float]:
        """Return the left and right end of a line, and its baseline."""
        left, y = self.origin(span[0])
        end = span[0] + len(self.text[slice(*span)].rstrip())
        return left, self._right(end - 1), y

    def words(self, span: tuple[int, int]) -> list[PageWord]:
        """Return the words of a line."""
        page, indexes = self._page, self._indexes
        origin, loose_box = raw.FPDFText_GetCharOrigin, raw.FPDFText_GetLooseCharBox
        x, y, box, at_x, at_y, at_box = (
            *(self._x, self._y, self._box),
            *(self._at_x, self._at_y, self._at_box),
        )
        line: list[PageWord] = []
        for match in _WORD.finditer(self.text, *span):
            start, end = match.span()
            last, word = end - 1, match[0]
            first, final = (start, last) if indexes is None else (indexes[start], indexes[last])
            origin(page, first, at_x, at_y)
            left, first_y = x.value, y.value
            loose_box(page, final, at_box)
            if last > start:
                if not word[-1].isalnum():  # "O(n2)," has its script before the bracket
                    last = max(start, start + len(word.rstrip(_PUNCTUATION)) - 1)
                    final = last if indexes is None else indexes[last]
                origin(page, final, at_x, at_y)
            line.append(PageWord(start, end, word, left, box.right, first_y, y.value))
        return line


def are_justified(lines: Sequence[Sequence[PageWord]]) -> list[bool]:
    """Return which lines are justified text: equal gaps in each, others in the lines around it."""
    gaps = [_even_gap(line) for line in lines]
    justified = [False] * len(lines)
    for at, gap in enumerate(gaps):
        for other in range(at + 1, min(at + _MOST_LINES_APART, len(lines))):
            if (
                gap is not None
                and (next_gap := gaps[other]) is not None
                and abs(gap - next_gap) > _EVEN
                and _have_same_edges(lines[at], lines[other])
                and not _are_in_columns(lines[at], lines[other])
            ):
                justified[at] = justified[other] = True
    for at in [at for at, it in enumerate(justified) if it]:
        for other in (at - 1, at + 1):
            if 0 <= other < len(lines) and _have_same_edges(lines[at], lines[other]):
                justified[other] = True
    return justified


def _even_gap(line: Sequence[PageWord]) -> float | None:
    """Return the gap between two words of a line, if it has several and all are equal."""
    gaps = [second.left - first.right for first, second in pairwise(line) if not second.is_glued]
    return gaps[0] if len(gaps) > 1 and max(gaps) - min(gaps) <= _EVEN else None


def _are_in_columns(first: Sequence[PageWord], second: Sequence[PageWord]) -> bool:
    """Return whether the words of a line begin where those of another do, as in a table."""
    lefts = [word.left for word in second]
    return all(any(abs(word.left - left) <= _EVEN for left in lefts) for word in first)


def _have_same_edges(first: Sequence[PageWord], second: Sequence[PageWord]) -> bool:
    return (
        abs(first[0].left - second[0].left) < _SAME_EDGE
        and abs(first[-1].right - second[-1].right) < _SAME_EDGE
    )


_MOST_LINES_APART = 4
_EVEN, _SAME_EDGE = 0.6, 1.0
"""Points: greatest difference of the gaps in a justified line, and of the ends of such lines."""
