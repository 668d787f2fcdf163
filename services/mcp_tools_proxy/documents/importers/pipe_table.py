"""Writes tables as Markdown pipe tables: one line per row, the header first."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed

MAX_TABLE_CHARS = 64 * 1024 * 1024
"""Limit for a table with its repeated cells: 100 kB of HTML can state a billion cells."""


def table_row(cells: Iterable[str]) -> str:
    """Return one row; white space in cells is collapsed, and bars are escaped."""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def table_rule(columns: int) -> str:
    """Return the line below the header row."""
    return f"| {' | '.join(['---'] * columns)} |"


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the first row is its header, short rows get empty cells."""
    columns = max(map(len, rows), default=0)
    lines = [table_row([*row, *[""] * (columns - len(row))]) for row in rows]
    return [*lines[:1], table_rule(columns), *lines[1:]]


def table_pages(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, above: str = ""
) -> Iterator[str]:
    """Yield tables of at most PAGE_BYTES, each with the column names and whole rows.

    The text ``above`` starts the first page.

    A row that is larger than that is alone in its table. Names over half a page are not repeated.
    """
    first = f"{table_row(header)}\n{table_rule(len(header))}\n"
    first_bytes = len(first.encode())
    table, size, is_empty = [above, first], len(above.encode()) + first_bytes, True
    for cells in rows:
        row = f"{table_row(cells)}\n"
        row_bytes = len(row.encode())
        if not is_empty and size + row_bytes > PAGE_BYTES:
            yield "".join(table)
            is_wide = first_bytes > PAGE_BYTES // 2
            table, size = ([], 0) if is_wide else ([first], first_bytes)
        table.append(row)
        size += row_bytes
        is_empty = False
    yield "".join(table)


class MergedText(str):
    """The text of a merged cell: each cell that it covers has this object."""

    __slots__ = ()


def header_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return 2 if the first row has the names of groups of columns, otherwise 1.

    Each of its cells has the text of the cell beside it, is above an empty one or spans two rows,
    or is empty. Without one that spans two rows, the second row has names, and numbers are below
    them.
    """
    if len(rows) < 3 or len(rows[0]) != len(rows[1]) or not rows[0]:
        return 1
    first, second = rows[:2]
    tall = [
        isinstance(cell, MergedText) and cell is below
        for cell, below in zip(first, second, strict=True)
    ]
    alone = [bool(cell) and not below for cell, below in zip(first, second, strict=True)]
    wide = [
        bool(cell) and cell in (*first[max(at - 1, 0) : at], *first[at + 1 : at + 2])
        for at, cell in enumerate(first)
    ]
    groups = [at for at, is_wide in enumerate(wide) if is_wide and not tall[at]]
    if not groups or not all(
        tall[at] or wide[at] or alone[at] or not cell for at, cell in enumerate(first)
    ):
        return 1
    if any(tall):
        return 2
    names = [name for at, name in enumerate(second) if wide[at] or not alone[at]]
    has_names = all(names) and not any(map(_NUMBER.fullmatch, names))
    has_numbers = any(
        _NUMBER.fullmatch(row[at]) for row in rows[2:] for at in groups if at < len(row)
    )
    return 2 if has_names and has_numbers else 1


_NUMBER = re.compile(r"(?!(?:19|20)\d\d\Z)[-+−(]?[€$£¥]?(?=[.,\s]*\d)[\d.,\s]+[%€$£¥)]*")
"""A number, but not a year, which can name a column."""


def merged_header(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one header row: the different texts above each column, from top to bottom."""
    return [
        " ".join(dict.fromkeys(cell for cell in column if cell))
        for column in zip_longest(*rows, fillvalue="")
    ]


class TableGrid:
    """Rows of cells in which merged cells are repeated, so that columns never shift."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self._spans: dict[int, tuple[int, str]] = {}
        """Cells of earlier rows by column, with the number of rows they still cover."""
        self._chars = 0

    def add_row(self, cells: Iterable[tuple[str, int, int]]) -> None:
        """Add a row of cells: text, columns and rows covered (0 rows: all that follow)."""
        row: list[str] = []
        spans: dict[int, tuple[int, str]] = {}
        for cell, columns, height in cells:
            text = MergedText(cell) if columns > 1 or height != 1 else cell
            self._copy_spans(row, spans)
            for _ in range(columns):
                if height != 1:
                    spans[len(row)] = (height - 1, text)
                self._append(row, text)
        self._copy_spans(row, spans)
        self._copy_late_spans(row, spans)
        self._spans = spans
        self.rows.append(row)

    def _copy_spans(self, row: list[str], spans: dict[int, tuple[int, str]]) -> None:
        while (found := self._spans.get(len(row))) is not None:
            self._copy(row, spans, found)

    def _copy_late_spans(self, row: list[str], spans: dict[int, tuple[int, str]]) -> None:
        for column in sorted(self._spans):
            if column >= len(row):
                row.extend([""] * (column - len(row)))
                self._copy(row, spans, self._spans[column])

    def _copy(
        self, row: list[str], spans: dict[int, tuple[int, str]], span: tuple[int, str]
    ) -> None:
        left, text = span
        if left != 1:
            spans[len(row)] = (left - 1, text)
        self._append(row, text)

    def _append(self, row: list[str], text: str) -> None:
        self._chars += len(text) + 3
        if self._chars > MAX_TABLE_CHARS:
            raise ImportFailed("has a table with too many merged cells: cut it into parts")
        row.append(text)

    def end_row_group(self) -> None:
        """End the merged cells, which do not reach beyond a thead, tbody or tfoot."""
        self._spans = {}
