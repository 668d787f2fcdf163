"""Signs of tables on a PDF page, in the positions of its words."""

import re
from enum import IntEnum

from mcp_tools_proxy.documents.importers.pdf_ruled_tables import FAR, LEAST_GAP, LEAST_ROWS, WIDE
from mcp_tools_proxy.documents.importers.pdf_words import PageCharacters


class TableSigns(IntEnum):
    """Signs of tables in the positions of a page's words."""

    NONE = 0
    NARROW = 1
    """Numbers in two neighbouring lines have a gap before them that is larger than a space."""

    BELOW = 2
    """A short line is below the right part of a long one that has a gap: a wrapped cell."""

    BESIDE = 3
    """Text begins at the right of the last line, above that: a cell beside a wrapped one."""

    WIDE = 4
    """Neighbouring lines, three or with rulings two, have gaps as between columns."""


def signs_of_tables(characters: PageCharacters, *, has_lines: bool) -> TableSigns:
    """Return the signs of tables on a page.

    Most lines of prose are not examined: this takes a third of the time that tables take.
    """
    text = characters.text
    least = 2 if has_lines else LEAST_ROWS
    wide, all_rows, last_narrow = _Rows(), _Rows(), FAR
    signs = wrapped = TableSigns.NONE
    before = long = None
    for span in characters.spans():
        if _is_prose(text[slice(*span)]):
            before, long = None, span
            continue
        left, right, y = characters.edges(span)
        gap, rise = (left - before[0], y - before[1]) if before is not None else (0.0, 0.0)
        is_wide = (gap > WIDE and abs(rise) < 2) or characters.has_wide_gap(span, WIDE)
        if is_wide and wide.add(y) == least:
            return TableSigns.WIDE
        sign = _sign_of_wrapped(characters, span, gap, rise, long)
        wrapped = max(wrapped, sign)
        if (is_wide or sign) and all_rows.add(y) >= least:
            signs = max(signs, wrapped)
        is_short = signs is TableSigns.NONE and span[1] - span[0] < _LONG
        if is_short and _DIGIT.search(text, *span) and characters.has_wide_gap(span, _LEAST_WIDE):
            if 2 < abs(last_narrow - y) < _CLOSE:
                signs = TableSigns.NARROW
            last_narrow = y
        before, long = (right, y), None
    return signs


class _Rows:
    """Counts rows near each other."""

    def __init__(self) -> None:
        self._last, self._count = FAR, 1

    def add(self, y: float) -> int:
        distance = abs(self._last - y)
        if distance > 2:
            self._count = self._count + 1 if distance <= _NEAR else 1
        self._last = y
        return self._count


def _sign_of_wrapped(
    characters: PageCharacters,
    span: tuple[int, int],
    gap: float,
    rise: float,
    long: tuple[int, int] | None,
) -> TableSigns:
    """Return the sign of a line that is ``rise`` above the last one, or follows a long one."""
    if gap > LEAST_GAP and 2 <= abs(rise) < _NEAR:
        size = characters.size(span[0])
        if size and rise > -_HALF_LINE * size:
            return TableSigns.BESIDE
    indent = 0.0 if long is None else characters.origin(span[0])[0] - characters.origin(long[0])[0]
    if long is not None and indent > _INDENT and characters.has_wide_gap(long, WIDE):
        return TableSigns.BELOW
    return TableSigns.NONE


_NEAR, _CLOSE, _LEAST_WIDE, _HALF_LINE, _INDENT = 80.0, 30.0, 5.0, 0.75, 20.0
_DIGIT = re.compile(r"\d")
_LONG, _MANY_WORDS, _FEW_DIGITS = 55, 8, 5
_NO_DIGITS = dict.fromkeys(range(ord("0"), ord("9") + 1))


def _is_prose(line: str) -> bool:
    """Return whether a line is a long one with few digits, not a row of a table."""
    return (
        len(line) >= _LONG
        and line.count(" ") >= _MANY_WORDS
        and len(line) - len(line.translate(_NO_DIGITS)) <= _FEW_DIGITS
    )
