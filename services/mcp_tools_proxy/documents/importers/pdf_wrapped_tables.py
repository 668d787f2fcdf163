"""Tables of a PDF page without lines between columns, whose cells wrap over several lines.

Programs write a cell as a whole, then the next one, so the text goes up again at its side. Where
it never goes up, the lines of a cell are nearer to each other than to those of the next row.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter, itemgetter

from mcp_tools_proxy.documents.importers.pdf_narrow_tables import NARROW, AlignedRow, Cell
from mcp_tools_proxy.documents.importers.pdf_ruled_tables import (
    FAR,
    LEAST_ROWS,
    common_gaps,
    gaps_of,
)
from mcp_tools_proxy.documents.importers.pdf_words import PageWord
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_LEAST_GAP = 2.4
"""Points between the widest cells of two columns; browsers leave 3."""

_MOST_PITCH, _MOST_PITCH_ABOVE, _LARGER, _SAME_LINE = 3.5, 1.6, 1.1, 0.35
"""Shares of the type size: distances of lines in a table, type of a heading, one line."""

_MOST_LINES, _MOST_ABOVE, _MOST_COLUMNS = 300, 8, 20
_LEAST_LEADING = 0.85
"""Least distance of lines in a cell, as a share of the type size."""

_MOST_UNEVEN, _EVEN = 1.25, 1.15
"""Greatest distances of lines in a cell, as shares of the least: with and without a known order."""

_MOST_LINES_OF_CELL, _MOST_WORDS, _MOST_WORDS_OF_TWO = 30, 30, 14
_MOST_WORDS_OF_NAME, _MOST_WORDS_OF_LABEL = 5, 6
_LEAST_FILLED, _MOST_SINGLE = 0.5, 0.33


@dataclass(frozen=True, slots=True)
class _CellLine:
    """A line of a cell."""

    column: int
    y: float
    words: Cell

    @property
    def gap(self) -> float:
        """The widest gap between two words."""
        gaps = (second.left - first.right for first, second in pairwise(self.words))
        return max(gaps, default=0.0)

    @property
    def is_small(self) -> bool:
        """Whether it begins with a small letter, as what continues a line."""
        return self.words[0].text[:1].islower()


Cells = Sequence[Sequence[Sequence[PageWord]]]
Gaps = Sequence[tuple[float, float]]
"""Free stretches, from left to right."""


def free_spaces(row: AlignedRow) -> Gaps:
    """Return the spaces between the words of a row, and those at its ends."""
    words = sorted((word for part in row.parts for word in part), key=_left)
    return [it for it in gaps_of([[word] for word in words]) if _width(it) > _LEAST_GAP]


_left = attrgetter("left")


def _width(gap: tuple[float, float]) -> float:
    return gap[1] - gap[0]


def _kept(gaps: Sequence[Gaps], free: Gaps) -> list[Gaps]:
    """Return the parts of each gap that are free; nothing if a gap has none."""
    kept: list[Gaps] = []
    for them in gaps:
        left, right = them[0][0], them[-1][1]
        first = bisect_right(free, left, key=itemgetter(1))
        last = bisect_left(free, right, key=itemgetter(0))
        kept.append(common_gaps(them, free[first:last], least=_LEAST_GAP))
        if not kept[-1]:
            return []
    return kept


class WrappedBlock:
    """Lines that share gaps between columns with the one at ``start``; ``end`` is after them."""

    def __init__(
        self, rows: Sequence[AlignedRow], free: Sequence[Gaps], first: int, start: int
    ) -> None:
        """Find the lines, whose spaces are ``free``; another table ends at ``first``."""
        self.start, self.end = start, start + 1
        size = rows[start].size
        last = min(len(rows), start + _MOST_LINES)
        gaps: list[Gaps] = [[it] for it in rows[start].gaps if _width(it) > _LEAST_GAP]
        while self.end < last:
            row, distance = rows[self.end], rows[self.end - 1].y - rows[self.end].y
            kept = _kept(gaps, free[self.end])
            if distance > _MOST_PITCH * size or row.size > _LARGER * size or not kept:
                break
            gaps = kept
            self.end += 1
        while self.start > max(first, start - _MOST_ABOVE):
            row, distance = rows[self.start - 1], rows[self.start - 1].y - rows[self.start].y
            kept = _kept(gaps, free[self.start - 1])
            is_title = row.size > _LARGER * size and len(row.parts) == 1
            if distance > _MOST_PITCH_ABOVE * size or is_title or not kept:
                break
            gaps = kept
            self.start -= 1
        # of the spaces that the words of few lines share, the widest ones are between columns
        between = [max(them, key=_width) for them in gaps[1:-1]]
        between += [it for them in gaps[1:-1] for it in them if _width(it) > size]
        self._separators = sorted({sum(gap) / 2 for gap in between})
        self._size = size
        self._rows = rows[self.start : self.end]
        narrow: Gaps = [it for it in free[start] if it not in rows[start].gaps]
        for spaces in free[self.start : self.end]:
            narrow = common_gaps(narrow, spaces, least=_LEAST_GAP)
        apart = [sum(gap) / 2 for gap in narrow if self._is_wider(gap)]
        self._separators = sorted([*self._separators, *apart])
        while self.end - self.start > LEAST_ROWS and self._spans(rows[self.end - 1]):
            self.end -= 1
        while self.end - self.start > LEAST_ROWS and self._spans(rows[self.start]):
            self.start += 1
        self._rows = rows[self.start : self.end]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self._separators) + 1

    def _is_wider(self, gap: tuple[float, float]) -> bool:
        """Return whether a space in a column is clearly wider than a space in several lines."""
        rows = [sorted((it for part in row.parts for it in part), key=_left) for row in self._rows]
        wider = [
            self._column(first) == self._column(second)
            for row in rows
            for first, second in pairwise(row)
            if first.right <= gap[0]
            and gap[1] <= second.left
            and second.left - first.right > NARROW * self._size
        ]
        return sum(wider) > 1

    def _spans(self, row: AlignedRow) -> bool:
        return 2 * len(row.parts) <= self.columns and any(
            self._column(part[0]) != self._column(part[-1]) for part in row.parts
        )

    def _column(self, word: PageWord) -> int:
        return bisect_right(self._separators, (word.left + word.right) / 2)

    def cells(self, order: Mapping[int, int]) -> Cells:
        """Return the words of each cell; nothing if it is not certain that there is a table."""
        if len(self._rows) <= LEAST_ROWS or not 2 <= self.columns <= _MOST_COLUMNS:
            return []
        lines = self._lines(order)
        least = _SAME_LINE * self._size
        upwards = [
            after.column > before.column
            for before, after in pairwise(lines)
            if after.y > before.y + least
        ]
        if not all(upwards):
            return []
        goes_up = bool(upwards)
        leading = self._leading(lines)
        rows = _rows_by_order(lines, leading) if goes_up else _rows_by_distance(lines, leading)
        if not goes_up and len(rows) < LEAST_ROWS:
            rows = _rows_by_names(lines, leading)
        if any(
            min(it.y for it in above) <= max(it.y for it in below)
            for above, below in pairwise(rows)
        ):
            return []
        while rows and len({it.column for it in rows[-1]}) == 1:
            del rows[-1]
        while rows and len({it.column for it in rows[0]}) == 1:
            del rows[0]
        table = [
            [[it for it in row if it.column == at] for at in range(self.columns)] for row in rows
        ]
        if not self._is_certain(table, goes_up=goes_up):
            return []
        return [[[word for line in cell for word in line.words] for cell in row] for row in table]

    def _lines(self, order: Mapping[int, int]) -> list[_CellLine]:
        """Return the lines of the cells, in the order of the text."""
        words = [word for row in self._rows for part in row.parts for word in part]
        words.sort(key=lambda word: order[id(word)])
        lines: list[_CellLine] = []
        members: list[PageWord] = []
        for word in words:
            column, last = self._column(word), lines[-1] if lines else None
            if last and last.column == column and abs(last.y - word.y) <= _SAME_LINE * self._size:
                members.append(word)
            else:
                members = [word]
                lines.append(_CellLine(column, word.y, members))
        return lines

    def _leading(self, lines: Sequence[_CellLine]) -> float:
        """Return the least distance of two lines in a column."""
        columns = [[it.y for it in lines if it.column == at] for at in range(self.columns)]
        distances = [
            above - below
            for ys in columns
            for above, below in pairwise(sorted(ys, reverse=True))
            if above - below > _SAME_LINE * self._size
        ]
        return min(distances, default=0.0)

    def _is_certain(self, rows: Sequence[Sequence[Sequence[_CellLine]]], *, goes_up: bool) -> bool:
        cells = [cell for row in rows for cell in row if cell]
        wrapped = [cell for cell in cells if len(cell) > 1]
        if len(rows) < LEAST_ROWS or not wrapped:
            return False
        single = sum(sum(map(bool, row)) == 1 for row in rows)
        words = [[_words(cell) for cell in row] for row in rows]
        names, labels = words[0], [row[0] for row in words]
        most = _MOST_WORDS
        if self.columns == 2:  # they may be columns of prose
            both = sum(all(len(cell) > 1 for cell in row) for row in rows)
            if both < 2 or len(rows) <= LEAST_ROWS or max(names) > _MOST_WORDS_OF_NAME:
                return False
            most = _MOST_WORDS_OF_TWO
        return (
            all(names[1:])
            and not any(line.gap > self._size for cell in rows[0] for line in cell)
            and len(cells) >= _LEAST_FILLED * len(rows) * self.columns
            and single < _MOST_SINGLE * len(rows)
            and max(map(len, cells)) <= _MOST_LINES_OF_CELL
            and sum(map(sum, words)) <= most * len(cells)
            and sum(labels) <= _MOST_WORDS_OF_LABEL * len(labels)
            and all(map(self._is_text, wrapped))
            and (goes_up or self._are_wrapped(cells))
        )

    def _is_text(self, cell: Sequence[_CellLine]) -> bool:
        """Return whether the lines of a cell are far enough away from each other."""
        return all(
            above.y - below.y >= _LEAST_LEADING * self._size for above, below in pairwise(cell)
        )

    def _are_wrapped(self, cells: Sequence[Sequence[_CellLine]]) -> bool:
        """Return whether cells are continued because their lines are full: they may be rows."""
        rights = dict[int, float]()
        for cell in cells:
            for line in cell:
                right = max(it.right for it in line.words)
                rights[line.column] = max(right, rights.get(line.column, right))
        breaks = [(above, below) for cell in cells for above, below in pairwise(cell)]
        full = sum(
            above.words[-1].right + below.words[0].right - below.words[0].left
            > rights[above.column] - _LEAST_GAP
            for above, below in breaks
        )
        continued = sum(below.is_small for _, below in breaks)
        return (
            2 * full >= len(breaks)
            and 2 * continued >= len(breaks)
            and 2 * sum(cell[0].is_small for cell in cells) <= len(cells)
        )


def _words(cell: Sequence[_CellLine]) -> int:
    return sum(len(line.words) for line in cell)


def _rows_by_order(lines: Sequence[_CellLine], leading: float) -> list[list[_CellLine]]:
    """Return the rows of cells that were written one after the other, from left to right."""
    rows: list[list[_CellLine]] = []
    for line in lines:
        last = rows[-1][-1] if rows else None
        most = FAR if line.column else _MOST_UNEVEN * leading  # paragraphs, or names of rows
        is_next = last is not None and (
            line.column > last.column
            or (line.column == last.column and 0 < last.y - line.y <= most)
        )
        if is_next:
            rows[-1].append(line)
        else:
            rows.append([line])
    return rows


def _rows_by_distance(lines: Sequence[_CellLine], leading: float) -> list[list[_CellLine]]:
    """Return the rows whose lines are further from each other than the lines of a cell."""
    cells: dict[int, list[list[_CellLine]]] = {}
    for line in sorted(lines, key=lambda it: -it.y):
        column = cells.setdefault(line.column, [])
        if column and column[-1][-1].y - line.y <= _EVEN * leading:
            column[-1].append(line)
        else:
            column.append([line])
    rows: list[list[_CellLine]] = []
    bottom = 0.0
    for cell in sorted((it for column in cells.values() for it in column), key=lambda it: -it[0].y):
        if rows and cell[0].y > bottom - leading / 4:
            rows[-1].extend(cell)
            bottom = min(bottom, cell[-1].y)
        else:
            rows.append(list(cell))
            bottom = cell[-1].y
    return rows


def _rows_by_names(lines: Sequence[_CellLine], leading: float) -> list[list[_CellLine]]:
    """Return the rows that begin at the lines of the first column."""
    names = sorted(-line.y for line in lines if not line.column)
    rows: list[list[_CellLine]] = [[] for _ in names]
    for line in lines:
        if names:
            rows[max(0, bisect_right(names, leading / 4 - line.y) - 1)].append(line)
    return [row for row in rows if row]
