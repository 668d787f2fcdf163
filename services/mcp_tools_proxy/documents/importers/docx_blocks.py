"""Paragraphs, headings and tables of a Word file as pages of Markdown."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from mcp_tools_proxy.documents.importers.base import Heading, paginate
from mcp_tools_proxy.documents.importers.pipe_table import (
    MergedText,
    cut_table,
    header_rows,
    merged_header,
    table_lines,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass

PAGE_START = "\x02"
"""Marks the start of a page in texts; XML cannot contain it."""

_MAX_DRAWN_CHARS = 40_000
"""A page that Word drew has less: Word wrote longer ones before the text was changed."""

_LONGEST_REPEAT = 200
"""Merged cells with longer texts are only marked."""

_TABLE_END = re.compile(r"\n\n")
"""Between the parts of a table that is larger than a page."""

_FEWEST_LINES = 3
_LONGEST_LINE = 80
"""Paragraphs that stand beside each other in the cells of a row."""

_MAX_REPEATED = 1024 * 1024
"""Characters of a table's repeated cells: 70,000 merged rows of 63 columns would have 441 MB."""


_MAX_COLUMNS = 200
"""Longer rows are cut: Word has 63 columns, and shorter rows are filled up to the longest."""

_FORM_COLUMNS = 1.5
"""A table with so many more columns than cells in a row is a form; a name was repeated 14 times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph, heading, list item or table as Markdown, and its text on one line.

    ``level`` is that of a heading. Consecutive items are not separated by an empty line.
    """

    text: str
    flat: str
    level: int | None = None
    is_item: bool = False
    is_table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A cell; ``merged`` is ``above`` or ``left`` if it continues that cell.

    ``lines`` are its blocks with the empty paragraphs between them.
    """

    lines: Sequence[Block]
    span: int = 1
    merged: str = ""

    @property
    def blocks(self) -> list[Block]:
        """The blocks with text."""
        return [block for block in self.lines if block.flat]

    @property
    def text(self) -> str:
        """The text on one line."""
        return " ".join(block.flat for block in self.blocks if block.flat)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row; ``skipped`` columns come before its first cell."""

    cells: Sequence[TableCell]
    skipped: int = 0
    is_header: bool = False


def lay_out(
    blocks: Sequence[Block], *, has_word_pages: bool
) -> tuple[tuple[str, ...], list[Heading]]:
    """Return the pages and headings of a document.

    Pages start at PAGE_START. Where these are not the pages that Word has drawn, they have at most
    8 kB.
    """
    parts: list[str] = []
    starts, edges, offset = [0], [0], 0
    found: list[tuple[int, int, str]] = []
    previous: Block | None = None
    for block in blocks:
        if previous is not None:
            parts.append("\n" if block.is_item and previous.is_item else "\n\n")
            offset += len(parts[-1])
        text = block.text.lstrip(PAGE_START)
        starts += [offset] * (len(block.text) - len(text))
        if previous is None or previous.level is None:
            edges.append(offset)
        if block.level is not None:
            found.append((offset, block.level, block.flat))
        for number, part in enumerate(text.split(PAGE_START)):
            if number:
                starts.append(offset)
            edges += (offset + it.end() for it in _TABLE_END.finditer(part) if block.is_table)
            parts.append(part)
            offset += len(part)
        previous = block
    pages = _pages("".join(parts), starts, edges, has_word_pages=has_word_pages)
    page_starts = [0, *accumulate(map(len, pages))]
    headings = []
    for offset, level, title in found:
        page = bisect_right(page_starts, offset, hi=len(pages))
        char = offset - page_starts[page - 1]
        headings.append(Heading(level=level, title=title, page=page, char=char))
    return pages, headings


def _pages(
    text: str, starts: Sequence[int], edges: Sequence[int], *, has_word_pages: bool
) -> tuple[str, ...]:
    pages: list[str] = []
    for start, end in pairwise([*starts, len(text)]):
        page = text[start:end]
        if has_word_pages and len(page) <= _MAX_DRAWN_CHARS:
            pages.append(page)
        else:
            inner = edges[bisect_left(edges, start) : bisect_right(edges, end)]
            pages += paginate(page, [edge - start for edge in inner]) or ("",)
    while pages and not pages[-1].strip():
        pages.pop()
    return tuple(pages)


def table_blocks(rows: Sequence[TableRow]) -> tuple[list[Block], int]:
    """Return a table as blocks, and the number of pages that start after its last row.

    A table of one column, or around other tables, is layout: its cells become paragraphs. A first
    row of one cell over all columns becomes a paragraph above the table. A form, whose rows have
    cells of their own widths, has no columns: each row becomes a line.
    """
    header = rows[:1] if len(rows) > 1 else []  # its paragraphs are lines of a name
    rows = [*header, *(line for row in rows[len(header) :] for line in _visible_rows(row))]
    grid = _collapsed(_placed(rows))
    if _is_layout(rows, grid):
        return [block for row in rows for block in _unfolded(row)], 0
    if max(map(len, grid)) > _FORM_COLUMNS * max(len(row.cells) for row in rows):
        return [line for row in rows for line in _form_line(row)], 0
    blocks: list[Block] = []
    first = 0
    while first < len(rows) - 1 and len(grid[first]) > 1 and len(set(map(id, grid[first]))) == 1:
        blocks += _unfolded(rows[first])
        first += 1
    table, marks = _table(rows[first:], grid[first:])
    return [*blocks, *table], marks


def _visible_rows(row: TableRow) -> Iterator[TableRow]:
    """Yield the rows that readers see: cells with as many short paragraphs are several rows."""
    columns = [_trimmed(cell.lines) for cell in row.cells]
    count = max(map(len, columns), default=0)
    if (
        count < _FEWEST_LINES
        or len(columns) < 2
        or not all(map(_is_column, row.cells))
        or sum(len(it.flat) > _LONGEST_LINE for lines in columns for it in lines)
        or any(len(lines) != count for lines in columns)
    ):
        yield row
    else:
        for at in range(count):
            yield replace(
                row,
                cells=[
                    replace(cell, lines=lines[at : at + 1])
                    for cell, lines in zip(row.cells, columns, strict=True)
                ],
            )


def _is_column(cell: TableCell) -> bool:
    return not cell.merged and not any(
        it.is_table or it.level is not None or PAGE_START in it.text for it in cell.lines
    )


def _trimmed(lines: Sequence[Block]) -> Sequence[Block]:
    """Return lines without empty ones at the end."""
    end = max((number for number, it in enumerate(lines, start=1) if it.flat), default=0)
    return lines[:end]


def _placed(rows: Sequence[TableRow]) -> list[list[TableCell | None]]:
    """Return the cell in each column of each row; merged cells are repeated."""
    grid: list[list[TableCell | None]] = []
    above: list[TableCell | None] = []
    for row in rows:
        line: list[TableCell | None] = [None] * row.skipped
        for cell in row.cells:
            at = len(line)
            origin: TableCell | None = cell
            if cell.merged == "left" and line:
                origin = line[-1]
            elif cell.merged == "above" and at < len(above):
                origin = above[at]
            line += [origin or cell] * cell.span
        grid.append(line)
        above = line
    return grid


def _collapsed(grid: list[list[TableCell | None]]) -> list[list[TableCell | None]]:
    """Return the grid without the columns in which no cell starts."""
    width = max(map(len, grid), default=0)
    found = {0}
    for line in grid:
        found.update(at for at in range(1, len(line)) if line[at] is not line[at - 1])
        if len(line) < width:
            found.add(len(line))
    columns = sorted(found)
    return [[line[at] for at in columns[: bisect_left(columns, len(line))]] for line in grid]


def _is_layout(rows: Sequence[TableRow], grid: list[list[TableCell | None]]) -> bool:
    cells = [cell for row in rows for cell in row.cells]
    if max(map(len, grid), default=0) < 2:
        return True
    if len(rows) == 1 and any(len(cell.blocks) > 1 for cell in cells):
        return True
    if any(len(cell.blocks) > 1 and any(it.level for it in cell.blocks) for cell in cells):
        return True
    nested = sum(len(it.text) for cell in cells for it in cell.blocks if it.is_table)
    return nested * 2 > sum(len(it.text) for cell in cells for it in cell.blocks)


def _unfolded(row: TableRow) -> list[Block]:
    """Return the blocks of a row's cells; a page starts in one of them only."""
    marks = [sum(it.text.count(PAGE_START) for it in cell.blocks) for cell in row.cells]
    broken = marks.index(max(marks)) if marks else 0
    blocks: list[Block] = []
    for number, cell in enumerate(row.cells):
        if number == broken or not marks[number]:
            blocks += cell.blocks
        else:
            blocks += (_without_marks(block) for block in cell.blocks)
    return blocks


def _form_line(row: TableRow) -> Iterator[Block]:
    before, after = _page_starts(row)
    texts = [cell.text.replace(PAGE_START, "") for cell in row.cells if not cell.merged]
    if text := " | ".join(filter(None, texts)):
        yield Block(text=PAGE_START * (before + after) + text, flat=text)


def _without_marks(block: Block) -> Block:
    return replace(block, text=block.text.replace(PAGE_START, ""))


def _table(rows: Sequence[TableRow], grid: list[list[TableCell | None]]) -> tuple[list[Block], int]:
    repeats = _RepeatedCells()
    texts: list[list[str]] = []
    marks: list[int] = []
    pending = headers = 0
    above: list[TableCell | None] = []
    for row, line in zip(rows, grid, strict=True):
        before, after = _page_starts(row)
        shown = repeats.texts(line, above)
        above = line
        if any(shown):
            headers += row.is_header and headers == len(texts)
            for at in range(0, len(shown), _MAX_COLUMNS):
                texts.append(shown[at : at + _MAX_COLUMNS])
                marks.append(0 if at else pending + before)
            pending = after
        else:
            pending += before + after
    headers = max(headers, header_rows(_texts(grid)))
    if 1 < headers < len(texts):
        texts[:headers] = [merged_header(texts[:headers])]
        marks[:headers] = [sum(marks[:headers])]
    if not texts:
        return [], pending
    flat = "; ".join(", ".join(dict.fromkeys(filter(None, line))) for line in texts)
    return [Block(text=_with_page_starts(table_lines(texts), marks), flat=flat, is_table=True)], (
        pending
    )


def _texts(grid: list[list[TableCell | None]]) -> list[list[str]]:
    """Return the texts of cells; merged ones have the same object."""
    texts: dict[int, MergedText] = {id(None): MergedText()}
    return [[_text(cell, texts) for cell in line] for line in grid]


def _text(cell: TableCell | None, texts: dict[int, MergedText]) -> MergedText:
    if id(cell) not in texts and cell is not None:
        texts[id(cell)] = MergedText(cell.text.strip(f"{PAGE_START} "))
    return texts[id(cell)]


def _with_page_starts(lines: Sequence[str], marks: Sequence[int]) -> str:
    """Join the lines of a table; its header is repeated on each page."""
    head, body = lines[:2], lines[2:]
    parts: list[tuple[int, list[str]]] = [(marks[0], [])]
    for line, pages in zip(body, marks[1:], strict=True):
        if pages:
            parts.append((pages, []))
        parts[-1][1].append(line)
    return "\n".join(PAGE_START * pages + cut_table([*head, *rows]) for pages, rows in parts)


def _page_starts(row: TableRow) -> tuple[int, int]:
    """Return how many pages start before a row and within it; a row is not cut."""
    texts = [cell.text for cell in row.cells if cell.text]
    most = max((text.count(PAGE_START) for text in texts), default=0)
    before = min((len(text) - len(text.lstrip(PAGE_START)) for text in texts[:1]), default=0)
    return before, most - before


class _RepeatedCells:
    """The texts of a table's rows; long texts and many texts are not repeated."""

    def __init__(self) -> None:
        self._left = _MAX_REPEATED

    def texts(
        self, line: Sequence[TableCell | None], above: Sequence[TableCell | None]
    ) -> list[str]:
        """Return the texts of a row below the row ``above``."""
        shown = []
        for at, cell in enumerate(line):
            text = "" if cell is None else cell.text.replace(PAGE_START, "")
            if at and cell is line[at - 1]:
                text = self._repeated(text, "(as left)")
            elif at < len(above) and cell is above[at]:
                text = self._repeated(text, "(as above)")
            shown.append(text)
        return shown

    def _repeated(self, text: str, mark: str) -> str:
        if len(text) > _LONGEST_REPEAT:
            text = mark
        self._left -= len(text)
        return text if self._left > 0 else ""
