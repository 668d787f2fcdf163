"""Collects the rows of a table in RTF, with merged cells repeated."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.pipe_table import MergedText, header_rows


class _Cell(NamedTuple):
    text: str
    merge: str
    right: int
    """Distance of the right edge from the margin, in twips."""


_MOST_COLUMNS = 64
_SAME_EDGE = 30


def _with_merged_cells(rows: Sequence[Sequence[_Cell]]) -> Iterator[list[MergedText]]:
    """Repeat the text of merged cells; programs write a wide one as one cell with a far edge."""
    widest = max(rows, key=len, default=())
    edges = [cell.right for cell in widest[:_MOST_COLUMNS]]
    before: list[MergedText] = []
    for row in rows:
        texts: list[MergedText] = []
        for cell in row:
            text = MergedText(cell.text)
            if cell.merge == "left" and texts:
                text = texts[-1]
            elif cell.merge == "above" and len(texts) < len(before):
                text = before[len(texts)]
            columns = bisect_right(edges, cell.right + _SAME_EDGE) - len(texts)
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
        self._definitions: list[tuple[str, int]] = []
        self._rows: list[list[_Cell]] = []
        self._headers = 0
        """The number of rows at the start of the table that are its header."""

    def start_row(self) -> None:
        """Start the definitions of a row."""
        self._definitions, self.merge, self.is_header = [], "", False

    def define_cell(self, right: int) -> None:
        """Add a cell with its right edge."""
        self._definitions.append((self.merge, right))
        self.merge = ""

    def end_row(self) -> None:
        """Add the texts of a row."""
        while 0 < len(self._definitions) < len(self.cells) and not self.cells[-1].strip():
            self.cells.pop()  # LibreOffice writes more cells after a list in the last one
        missing = [("", 0)] * (len(self.cells) - len(self._definitions))
        definitions = [*self._definitions, *missing]
        row = [_Cell(text, *it) for text, it in zip(self.cells, definitions, strict=False)]
        if row:
            self._headers += self.is_header and self._headers == len(self._rows)
            self._rows.append(row)
        self.cells = []

    def pop_html(self) -> list[str]:
        """Return the lines of the table, and start another one."""
        rows = list(_with_merged_cells(self._rows))
        headers = max(self._headers, header_rows(rows))
        self._rows, self._headers = [], 0
        lines: list[str] = []
        for number, row in enumerate(rows):
            tag = "th" if number < headers else "td"
            cells = "".join(f"<{tag}>{cell}</{tag}>" for cell in row)
            start = "" if number else "<table>"
            lines.append(f"{start}<tr>{cells}</tr>")
        return [*lines, "</table>"] if lines else []
