"""Tables of a PDF page that are drawn with lines or shaded rows: their texts."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import neg

from pypdfium2 import PdfPage

from mcp_tools_proxy.documents.importers.hyphens import DIVISION
from mcp_tools_proxy.documents.importers.pdf_rulings import Bands, RuledGrid, ruled_grids
from mcp_tools_proxy.documents.importers.pdf_words import PageWord
from mcp_tools_proxy.documents.importers.pipe_table import merged_header, table_lines
from mcp_tools_proxy.domain.fast_dataclass import dataclass

WIDE = 9.0
"""Points between words that may be in different cells."""

LEAST_ROWS, LEAST_FULL = 3, 0.6
"""Least number of rows of a table, and least share of those with all or most of their cells."""

LEAST_GAP = 4.0
"""Least width of a gap between columns, in points."""

FAR = 100_000.0
"""A place outside of any page, in points."""

NUMERIC = re.compile(
    r"[-+−–~≈<>≤≥±($€£¥]*\s?\d[\d.,:/'’\s%°×x^+-]*\)?\s?(?:%|[A-Za-z€$£¥°µμ/]{1,4})?[*†‡]?|[-–—−]+|n/?a|[✓✗x×●○•]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table: its words, in the order of the text, and its Markdown."""

    words: Sequence[PageWord]
    markdown: str


def ruled_tables(page: PdfPage, lines: Sequence[Sequence[PageWord]]) -> Iterator[PageTable]:
    """Yield the tables of a page that are drawn with lines or bands."""
    grids, bands = ruled_grids(page)
    grids += [grid for it in bands if (grid := _banded_grid(it, lines)) is not None]
    used: set[int] = set()
    for grid in grids:
        table = _ruled_table(grid, lines)
        if table is not None and used.isdisjoint(map(id, table.words)):
            used.update(map(id, table.words))
            yield table


def _banded_grid(bands: Bands, lines: Sequence[Sequence[PageWord]]) -> RuledGrid | None:
    """Return a grid whose columns are the gaps that most bands share, if there are any.

    The first and the last row may be without a band or line.
    """
    height = min(above - below for above, below in pairwise(bands.rows))
    edges = [bands.rows[0] + height, *bands.rows, bands.rows[-1] - height]
    outer = replace(bands, rows=edges).grid(())
    rows = _words_of_rows(outer, lines)
    gaps = [gaps_of(_apart(row)) if row else [] for row in rows]
    several = [it for it in gaps[1:-1] if len(it) > 2]
    common = reduce(common_gaps, several) if several else []
    for at in (-1, 0):
        kept = common_gaps(common, gaps[at])
        if len(gaps[at]) > 2 and len(kept) == len(common):
            if _is_continued_outside(outer, rows[at], lines):
                return None
            common = kept
            several.append(gaps[at])
        else:
            del edges[at], rows[at]
    if len(several) < max(LEAST_ROWS, LEAST_FULL * sum(map(bool, rows))) or not common[1:-1]:
        return None
    columns = [(start + end) / 2 for start, end in common[1:-1]]
    grid = replace(bands, rows=edges).grid(columns)
    return None if bands.are_lines and not _has_wrapped_cells(grid, rows) else grid


def _words_of_rows(grid: RuledGrid, lines: Sequence[Sequence[PageWord]]) -> list[list[PageWord]]:
    rows: list[list[PageWord]] = [[] for _ in grid.rows[1:]]
    for line in lines:
        for word in line:
            if (cell := _cell_at(grid, word)) is not None:
                rows[cell[0]].append(word)
    return rows


def _is_continued_outside(
    grid: RuledGrid, row: Sequence[PageWord], lines: Sequence[Sequence[PageWord]]
) -> bool:
    """Return whether the first or last row of a grid has lines so near that they are a part."""
    lowest, highest = min(word.y for word in row), max(word.y for word in row)
    return any(
        lowest - _NEAR_LINE < word.y < highest + _NEAR_LINE
        and grid.columns[0] <= word.left <= grid.columns[-1]
        and _cell_at(grid, word) is None
        for line in lines
        for word in line
    )


_NEAR_LINE = 16.0


def _has_wrapped_cells(grid: RuledGrid, rows: Sequence[Sequence[PageWord]]) -> bool:
    """Return whether a row has a cell with several lines; in several cells these may be rows."""
    wrapped: list[int] = []
    small: list[bool] = []
    for row in rows:
        cells: dict[int, list[PageWord]] = defaultdict(list)
        for word in row:
            if (cell := _cell_at(grid, word)) is not None:
                cells[cell[1]].append(word)
        wrapped.append(0)
        for it in cells.values():
            baselines = _baselines(it)
            first = {_nearest(word.y, baselines): word for word in reversed(it)}
            small += [word.text[:1].islower() for at, word in first.items() if at]
            wrapped[-1] += len(baselines) > 1
    return max(wrapped) == 1 or (max(wrapped) > 1 and 2 * sum(small) >= len(small))


def _apart(words: Sequence[PageWord]) -> list[list[PageWord]]:
    """Return the words as parts with gaps between them, wherever they are in the height."""
    parts: list[list[PageWord]] = []
    right = -FAR
    for word in sorted(words, key=lambda it: it.left):
        if word.left - right > LEAST_GAP:
            parts.append([])
        parts[-1].append(word)
        right = max(right, word.right)
    return parts


def _ruled_table(grid: RuledGrid, lines: Sequence[Sequence[PageWord]]) -> PageTable | None:
    regions = grid.regions()
    total = sum(map(len, regions))
    if total - len({region for row in regions for region in row}) > _MOST_MERGED * total:
        return None
    inside = [word for line in lines for word in line if _cell_at(grid, word) is not None]
    words = _words_of_regions(grid, regions, inside)
    title, head = _heading_rows(regions)
    rows = [text for row in regions[title:] for text in _row_texts(row, words)]
    rows = _own_columns([merged_header(rows[:head]), *rows[head:]] if head > 1 else rows)
    rows = [row for row in rows if any(row)]
    if not _is_plausible(rows):
        return None
    titles = [cell_text(words[row[0]]) for row in regions[:title]]
    return PageTable(inside, "\n".join([*filter(None, titles), *table_lines(rows)]))


def _cell_at(grid: RuledGrid, word: PageWord) -> tuple[int, int] | None:
    """Return the row and column of a word, or None if it is outside the table."""
    x, y = (word.left + word.right) / 2, word.y + _MIDDLE
    if not (grid.columns[0] <= x <= grid.columns[-1] and grid.rows[-1] <= y <= grid.rows[0]):
        return None
    row = sum(y < edge for edge in grid.rows[1:-1])
    return row, sum(x > edge for edge in grid.columns[1:-1])


def _words_of_regions(
    grid: RuledGrid, regions: Sequence[list[int]], words: Sequence[PageWord]
) -> Mapping[int, list[PageWord]]:
    """Return the words of each region, in the order of the text."""
    cells: list[list[list[PageWord]]] = [[[] for _ in row] for row in regions]
    for word in words:
        if (cell := _cell_at(grid, word)) is not None:
            cells[cell[0]][cell[1]].append(word)
    members: dict[int, list[PageWord]] = defaultdict(list)
    for row, row_cells in zip(regions, cells, strict=True):
        _separate(row, row_cells)
        for region, cell_words in zip(row, row_cells, strict=True):
            members[region].extend(cell_words)
    place = {id(word): number for number, word in enumerate(words)}
    for it in members.values():
        it.sort(key=lambda word: place[id(word)])
    return members


def _heading_rows(regions: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the number of rows that are a title, one cell each, and of the header's rows."""
    title = 0
    while title < min(MOST_HEADER_ROWS, len(regions) - 2) and len(set(regions[title])) == 1:
        title += 1
    head = 1
    while head < MOST_HEADER_ROWS and title + head < len(regions) - 1:
        row, below = regions[title + head - 1], regions[title + head]
        if not 1 < len(set(row)) < len(row) or len(set(below)) == 1:
            break
        head += 1
    return title, head


MOST_HEADER_ROWS = 3

_MOST_MERGED = 0.4
"""Greatest share of merged cells; with more, lines are missing."""


def _separate(row: list[int], cells: Sequence[Sequence[PageWord]]) -> None:
    """Undo the merging of cells in a row if texts in them are far from each other."""
    for region in {it for it in row if row.count(it) > 1}:
        columns = [column for column, it in enumerate(row) if it == region]
        words = sorted((word for it in columns for word in cells[it]), key=lambda it: it.left)
        if any(second.left - first.right > 2 * WIDE for first, second in pairwise(words)):
            for column in columns[1:]:
                row[column] = -1 - row[0] - column


def _own_columns(rows: list[list[str]]) -> list[list[str]]:
    """Leave out columns without a text that is not repeated in a neighbour column."""
    kept: list[int] = []
    for column in range(len(rows[0])):
        after = range(column + 1, len(rows[0]))[:1]
        neighbours = [*kept[-1:], *after]
        is_own = any(
            row[column] and all(row[column] != row[it] for it in neighbours) for row in rows
        )
        is_copy = any(
            all(not row[column] or row[column] == row[it] for row in rows) for it in neighbours
        )
        if is_own or (not is_copy and any(row[column] for row in rows)):
            kept.append(column)
    return [[row[column] for column in kept] for row in rows]


def _row_texts(row: Sequence[int], words: Mapping[int, list[PageWord]]) -> list[list[str]]:
    """Return the texts of a row, or of several if there is no line between them."""
    if len(set(row)) == 1:  # a heading across the table
        return [[cell_text(words[row[0]]), *[""] * (len(row) - 1)]]
    members = {region: words.get(region, []) for region in row}
    texts = [cell_text(members[region]) for region in row]
    if not any(len(_baselines(it)) > 1 for it in members.values()):
        return [texts]
    baselines = _baselines([word for it in members.values() for word in it])
    lines: dict[int, list[list[PageWord]]] = {}
    for region, it in members.items():
        lines[region] = [[] for _ in baselines]
        for word in it:
            lines[region][_nearest(word.y, baselines)].append(word)
    if not _are_rows(lines):
        return [texts]
    return [
        [cell_text(lines[region][number]) for region in row] for number in range(len(baselines))
    ]


def _are_rows(lines: Mapping[int, Sequence[Sequence[PageWord]]]) -> bool:
    """Return whether cells have several rows: numbers one below the other, beside other text."""
    filled = {region: {at for at, it in enumerate(cell) if it} for region, cell in lines.items()}
    return any(
        len(filled[region]) > 1
        and all(NUMERIC.fullmatch(cell_text(it)) for it in cell if it)
        and any(filled[region] <= filled[other] for other in lines if other != region)
        for region, cell in lines.items()
    )


def _baselines(words: Sequence[PageWord]) -> list[float]:
    """Return the baselines of words, from above; those of scripts are not far enough away."""
    baselines: list[float] = []
    for y in sorted((word.y for word in words), reverse=True):
        if not baselines or baselines[-1] - y > _LEAST_PITCH:
            baselines.append(y)
    return baselines


_LEAST_PITCH = 5.0


def _nearest(y: float, baselines: Sequence[float]) -> int:
    """Return the number of the last baseline that is not below ``y``; they are given from above."""
    return max(0, bisect_right(baselines, -y + _LEAST_PITCH / 2, key=neg) - 1)


_MIDDLE = 3.0
"""Points from the baseline to the middle of small letters."""


def _is_plausible(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the cells are filled like those of a table: frames and drawings are none."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    cells = [cell for row in rows for cell in row]
    texts = [cell for cell in cells if cell]
    readable = sum(any(map(str.isalnum, cell)) for cell in texts)
    return (
        not any(map(_BULLETS.fullmatch, rows[0]))
        and len(texts) >= _LEAST_FILLED * len(cells)
        and 2 * readable >= len(texts)
        and sum(sum(map(bool, row)) > 1 for row in rows) >= 2
        and max(map(len, texts)) <= _LONGEST_CELL
    )


_BULLETS = re.compile(r"[•●▪‣◦](?: [•●▪‣◦])*")
_LEAST_FILLED = 0.35
_LONGEST_CELL = 3_000


def cell_text(words: Sequence[PageWord]) -> str:
    """Return the text of a cell with several lines."""
    text = ""
    for number, word in enumerate(words):
        is_continued = number and words[number - 1].text.endswith(DIVISION)
        text += word.text if word.is_glued or is_continued or not text else f" {word.text}"
    return text


def gaps_of(parts: Sequence[Sequence[PageWord]]) -> list[tuple[float, float]]:
    """Return the free stretches of a row, with the two at its ends."""
    edges = [(part[0].left, max(word.right for word in part)) for part in parts]
    starts = [-FAR, *(right for _, right in edges)]
    ends = [*(left for left, _ in edges), FAR]
    return list(zip(starts, ends, strict=True))


def common_gaps(
    first: Sequence[tuple[float, float]],
    second: Sequence[tuple[float, float]],
    *,
    least: float = LEAST_GAP,
) -> list[tuple[float, float]]:
    """Return the stretches that are free in both; both are in order."""
    common: list[tuple[float, float]] = []
    at = 0
    for left, right in first:
        while at < len(second) and second[at][1] < right:
            common.append((max(left, second[at][0]), second[at][1]))
            at += 1
        if at < len(second):
            common.append((max(left, second[at][0]), right))
    return [(left, right) for left, right in common if right - left > least]
