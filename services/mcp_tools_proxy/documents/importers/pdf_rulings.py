"""Tables of a PDF page that are drawn with lines: their cells."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from ctypes import c_float

from pypdfium2 import PdfPage, raw

from mcp_tools_proxy.domain.fast_dataclass import dataclass

MOST_OBJECTS = 5_000
MOST_SEGMENTS = 2_000
"""Path objects and their segments examined on a page; a map has more."""

MOST_LINES = 1_500
MOST_CELLS = 10_000

_THIN = 3.0
_NEAR = 3.0
"""Points. Lines that are closer are one line; ends that are closer touch."""

_SHORT = 5.0
"""Shorter lines are letters or patterns."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A line: at ``at`` from ``start`` to ``end``, all x or y in points."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class RuledGrid:
    """The edges of a table's columns, from left, and of its rows, from above, and its lines."""

    columns: Sequence[float]
    rows: Sequence[float]
    across: Sequence[Ruling]
    down: Sequence[Ruling]

    def regions(self) -> list[list[int]]:
        """Return for each row the region of each cell: merged cells share it."""
        width, height = len(self.columns) - 1, len(self.rows) - 1
        regions = [[row * width + column for column in range(width)] for row in range(height)]
        down = [_at(self.down, x) for x in self.columns]
        across = [_at(self.across, y) for y in self.rows]
        for row in range(height):
            for column in range(1, width):
                middle = (self.rows[row] + self.rows[row + 1]) / 2
                if not _has(down[column], middle):
                    regions[row][column] = regions[row][column - 1]
        for row in range(1, height):
            for column in range(width):
                middle = (self.columns[column] + self.columns[column + 1]) / 2
                above, here = regions[row - 1][column], regions[row][column]
                if (
                    here >= row * width
                    and not _has(across[row], middle)
                    and _extent(regions[row - 1], above) == _extent(regions[row], here)
                ):
                    regions[row] = [above if it == here else it for it in regions[row]]
        return regions


def _extent(row: Sequence[int], region: int) -> tuple[int, int]:
    return row.index(region), row.count(region)


def _at(rulings: Sequence[Ruling], at: float) -> list[Ruling]:
    return [it for it in rulings if abs(it.at - at) <= _NEAR]


def _has(rulings: Sequence[Ruling], point: float) -> bool:
    return any(it.start - _NEAR <= point <= it.end + _NEAR for it in rulings)


@dataclass(frozen=True, slots=True)
class Bands:
    """Rows drawn as shaded bands or between lines, without lines between columns.

    ``rows`` are their edges, from above.
    """

    left: float
    right: float
    rows: Sequence[float]
    are_lines: bool = False

    def grid(self, columns: Sequence[float]) -> RuledGrid:
        """Return the grid with lines at ``columns``, which lie between the edges."""
        xs = [self.left, *columns, self.right]
        across = [Ruling(y, self.left, self.right) for y in self.rows]
        return RuledGrid(
            xs, self.rows, across, [Ruling(x, self.rows[-1], self.rows[0]) for x in xs]
        )


def ruled_grids(page: PdfPage) -> tuple[list[RuledGrid], list[Bands]]:
    """Return the tables of a page that are drawn with lines, and its bands, at least three rows.

    Grids have at least two columns and rows.
    """
    across: list[Ruling] = []
    down: list[Ruling] = []
    for x1, y1, x2, y2 in _edges(page):
        if abs(y1 - y2) <= _THIN and abs(x1 - x2) >= _SHORT:
            across.append(Ruling((y1 + y2) / 2, min(x1, x2), max(x1, x2)))
        elif abs(x1 - x2) <= _THIN and abs(y1 - y2) >= _SHORT:
            down.append(Ruling((x1 + x2) / 2, min(y1, y2), max(y1, y2)))
        if len(across) + len(down) > MOST_LINES:
            return [], []
    across, down = _joined(across), _joined(down)
    groups = list(_groups(across, down))
    grids = [grid for group in groups if (grid := _grid(*group)) is not None]
    return grids, _bands(groups)


def _bands(groups: Sequence[tuple[list[Ruling], list[Ruling]]]) -> list[Bands]:
    """Return the rows with the same left and right edges, one below the other."""
    boxes: dict[tuple[int, int, bool], list[list[float]]] = defaultdict(list)
    for across, down in groups:
        columns, rows = _distinct(it.at for it in down), _distinct(it.at for it in across)
        if not down:
            columns = [across[0].start, across[0].end]
        elif len(columns) > 2 and len(rows) > 2:
            continue  # a grid
        if len(columns) > 1 and columns[-1] - columns[0] > _LEAST_BAND:
            boxes[round(columns[0]), round(columns[-1]), not down].append(rows)
    found: list[Bands] = []
    for (left, right, are_lines), parts in boxes.items():
        rows = []
        for part in sorted(parts, key=max, reverse=True):
            if rows and rows[-1] - part[-1] > _MOST_BETWEEN:
                found.append(Bands(left, right, rows, are_lines))
                rows = []
            rows = sorted(_distinct(iter([*rows, *part])), reverse=True)
        found.append(Bands(left, right, rows, are_lines))
    return [it for it in found if _LEAST_EDGES - it.are_lines <= len(it.rows) <= MOST_LINES]


_LEAST_BAND, _MOST_BETWEEN, _LEAST_EDGES = 60.0, 80.0, 4
"""Least width of a band and greatest height of an unshaded row between two, in points; edges.

The first row is often above the first line.
"""


def _grid(across: Sequence[Ruling], down: Sequence[Ruling]) -> RuledGrid | None:
    columns = sorted(_distinct(it.at for it in down))
    rows = sorted(_distinct(it.at for it in across), reverse=True)
    if len(columns) < 3 or len(rows) < 3 or len(columns) * len(rows) > MOST_CELLS:
        return None
    return RuledGrid(columns, rows, across, down)


def _distinct(values: Iterator[float]) -> list[float]:
    distinct: list[float] = []
    for value in sorted(values):
        if not distinct or value - distinct[-1] > _NEAR:
            distinct.append(value)
    return distinct


def _joined(rulings: Sequence[Ruling]) -> list[Ruling]:
    """Join lines that continue each other: many programs draw a line for each cell."""
    joined: list[Ruling] = []
    for ruling in sorted(rulings, key=lambda it: (round(it.at), it.start)):
        last = joined[-1] if joined else None
        if last and abs(last.at - ruling.at) <= 1 and ruling.start <= last.end + _NEAR:
            joined[-1] = Ruling(last.at, last.start, max(last.end, ruling.end))
        else:
            joined.append(ruling)
    return joined


def _groups(
    across: Sequence[Ruling], down: Sequence[Ruling]
) -> Iterator[tuple[list[Ruling], list[Ruling]]]:
    """Yield the lines that touch each other, directly or by others."""
    leaders = list(range(len(across) + len(down)))

    def leader(number: int) -> int:
        while leaders[number] != number:
            leaders[number] = leaders[leaders[number]]
            number = leaders[number]
        return number

    for row, line in enumerate(across):
        for column, other in enumerate(down, start=len(across)):
            if (
                line.start - _NEAR <= other.at <= line.end + _NEAR
                and other.start - _NEAR <= line.at <= other.end + _NEAR
            ):
                leaders[leader(row)] = leader(column)
    groups: dict[int, tuple[list[Ruling], list[Ruling]]] = defaultdict(lambda: ([], []))
    for number, line in enumerate([*across, *down]):
        groups[leader(number)][number >= len(across)].append(line)
    yield from groups.values()


def _edges(page: PdfPage) -> Iterator[tuple[float, float, float, float]]:
    """Yield the ends of straight lines; a thin rectangle is a line, another one has four."""
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    segments = MOST_SEGMENTS
    for number in range(min(raw.FPDFPage_CountObjects(page), MOST_OBJECTS)):
        shape = raw.FPDFPage_GetObject(page, number)
        if raw.FPDFPageObj_GetType(shape) != raw.FPDF_PAGEOBJ_PATH:
            continue
        if not raw.FPDFPageObj_GetBounds(shape, left, bottom, right, top):
            continue
        x1, y1, x2, y2 = left.value, bottom.value, right.value, top.value
        count = raw.FPDFPath_CountSegments(shape)
        if min(x2 - x1, y2 - y1) <= _THIN:
            yield x1, y1, x2, y2
        elif count <= segments:
            segments -= count
            yield from _path_edges(shape, count)


def _path_edges(shape: object, count: int) -> Iterator[tuple[float, float, float, float]]:
    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(shape, matrix)
    x, y = c_float(), c_float()
    start = before = (0.0, 0.0)
    for number in range(count):
        segment = raw.FPDFPath_GetPathSegment(shape, number)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            yield *before, *point
        if raw.FPDFPathSegment_GetClose(segment):
            yield *point, *start
        before = point
