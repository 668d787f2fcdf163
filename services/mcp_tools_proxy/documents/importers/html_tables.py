"""Reads HTML tables as rows of text, with merged cells repeated."""

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.pipe_table import TableGrid, header_rows, merged_header
from mcp_tools_proxy.domain.fast_dataclass import dataclass

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_COLUMNS_SPANNED = 1000
MAX_ROWS_SPANNED = 65_534
"""Limits of the HTML standard."""

_MOST_LETTERS = 500
_MOST_NODES = 500
"""Content of a cell with a table in it; cells that arrange a page have more."""

_HEADINGS = frozenset({f"h{level}" for level in range(1, 7)})
_PAGE_PARTS = "table, h1, h2, h3, h4, h5, h6"

_GROUPS = frozenset({"thead", "tbody", "tfoot"})

_CellText = Callable[["LexborNode", "list[LexborNode]"], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlTable:
    """A table: the texts above it, and its rows, the header first."""

    caption: str
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class _TableRow:
    node: "LexborNode"
    group: "LexborNode"
    cells: "list[LexborNode]"


def is_layout(table: "LexborNode") -> bool:
    """Return whether a table arranges a page: it is read as text.

    It says so, or it has one cell, or it has no header and contains headings, or tables in at least
    half of its cells, in a long one, or in one row or column.
    """
    if (table.attributes.get("role") or "").lower() in {"presentation", "none"}:
        return True
    rows = list(_rows(table))
    cells = [cell for row in rows for cell in row.cells]
    if len(cells) <= 1:
        return True
    if any(cell.tag == "th" for cell in cells) or _child(table, "caption") is not None:
        return False
    found = [cell.css_first(_PAGE_PARTS) for cell in cells]
    if any(it is not None and it.tag != "table" for it in found):
        return True
    nested = [cell for cell, it in zip(cells, found, strict=True) if it is not None]
    return bool(nested) and (
        sum(len(row.cells) > 1 for row in rows) < 2
        or len(nested) * 2 >= sum(cell.first_child is not None for cell in cells)
        or any(map(_arranges_page, nested))
    )


def _arranges_page(cell: "LexborNode") -> bool:
    """Return whether a cell with a table has a heading or much text; reads only its start."""
    letters = 0
    for number, node in enumerate(cell.traverse(include_text=True)):
        if node.is_text_node:
            letters += len((node.text_content or "").strip())
        if letters > _MOST_LETTERS or number > _MOST_NODES or node.tag in _HEADINGS:
            return True
    return False


def read_table(table: "LexborNode", cell_text: _CellText) -> HtmlTable:
    """Read a table; ``cell_text`` returns the text of a cell below its row and row group."""
    grid = TableGrid()
    rows = list(_rows(table))
    above: list[str] = []
    if (caption := _child(table, "caption")) is not None:
        above.append(cell_text(caption, []))
    group = None
    kept: list[_TableRow] = []
    filled: list[int] = []
    """Rows with text of their own."""
    for row in rows:
        if group is not None and row.group.mem_id != group.mem_id:
            grid.end_row_group()
        group = row.group
        cells = [(cell_text(cell, [row.group, row.node]), *_spans(cell)) for cell in row.cells]
        if any(text for text, _, _ in cells):
            filled.append(len(kept))
        grid.add_row(cells)
        kept.append(row)
    kept, texts = [kept[at] for at in filled], [grid.rows[at] for at in filled]
    while len(texts) > 1 and _is_title(kept[0], texts):
        above.append(texts.pop(0)[0])
        kept.pop(0)
    return HtmlTable(caption=" ".join(" ".join(above).split()), rows=_with_header(kept, texts))


def _is_title(row: _TableRow, texts: list[list[str]]) -> bool:
    """Return whether the first row is one cell above all columns of a wider table."""
    return len(row.cells) == 1 and len(texts[0]) > 1 and len(texts[0]) == max(map(len, texts))


def _with_header(rows: list[_TableRow], texts: list[list[str]]) -> list[list[str]]:
    """Return the rows with one header row, which is empty if the first column has the names."""
    heads = list(takewhile(lambda row: row.group.tag == "thead", rows))
    if not heads:
        heads = list(takewhile(lambda row: all(cell.tag == "th" for cell in row.cells), rows))
    if len(heads) == len(rows):
        heads = heads[:1]
    count = max(len(heads), header_rows(texts))
    if count > 1:
        return [merged_header(texts[:count]), *texts[count:]]
    if not heads and len(rows) > 1 and all(_names_itself(row) for row in rows):
        return [[], *texts]
    return texts


def _names_itself(row: _TableRow) -> bool:
    tags = [cell.tag for cell in row.cells]
    return tags[0] == "th" and "td" in tags


def _rows(table: "LexborNode") -> Iterator[_TableRow]:
    """Yield the rows in reading order: tfoot is last in browsers, also if it is written first."""
    feet: list[_TableRow] = []
    for group in _children(table):
        if group.tag in _GROUPS:
            for row in _children(group):
                if row.tag == "tr":
                    found = _TableRow(row, group, _cells(row))
                    if group.tag == "tfoot":
                        feet.append(found)
                    else:
                        yield found
        elif group.tag == "tr":
            yield _TableRow(group, table, _cells(group))
    yield from feet


def _cells(row: "LexborNode") -> "list[LexborNode]":
    return [cell for cell in _children(row) if cell.tag in {"td", "th"}]


def _children(node: "LexborNode") -> "Iterator[LexborNode]":
    child = node.first_child
    while child is not None:
        if child.is_element_node:
            yield child
        child = child.next


def _child(node: "LexborNode", tag: str) -> "LexborNode | None":
    return next((child for child in _children(node) if child.tag == tag), None)


def _spans(cell: "LexborNode") -> tuple[int, int]:
    attributes = cell.attributes
    columns = _span(attributes.get("colspan"), MAX_COLUMNS_SPANNED)
    return max(columns, 1), _span(attributes.get("rowspan"), MAX_ROWS_SPANNED)


def _span(value: str | None, most: int) -> int:
    digits = "".join(takewhile(str.isdigit, (value or "").strip()))
    return min(int(digits[:9]), most) if digits.isascii() and digits else 1
