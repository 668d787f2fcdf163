"""Letter-spaced and vertical Chinese and Japanese characters of a PDF, joined to words."""

import re
from collections.abc import Sequence
from itertools import pairwise

from mcp_tools_proxy.documents.importers.pdf_words import PageCharacters, PageWord
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_IDEOGRAPH = (
    r"[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
_ONE_IDEOGRAPH = re.compile(_IDEOGRAPH)
_SPACED = re.compile(rf"[（「『《〈“]?{_IDEOGRAPH}[、。，．：；！？）」』》〉”]?")
_IDEOGRAPHS_APART = re.compile(rf"(?<={_IDEOGRAPH}) (?={_IDEOGRAPH})")

_FEW = 3
"""Spaced characters; two are joined only if their line has no others, like a title."""

_MOST_GAP, _MOST_GAP_OF_TITLE = 1.2, 2.5
"""Gaps in widths of a character; the cells of a table are further apart."""

_MOST_UNEVEN = 0.4


def has_ideographs(text: str) -> bool:
    """Return whether ``text`` has Chinese or Japanese characters."""
    return not text.isascii() and _ONE_IDEOGRAPH.search(text) is not None


def join_ideographs(text: str) -> str:
    """Remove the spaces that OCR writes between Chinese and Japanese characters."""
    return _IDEOGRAPHS_APART.sub("", text)


def join_spaced_characters(line: Sequence[PageWord]) -> None:
    """Glue Chinese and Japanese characters that are spaced evenly, one by one."""
    start = 0
    while start < len(line):
        end = start
        while end < len(line) and _SPACED.fullmatch(line[end].text):
            end += 1
        if end - start >= 2:
            _join(line[start:end], is_title=end - start == len(line))
        start = max(end, start + 1)


def _join(words: Sequence[PageWord], *, is_title: bool) -> None:
    gaps = [
        (second.left - first.right) / max(1.0, first.right - first.left)
        for first, second in pairwise(words)
    ]
    is_short = len(words) <= _FEW + 1 and is_title
    limit = min(_MOST_GAP_OF_TITLE if is_short else _MOST_GAP, min(gaps) + _MOST_UNEVEN)
    if len(words) < _FEW and not is_title:
        return
    for word, gap in zip(words[1:], gaps, strict=True):
        word.is_glued = word.is_glued or gap <= limit


@dataclass(frozen=True, slots=True)
class _Column:
    """Lines of letters below each other, and their type size."""

    lines: Sequence[Sequence[PageWord]]
    size: float

    @property
    def text(self) -> str:
        return "".join(word.text for line in self.lines for word in line)

    @property
    def is_text(self) -> bool:
        letters = self.text
        return len(letters) >= _FEW and 3 * len(_ONE_IDEOGRAPH.findall(letters)) >= len(letters)

    def write(self, text: str) -> None:
        """Replace the text of a column with one line."""
        first, *rest = self.lines[0]
        first.text = text
        for word in rest:
            word.text, word.is_glued = "", True

    @property
    def bottom(self) -> float:
        return self.lines[-1][-1].last_y

    @property
    def middle(self) -> float:
        return (self.lines[0][0].left + self.lines[0][0].right) / 2

    def is_above(self, other: "_Column") -> bool:
        """Return whether the letters of another one continue this one."""
        most = _MOST_PITCH if len(self.lines) < _FEW else _MOST_PITCH_OF_WORDS
        drop = (self.bottom - other.lines[0][0].y) / self.size
        is_below = _LEAST_PITCH < drop < most
        return is_below and abs(self.middle - other.middle) < _SAME_COLUMN * self.size

    def is_beside(self, other: "_Column") -> bool:
        """Return whether another one is near, at the same height."""
        distance = abs(self.middle - other.middle) / self.size
        tops = [it.lines[0][0].y + it.size for it in (self, other)]
        overlap = min(tops) - max(self.bottom, other.bottom)
        is_near = _LEAST_PITCH < distance < _MOST_LEADING and overlap > 0
        return is_near and abs(self.size - other.size) < _SAME_SIZE * self.size


def glue_vertical_letters(
    page: PageCharacters, lines: Sequence[Sequence[PageWord]]
) -> list[Sequence[PageWord]]:
    """Glue letters below each other, and the columns of a paragraph; return the other lines.

    PDFium returns each letter of vertical text as a line if most text of the page is horizontal.
    """
    others: list[Sequence[PageWord]] = []
    columns: list[_Column] = []
    size = 0.0
    for line in lines:
        if len(line[0].text) == 1 or line[0].y > line[0].last_y:
            size = page.size(line[0].start) or size  # that of turned letters is unknown
        column = _Column([line], size)
        if not 0 < line[-1].right - line[0].left <= _WIDEST * size:
            _glue_columns(columns, others)
            columns = []
            others.append(line)
        elif columns and columns[-1].is_above(column):
            columns[-1] = _Column([*columns[-1].lines, line], columns[-1].size)
        else:
            if columns and not columns[-1].is_beside(column):
                _glue_columns(columns, others)
                columns = []
            columns.append(column)
    _glue_columns(columns, others)
    return others


def _glue_columns(columns: Sequence[_Column], others: list[Sequence[PageWord]]) -> None:
    if not any(it.is_text for it in columns):
        others.extend(line for it in columns for line in it.lines)
        return
    for column in columns:
        for above, below in pairwise(column.lines):
            is_word = above[-1].last_y - below[0].y > _MOST_PITCH * column.size
            below[0].is_beside, below[0].is_glued = is_word, not is_word
    ordered = columns
    if all(len(it.lines) == 1 for it in columns):  # PDFium returns columns at one height from left
        ordered = sorted(columns, key=lambda it: -it.middle)
    texts = [it.text for it in ordered]
    full = min(it.bottom for it in columns)
    for place, column, text, after in zip(columns[1:], ordered, texts, texts[1:], strict=False):
        is_full = column.bottom < full + _MOST_PITCH * column.size and len(text) >= _LEAST_FULL
        first = place.lines[0][0]
        is_word = (text[-1] + after[0]).isascii()
        first.is_glued = is_full and not is_word and text[-1] not in _ENDS
        first.is_beside = is_full and is_word
    if ordered is not columns:
        for column, text in zip(columns, texts, strict=True):
            column.write(text)


_ENDS, _LEAST_FULL = "。．！？」』", 10
"""Characters that may end a paragraph; least letters of a column that continues in the next one."""

_WIDEST, _SAME_COLUMN, _LEAST_PITCH, _MOST_PITCH, _MOST_PITCH_OF_WORDS = 1.2, 0.4, 0.5, 1.6, 2.6
_MOST_LEADING, _SAME_SIZE = 4.0, 0.2
"""Shares of the type size: the width of a letter, distances in and of columns, other sizes."""
