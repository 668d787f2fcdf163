"""Tables of a PDF page whose columns are hardly further apart than words: the certain ones.

Browsers print tables of web pages so: without lines, with 3 points between the widest cells.
"""

from bisect import insort
from collections.abc import Sequence
from itertools import pairwise

from mcp_tools_proxy.documents.importers.pdf_ruled_tables import FAR, NUMERIC, cell_text
from mcp_tools_proxy.documents.importers.pdf_words import PageWord
from mcp_tools_proxy.domain.fast_dataclass import dataclass

NARROW = 0.45
"""Least gap between cells, as a share of the type size; a space has 0.25 to 0.35."""

ALIGNED = 1.5
"""Points between the left, right or middle edges of the cells of a column."""

_MOST_PITCH, _UNEVEN_PITCH = 2.2, 1.4
"""Greatest distance of rows, as a share of the type size and of the first distance."""

_MOST_ROWS, _MOST_COLUMNS, _MOST_ABOVE = 100, 20, 5
"""Limits, the last for rows above the first one with gaps between all cells."""

_LEAST_ROWS, _LEAST_ROWS_OF_TEXT, _LEAST_COLUMNS_OF_TEXT = 3, 4, 3
_MOST_WORDS, _MOST_CHARS, _MOST_WORDS_OF_TEXT = 4, 30, 2
_MOST_WORDS_OF_HEADING, _WIDEST_HEADING = 3, 100.0

Cell = Sequence[PageWord]
Bounds = list[tuple[float, float]]
"""The left and right edges of columns."""


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """The words at one height, from left to right, as parts that are far from each other."""

    y: float
    size: float
    parts: Sequence[Cell]
    gaps: Sequence[tuple[float, float]]


class NarrowBlock:
    """Rows from ``start`` on that share columns, and their heading."""

    def __init__(self, rows: Sequence[AlignedRow], first: int, start: int) -> None:
        """Find the rows; those before ``first`` belong to another table."""
        self._rows = rows
        self.start, self.end = start, start + 1
        self._body: list[Sequence[Cell]] = [rows[start].parts]
        self._bounds: Bounds = [_edges(part) for part in rows[start].parts]
        self._extents = [_extended(_NOWHERE, part) for part in rows[start].parts]
        pitch = rows[start].y - rows[start + 1].y if start + 1 < len(rows) else 0.0
        last = min(len(rows), start + _MOST_ROWS)
        while self.end < last and self._is_near(self.end - 1, pitch) and self._add(self.end):
            self.end += 1
        highest = max(first, start - _MOST_ABOVE)
        while self.start > highest and self._is_near(self.start - 1, pitch):
            if not self._add(self.start - 1, is_above=True):
                break
            self.start -= 1
        self._head: list[Cell] = []
        if self.start > first and self._is_near(self.start - 1, pitch):
            self._read_heading(first)

    def cells(self) -> list[list[list[PageWord]]]:
        """Return the words of each cell, the heading first; nothing if there is no table."""
        rows = [_placed(parts, self._bounds) for parts in self._body]
        if len(self._bounds) < 2 or not _are_certain(rows, len(rows) + bool(self._head)):
            return []
        if not self._head:
            return rows
        columns = zip(self._heading_cells(), *rows, strict=True)
        parts = [part for column in columns for part in _parts_of_column(column)]
        return [list(row) for row in zip(*parts, strict=True)]

    def _is_near(self, above: int, pitch: float) -> bool:
        distance = self._rows[above].y - self._rows[above + 1].y
        return distance <= min(_MOST_PITCH * self._rows[above].size, _UNEVEN_PITCH * pitch)

    def _add(self, number: int, *, is_above: bool = False) -> bool:
        """Add a row if its cells are in the columns, and aligned with them."""
        parts = self._rows[number].parts
        bounds = None if is_above or len(parts) < 2 else _widened(self._bounds, parts)
        if bounds is None:
            cells = _cells_at_edges([word for part in parts for word in part], self._bounds)
            if cells is None or (is_above and not any(map(_is_number, cells[1:]))):
                return False
            parts, bounds = cells, _widened(self._bounds, cells)
        if bounds is None:
            return False
        if len(bounds) > _MOST_COLUMNS:
            return False
        body = [parts, *self._body] if is_above else [*self._body, parts]
        extents = self._extents
        if len(bounds) != len(self._bounds):
            extents = [_NOWHERE] * len(bounds)
        for row in body if extents is not self._extents else [parts]:
            placed = _placed(row, bounds)
            extents = [_extended(it, cell) for it, cell in zip(extents, placed, strict=True)]
        if not all(map(_is_aligned, extents)):
            return False
        self._body, self._bounds, self._extents = body, bounds, extents
        return True

    def _read_heading(self, first: int) -> None:
        row = self._rows[self.start - 1]
        wide = [*self._bounds[:-1], (self._bounds[-1][0], self._bounds[-1][1] + _WIDEST_HEADING)]
        cells = _placed(row.parts, wide)
        if any(len(columns_at(part, wide)) != 1 for part in row.parts):
            cells = _placed([[word] for part in row.parts for word in part], wide)
        filled = [it for it in zip(cells, self._bounds, strict=True) if it[0]]
        if len(filled) < max(2, len(cells) - 1) or not all(
            len(cell) <= _MOST_WORDS_OF_HEADING
            and not cell[-1].text.endswith((".", ",", ";"))
            and _offset(cell, bound) <= ALIGNED
            for cell, bound in filled
        ):
            return
        self._head = [cell for cell, _ in filled]
        self._bounds = _widened(self._bounds, self._head) or self._bounds
        self.start -= 1
        while self.start > first:  # lines of the heading beside it
            row = self._rows[self.start - 1]
            if row.y - self._rows[self.start].y >= row.size:
                break
            self._head += row.parts
            self.start -= 1

    def _heading_cells(self) -> list[list[PageWord]]:
        """Return the words of the heading; one in the middle of several columns is repeated."""
        cells: list[list[PageWord]] = [[] for _ in self._bounds]
        for part in self._head:
            for column in _columns_below(part, self._bounds):
                cells[column].extend(part)
        return cells


def _parts_of_column(column: Sequence[list[PageWord]]) -> Sequence[Sequence[list[PageWord]]]:
    """Return the columns that a column is, if there is a name for each word below it.

    Columns can be as close as words: between letters, or right of the widest cell.
    """
    names, *body = column
    if len(names) < 2:
        return [column]
    full = [cell for cell in body if len(cell) == len(names)]
    words = list(zip(*full, strict=True))
    if len(full) < 2 or not (_are_numbers(column) or all(map(_are_apart, words, words[1:]))):
        return [column]
    bounds = [(min(it.left for it in each), max(it.right for it in each)) for each in words]
    parts = [[_placed([[word] for word in cell], [it]) for it in bounds] for cell in column]
    if [part[0] for part in parts[0]] != [[name] for name in names]:
        return [column]
    if any(
        sum(len(part[0]) for part in row) != len(cell)
        for row, cell in zip(parts, column, strict=True)
    ):
        return [column]
    return [[row[at][0] for row in parts] for at in range(len(bounds))]


def _are_numbers(column: Sequence[Cell]) -> bool:
    """Return whether each name has a number in each cell, which are not one with spaces."""
    filled = [cell for cell in column[1:] if cell]
    return all(
        len(cell) == len(column[0]) and all(_is_number([word]) for word in cell) for cell in filled
    ) and any(len(word.text) != _THOUSANDS for cell in filled for word in cell[1:])


_THOUSANDS = 3


def _are_apart(first: Sequence[PageWord], second: Sequence[PageWord]) -> bool:
    """Return whether the second words begin at one place, wherever the first ones end."""
    rights, lefts = [word.right for word in first], [word.left for word in second]
    return (
        len(first) >= _LEAST_ROWS
        and max(lefts) - min(lefts) < _SAME
        and max(rights) - min(rights) > ALIGNED
    )


_SAME = 0.5


def _columns_below(part: Cell, bounds: Bounds) -> Sequence[int]:
    near = columns_at(part, bounds)
    if len(near) == 1 and _offset(part, bounds[near[0]]) <= ALIGNED:
        return near
    middle = sum(_edges(part))
    for first in range(min(near, default=0) + 1):
        for last in range(max([first + 1, *near]), len(bounds)):
            if abs(middle - bounds[first][0] - bounds[last][1]) <= 2 * ALIGNED:
                return range(first, last + 1)
    return near


def _are_certain(rows: Sequence[Sequence[Cell]], total: int) -> bool:
    """Return whether aligned cells are short enough; ``total`` rows include their heading."""
    columns = [[cell_text(cell) for cell in column if cell] for column in zip(*rows, strict=True)]
    texts = [text for column in columns for text in column]
    if total < _LEAST_ROWS or any(
        len(text) > _MOST_CHARS or text.count(" ") >= _MOST_WORDS for text in texts
    ):
        return False
    numeric = [all(map(NUMERIC.fullmatch, column)) for column in columns[1:]]
    if all(numeric):
        return True
    has_numbers = any(
        is_numeric and len(column) > 1
        for is_numeric, column in zip(numeric, columns[1:], strict=True)
    )
    is_full = total >= _LEAST_ROWS_OF_TEXT and len(texts) == len(columns) * len(rows)
    is_full = is_full and all(any(map(str.isalnum, text)) for text in texts)
    return (
        len(columns) >= _LEAST_COLUMNS_OF_TEXT
        and (has_numbers or is_full)
        and all(text.count(" ") < _MOST_WORDS_OF_TEXT for text in texts)
    )


_Extent = Sequence[tuple[float, float]]
"""The least and greatest left edge, right edge and middle of the cells of a column."""

_NOWHERE: _Extent = ((FAR, -FAR),) * 3


def _extended(extent: _Extent, cell: Cell) -> _Extent:
    if not cell:
        return extent
    left, right = _edges(cell)
    places = (left, right, (left + right) / 2)
    return [(min(low, at), max(high, at)) for (low, high), at in zip(extent, places, strict=True)]


def _is_aligned(extent: _Extent) -> bool:
    return any(high - low <= ALIGNED for low, high in extent)


def _cells_at_edges(words: Sequence[PageWord], bounds: Bounds) -> list[list[PageWord]] | None:
    """Return words as cells if they stand at the edges of columns, at least two."""
    placed: list[list[PageWord]] = [[] for _ in bounds]
    column: list[int] = []
    for word in words:
        column = columns_at([word], bounds) or column  # a cell can reach beyond its column
        if len(column) != 1 or any(placed[column[0] + 1 :]):
            return None
        placed[column[0]].append(word)
    filled = [it for it in zip(placed, bounds, strict=True) if it[0]]
    if len(filled) < 2 or any(_offset(cell, bound) > ALIGNED for cell, bound in filled):
        return None
    return [cell for cell, _ in filled]


def _placed(parts: Sequence[Cell], bounds: Bounds) -> list[list[PageWord]]:
    """Return the words of each column."""
    cells: list[list[PageWord]] = [[] for _ in bounds]
    for part in parts:
        for column in columns_at(part, bounds)[:1]:
            cells[column].extend(part)
    return cells


def _widened(bounds: Bounds, parts: Sequence[Cell]) -> Bounds | None:
    """Return the bounds with the parts in them, or None if there is not one for each column."""
    wide = list(bounds)
    used: set[int] = set()
    for part in parts:
        left, right = _edges(part)
        at = columns_at(part, wide)
        if len(at) > 1 or not used.isdisjoint(columns_at(part, bounds)):
            return None
        used.update(columns_at(part, bounds))
        if at:
            wide[at[0]] = min(left, wide[at[0]][0]), max(right, wide[at[0]][1])
        else:
            insort(wide, (left, right))
    return wide if all(one[1] < other[0] for one, other in pairwise(wide)) else None


def columns_at(part: Cell, bounds: Sequence[tuple[float, float]]) -> list[int]:
    """Return the columns that a part is in, none if it is between columns."""
    left, right = _edges(part)
    return [at for at, (start, end) in enumerate(bounds) if left < end and start < right]


def _offset(cell: Cell, bound: tuple[float, float]) -> float:
    """Return how far a cell is from the left, right or middle of its column."""
    (left, right), (start, end) = _edges(cell), bound
    return min(abs(left - start), abs(right - end), abs(left + right - start - end) / 2)


def _edges(cell: Cell) -> tuple[float, float]:
    return cell[0].left, max(word.right for word in cell)


def _is_number(cell: Cell) -> bool:
    return NUMERIC.fullmatch(cell_text(cell)) is not None
