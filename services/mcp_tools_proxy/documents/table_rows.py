"""Rows of tables in a visible text, with the names of their columns."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from operator import attrgetter

from mcp_tools_proxy.documents.visible_text import CELL_JOINT, Table, VisibleText

Span = tuple[int, int]
"""Start and end (exclusive) in a text, in characters."""

JOINT = " | "
"""Joins the cells of a shown row, and column names."""

_TITLE_ROWS = 3
"""First rows of a table that can be its title, repeated in all columns."""


def table_at(page: VisibleText, place: int) -> Table | None:
    """Return the table at a position of the visible text."""
    return next(tables_in(page, place, place + 1), None)


def tables_in(page: VisibleText, start: int, end: int) -> Iterator[Table]:
    """Yield the tables that overlap a part of the visible text."""
    first = bisect_right(page.tables, start, key=attrgetter("end"))
    return takewhile(lambda table: table.start < end, islice(page.tables, first, None))


def rows_of(page: VisibleText, table: Table, place: int = 0) -> Iterator[Span]:
    """Yield the rows of a table that are not empty, from the one at a position on."""
    start = max(table.start, page.text.rfind("\n", table.start, max(place, table.start)) + 1)
    while start < table.end:
        end = page.text.find("\n", start, table.end)
        end = table.end if end < 0 else end
        if end > start and not page.text[start:end].isspace():
            yield start, end
        start = end + 1


def column_names(page: VisibleText, table: Table) -> tuple[Sequence[str], int]:
    """Return the names of the columns, and the end of the row that has them.

    A title that is repeated in all columns is not a name. Without a header there are no names.
    """
    if not table.has_header:
        return (), table.start
    rows = list(islice(rows_of(page, table), _TITLE_ROWS))
    for start, end in rows:
        names = cells_of(page, start, end)
        if len(set(filter(None, names))) > 1 or len(names) == 1:
            return names, end
    return (), rows[0][1] if rows else table.start


def cells_of(page: VisibleText, start: int, end: int) -> Sequence[str]:
    """Return the cells of a row, each on one line."""
    return [" ".join(cell.split()) for cell in page.text[start:end].split(CELL_JOINT)]


def columns_before(page: VisibleText, place: int) -> str:
    """Return the names of the columns from a position after the header of a table on, or ""."""
    table = table_at(page, place)
    if table is None:
        return ""
    names, end = column_names(page, table)
    return JOINT.join(names[column_at(page, table, place) :]) if place > end else ""


def column_at(page: VisibleText, table: Table, place: int) -> int:
    """Return the index of the column at a position."""
    row = max(table.start, page.text.rfind("\n", table.start, place) + 1)
    return page.text.count(CELL_JOINT, row, place)


def named_cells(names: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Return the cells that are not empty, each with the name of its column."""
    shown = []
    for number, cell in enumerate(cells):
        name = names[number] if number < len(names) else ""
        if cell:
            shown.append(f"{name}: {cell}" if name and name != cell else cell)
    return shown
