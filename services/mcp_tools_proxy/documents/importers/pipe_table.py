"""Writes tables as Markdown pipe tables: one line per row, the header first."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, zip_longest

from mcp_tools_proxy.documents.importers.base import MAX_ROW_BYTES, PAGE_BYTES, ImportFailed
from mcp_tools_proxy.documents.visible_text import MARKDOWN, visible_text, whole_lines
from mcp_tools_proxy.wire.text import cut_utf8, utf8_len

MAX_TABLE_CHARS = 64 * 1024 * 1024
"""Limit for a table with its repeated cells: 100 kB of HTML can state a billion cells."""

_MAX_COLUMNS = MAX_ROW_BYTES - len("|\n" * 3)
_BARS = len("|  | --- |  ")
"""Bytes that a cell and its name take in addition."""

_MAX_KEY_BYTES = 300
"""First cell, with its name, that each part of a cut row repeats."""

_CELL = re.compile(r"((?:\\.|[^|\\])*+)(?:\||$)", re.DOTALL)
_CONTAINER = re.compile(r"[ \t>]|[-*+][ \t]|\d+[.)][ \t]")
"""Starts a quotation, a list or an indented text."""


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

    A row that is larger than that is alone in its table; over MAX_ROW_BYTES, it is cut between
    cells. Names over half a page are repeated only above a larger row.
    """
    return _cut(table_row(header), table_rule(len(header)), map(table_row, rows), above)


def cut_table(lines: Sequence[str]) -> str:
    """Return the lines of a table cut as ``table_pages`` does, with empty lines between."""
    return "\n".join(_cut(lines[0], lines[1], lines[2:], "")).rstrip("\n")


def cut_tables(text: str) -> str:
    """Cut the tables of a Markdown text that are larger than a page."""
    if "|" not in text or len(text) <= PAGE_BYTES // 4:
        return text
    visible = visible_text(text, text_format=MARKDOWN)
    parts: list[str] = []
    done = 0
    for table in visible.tables:
        start, end = whole_lines(text, visible.start_of(table.start), visible.end_of(table.end))
        is_large = (end - start) * 4 > PAGE_BYTES and utf8_len(text[start:end]) > PAGE_BYTES
        if is_large and table.has_header and not _CONTAINER.match(text, start):
            parts += (text[done:start], cut_table(text[start:end].split("\n")))
            done = end
    return "".join((*parts, text[done:]))


def _cut(names: str, rule: str, rows: Iterable[str], above: str) -> Iterator[str]:
    first = f"{names}\n{rule}\n"
    if utf8_len(first) <= MAX_ROW_BYTES:
        yield from _row_pages(names, first, rows, above + first)
        return
    for part in _row_parts("", names):
        yield above + part
        above = ""
    yield from _row_pages("", "", rows, "")


def _row_pages(names: str, first: str, rows: Iterable[str], page: str) -> Iterator[str]:
    first_bytes, size, has_rows = utf8_len(first), utf8_len(page), False
    for line in rows:
        row = f"{line}\n"
        row_bytes = utf8_len(row)
        is_named = first_bytes <= max(PAGE_BYTES // 2, min(row_bytes, MAX_ROW_BYTES))
        if has_rows and size + row_bytes > PAGE_BYTES:
            yield page
            page = ""
        if not page:
            page, size, has_rows = (first, first_bytes, False) if is_named else ("", 0, False)
        if row_bytes + (first_bytes if is_named else 0) <= MAX_ROW_BYTES:
            page, size, has_rows = page + row, size + row_bytes, True
            continue
        above = page.removesuffix(first) if is_named else page
        for part in _row_parts(names if is_named else "", line):
            yield above + part
            page = above = ""
        has_rows = False
    if page:
        yield page


def _row_parts(names: str, row: str) -> Iterator[str]:
    """Yield a row as tables of at most MAX_ROW_BYTES, each with the names of its columns.

    Each begins with the first cell of the row unless that is long. A larger cell is cut between
    words.
    """
    cells = _cells(row)
    while len(cells) > 1 and not cells[-1]:
        cells.pop()
    columns = [cut_utf8(name, MAX_ROW_BYTES // 2) for name in _cells(names)]
    columns += [""] * (len(cells) - len(columns))
    key = [(columns[0], cells[0])] if cells[0] else []
    key_bytes = sum(utf8_len("".join(it)) + _BARS for it in key)
    if key_bytes > _MAX_KEY_BYTES:
        key, key_bytes = [], 0
    shown: list[tuple[str, str]] = []
    size = 0
    for at, (column, cell) in enumerate(zip(columns, cells, strict=False)):
        most = _MAX_COLUMNS - (key_bytes if at else 0) - utf8_len(column) - _BARS
        for piece in _pieces(cell, most, size):
            piece_bytes = utf8_len(column) + utf8_len(piece) + _BARS
            if shown and size + piece_bytes > _MAX_COLUMNS:
                yield _small_table(shown, has_names=bool(names))
                shown, size = list(key), key_bytes
            shown.append((column, piece))
            size += piece_bytes
    yield _small_table(shown, has_names=bool(names))


def _small_table(columns: Sequence[tuple[str, str]], *, has_names: bool) -> str:
    names, cells = (f"| {' | '.join(row)} |\n" for row in zip(*columns, strict=True))
    return f"{names}{table_rule(len(columns))}\n{cells}" if has_names else cells


def _cells(line: str) -> list[str]:
    """Return the cells of a row as they are written."""
    *cells, _ = _CELL.findall(line.strip().removeprefix("|"))
    return list(map(str.strip, cells))


def _pieces(cell: str, most: int, used: int) -> Iterator[str]:
    """Yield a cell in pieces of ``most`` bytes, after ``used`` bytes of its part of the row."""
    room, start = most - used if used < most // 2 else most, 0
    while len(cell) - start > most or utf8_len(cell[start:]) > most:
        piece = cut_utf8(cell[start : start + room], room)
        piece = piece[: piece.rfind(" ") + 1] or piece.removesuffix("\\")
        yield piece.strip()
        start, room = start + len(piece), most
    yield cell[start:]


class MergedText(str):
    """The text of a merged cell: each cell that it covers has this object."""

    __slots__ = ()


_MOST_HEADERS = 5


def header_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows with the names of columns, and of groups of columns; at least 1.

    Below the second, a row of names is one of groups only if their cells are merged.
    """
    count = 1
    while count < _MOST_HEADERS and _names_groups(rows[count - 1 :]):
        row = rows[count] if count < len(rows) else ()
        count += 1
        if not any(
            isinstance(cell, MergedText) and cell is beside for cell, beside in pairwise(row)
        ):
            break
    return count


def named_groups(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the rows with the names of groups of columns above each of their columns.

    Without merged cells, a name belongs to the columns up to the next one. It is a name of a group
    if it is above names and numbers, and each name is.
    """
    if len(rows) < 3 or len(rows[0]) != len(rows[1]) or not rows[0] or rows[0][0]:
        return [*rows]
    first, second = rows[:2]
    named = [at for at, cell in enumerate(first) if cell]
    names = [*(first[at] for at in named), *second]
    widths = [end - start for start, end in pairwise([*named, len(first)])]
    if len(named) < 2 or min(widths) < 2 or not all(names) or any(map(_NUMBER.fullmatch, names)):
        return [*rows]
    numbers = (_NUMBER.fullmatch(cell) for row in rows[2:] for cell in row[named[0] :])
    if not any(numbers):
        return [*rows]
    repeated = [
        [MergedText(first[start])] * width for start, width in zip(named, widths, strict=True)
    ]
    return [[*first[: named[0]], *chain.from_iterable(repeated)], *rows[1:]]


def _names_groups(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has the names of groups of columns.

    Each of its cells has the text of the cell beside it, is above an empty one or spans two rows,
    or is empty. Without one that spans two rows, the second row has names, and numbers are below
    them.
    """
    if len(rows) < 3 or len(rows[0]) != len(rows[1]) or not rows[0]:
        return False
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
        return False
    if any(tall):
        return True
    names = [name for at, name in enumerate(second) if wide[at] or not alone[at]]
    has_names = all(names) and not any(map(_NUMBER.fullmatch, names))
    has_numbers = any(
        _NUMBER.fullmatch(row[at]) for row in rows[2:] for at in groups if at < len(row)
    )
    return has_names and has_numbers


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
