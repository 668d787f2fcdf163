"""Collects the rows of a table in RTF, with merged cells repeated."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.pipe_table import MergedText, header_rows
from mcp_tools_proxy.documents.importers.rtf_looks import UNKNOWN_BACKGROUND, Shading, is_flat


class _Definition(NamedTuple):
    """What a row says of a cell; ``right`` is the distance of its edge from the margin, in twips.

    The shading of a cell that the row does not define is None.
    """

    merge: str = ""
    right: int = 0
    shading: Shading | None = None


class _Cell(NamedTuple):
    text: str
    about: _Definition


class _CellText(MergedText):
    """The text of a cell with its background as CSS."""

    css = ""


_MOST_COLUMNS = 64
_SAME_EDGE = 30


def _text(cell: _Cell, colours: Sequence[str]) -> _CellText:
    text = _CellText(cell.text)
    shading = cell.about.shading
    if shading is None:
        text.css = UNKNOWN_BACKGROUND
    elif colour := shading.colour(colours):
        # letters without a colour are white on dark cells
        text.css = f"color:windowtext;background-color:{colour}"
    return text


def _with_merged_cells(
    rows: Sequence[Sequence[_Cell]], colours: Sequence[str]
) -> Iterator[list[_CellText]]:
    """Repeat the text of merged cells; programs write a wide one as one cell with a far edge."""
    widest = max(rows, key=len, default=())
    edges = [cell.about.right for cell in widest[:_MOST_COLUMNS]]
    before: list[_CellText] = []
    for row in rows:
        texts: list[_CellText] = []
        for cell in row:
            text = _text(cell, colours)
            if cell.about.merge == "left" and texts:
                text = texts[-1]
            elif cell.about.merge == "above" and len(texts) < len(before):
                text = before[len(texts)]
            columns = bisect_right(edges, cell.about.right + _SAME_EDGE) - len(texts)
            texts += [text] * (1 if len(row) == len(widest) else max(1, columns))
        before = texts
        yield texts


class RtfTable:
    """The rows of the current table; a row has definitions of its cells, and their texts."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        """The texts of the current row."""
        self.merge = ""
        """How the next cell is merged: with the cell at its left, or the one above."""
        self.is_header = False
        self.height = 0
        """Of the current row, in twips; a negative one is exact."""
        self._cell_shading = Shading()
        self._row_shading = Shading()
        self._definitions: list[_Definition] = []
        self._rows: list[list[_Cell]] = []
        self._hidden: list[str] = []
        """The texts of rows that are too low to be seen."""
        self._headers = 0
        """The number of rows at the start of the table that are its header."""

    def start_row(self) -> None:
        """Start the definitions of a row."""
        self._definitions, self.merge, self.is_header, self.height = [], "", False, 0
        self._cell_shading = self._row_shading = Shading()

    def shade(self, *, is_row: bool, **changes: int) -> None:
        """Change the shading of the next cell, or that of the row."""
        if is_row:
            self._row_shading = self._row_shading._replace(**changes)
        else:
            self._cell_shading = self._cell_shading._replace(**changes)

    def define_cell(self, right: int) -> None:
        """Add a cell with its right edge."""
        shading = self._row_shading if self._cell_shading == Shading() else self._cell_shading
        self._definitions.append(_Definition(self.merge, right, shading))
        self.merge, self._cell_shading = "", Shading()

    def end_row(self) -> None:
        """Add the texts of a row."""
        while 0 < len(self._definitions) < len(self.cells) and not self.cells[-1].strip():
            self.cells.pop()  # LibreOffice writes more cells after a list in the last one
        missing = [_Definition()] * (len(self.cells) - len(self._definitions))
        definitions = [*self._definitions, *missing]
        row = [_Cell(text, it) for text, it in zip(self.cells, definitions, strict=False)]
        if is_flat(self.height) and not any(it.about.merge == "first" for it in row):
            self._hidden += self.cells
        elif row:
            self._headers += self.is_header and self._headers == len(self._rows)
            self._rows.append(row)
        self.cells = []

    def pop_html(self, colours: Sequence[str]) -> list[str]:
        """Return the lines of the table, and start another one."""
        rows = list(_with_merged_cells(self._rows, colours))
        headers = max(self._headers, header_rows(rows))
        hidden = [f"<div hidden>{it}</div>" for it in self._hidden]
        self._rows, self._headers, self._hidden = [], 0, []
        lines: list[str] = []
        for number, row in enumerate(rows):
            tag = "th" if number < headers else "td"
            cells = "".join(f"<{tag}{_css(cell)}>{cell}</{tag}>" for cell in row)
            start = "" if number else "<table>"
            lines.append(f"{start}<tr>{cells}</tr>")
        return [*lines, "</table>", *hidden] if lines else hidden


_Edit = Callable[[RtfTable, int], None]


def _shading(word: str, name: str) -> _Edit:
    return lambda table, number: table.shade(is_row=word.startswith("tr"), **{name: number})


TABLE_WORDS: Mapping[str, _Edit] = {
    "trowd": lambda table, _: table.start_row(),
    "cellx": lambda table, right: table.define_cell(right),
    "row": lambda table, _: table.end_row(),
    "trhdr": lambda table, _: setattr(table, "is_header", True),
    "trrh": lambda table, number: setattr(table, "height", number),
    "clmrg": lambda table, _: setattr(table, "merge", "left"),
    "clvmgf": lambda table, _: setattr(table, "merge", "first"),
    "clvmrg": lambda table, _: setattr(table, "merge", "above"),
    **{
        f"{start}{word}": _shading(start, name)
        for start in ("cl", "tr")
        for word, name in (("shdng", "percent"), ("cfpat", "pattern"), ("cbpat", "ground"))
    },
}
"""What words change in the table; each function takes the number of a word."""


def _css(cell: _CellText) -> str:
    return f' style="{cell.css}"' if cell.css else ""
