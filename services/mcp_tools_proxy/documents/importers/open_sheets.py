"""Imports OpenDocument sheets (ODS) as tables."""

from collections.abc import Iterable, Mapping, Set
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions, hidden_letters
from mcp_tools_proxy.documents.importers.cell_comments import CellComment
from mcp_tools_proxy.documents.importers.cell_styles import SAME_COLOUR
from mcp_tools_proxy.documents.importers.css_colours import WHITE, is_same, parse_colour
from mcp_tools_proxy.documents.importers.open_document import (
    MAX_ODF_TOKENS,
    MAX_REPEATED,
    ODF_PARTS,
    ODF_PREFIXES,
    comment_of,
    plain_text,
    repeat_count,
)
from mcp_tools_proxy.documents.importers.pipe_table import MergedText
from mcp_tools_proxy.documents.importers.spreadsheets import Rows, ShownSheet, document_of_sheets
from mcp_tools_proxy.documents.importers.workbook_looks import MAX_CELLS
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive
from mcp_tools_proxy.domain.document import Document

_MAX_COLUMNS = 16_384
_MOST_ROWS = 1_048_576
_MOST_PARENTS = 10


def import_ods(data: bytes, options: ImportOptions) -> Document:
    """Build a document from OpenDocument sheets, as they are shown. Raises ImportFailed."""
    archive = XmlArchive(data, ".ods", xml=ODF_PARTS, max_tokens=MAX_ODF_TOKENS)
    root = archive.parse("content.xml", ODF_PREFIXES)
    if root is None:
        raise ImportFailed("does not contain a table: save it again as .ods")
    hidden_styles = {
        style.get("style:name")
        for style in root.iter("style:style")
        if any(it.get("table:display") == "false" for it in style)
    }
    styles = archive.parse("styles.xml", ODF_PREFIXES)
    unseen = _unseen_styles([root] if styles is None else [styles, root])
    tables = (
        _OpenSheet(table, options, unseen, is_hidden=table.get("table:style-name") in hidden_styles)
        for table in root.iter("table:table")
    )
    return document_of_sheets((it.shown() for it in tables), options)


def _unseen_styles(roots: Iterable[Element]) -> set[str]:
    """Return the names of cell styles whose text has the colour of its background."""
    styles = {
        style.get("style:name", ""): style
        for root in roots
        for style in root.iter("style:style")
        if style.get("style:family") == "table-cell"
    }
    return {name for name in styles if _is_unseen(name, styles)}


def _is_unseen(name: str, styles: Mapping[str, Element]) -> bool:
    found: dict[str, str] = {}
    for _ in range(_MOST_PARENTS):
        style = styles.get(name)
        for properties in () if style is None else style:
            for key in ("style:use-window-font-color", "fo:color", "fo:background-color"):
                if value := properties.get(key):
                    found.setdefault(key, value)
        name = "" if style is None else style.get("style:parent-style-name", "")
    if found.get("style:use-window-font-color") == "true" or "fo:color" not in found:
        return False
    ground = parse_colour(found.get("fo:background-color", "transparent").lower(), WHITE)
    colour = parse_colour(found["fo:color"].lower(), WHITE)
    return colour is not None and ground is not None and is_same(colour, ground, SAME_COLOUR)


class _OpenSheet:
    """Reads the visible cells of a sheet, and the comments on them."""

    def __init__(
        self, table: Element, options: ImportOptions, unseen: Set[str], *, is_hidden: bool
    ) -> None:
        self._table = table
        self._options = options
        self._unseen_styles = unseen
        self._is_hidden = is_hidden
        self._hidden_columns = self._find_hidden_columns(table)
        self._rows: Rows = []
        self._row = 0
        """The number of the row in the program, whose empty rows are repeated."""
        self._comments: list[str] = []
        self._hidden_chars = self._empty_formulas = 0
        self._spans: dict[int, tuple[int, str]] = {}
        self._cells = 0

    def shown(self) -> ShownSheet:
        """Return the sheet. Raises ImportFailed."""
        for row in self._table.iter("table:table-row"):
            self._add(row)
            self._row += repeat_count(row, "rows", _MOST_ROWS)
        return ShownSheet(
            name=self._table.get("table:name", ""),
            rows=self._rows,
            comments=self._comments,
            empty_formulas=self._empty_formulas,
            hidden_chars=self._hidden_chars,
        )

    def _find_hidden_columns(self, table: Element) -> set[int]:
        hidden: set[int] = set()
        at = 0
        for column in table.iter("table:table-column"):
            count = repeat_count(column, "columns", _MAX_COLUMNS)
            if _is_collapsed(column):
                hidden.update(range(at, min(at + count, _MAX_COLUMNS)))
            at += count
        return hidden

    def _add(self, row: Element) -> None:
        cells = self._cells_of(row, is_hidden=self._is_hidden or _is_collapsed(row))
        if self._is_hidden or _is_collapsed(row):
            self._hidden_chars += hidden_letters(cells)
            return
        shown = [cell for at, cell in enumerate(cells) if at not in self._hidden_columns]
        self._hidden_chars += hidden_letters(cells) - hidden_letters(shown)
        count = repeat_count(row, "rows", MAX_REPEATED) if any(shown) else 1
        self._cells += len(shown) * count
        if self._cells > MAX_CELLS:
            raise ImportFailed(f"has a sheet of more than {MAX_CELLS} cells: cut it into parts")
        self._rows += [shown] * count

    def _cells_of(self, row: Element, *, is_hidden: bool) -> list[str]:
        cells: list[str] = []
        for cell in row:
            if cell.tag not in ("table:table-cell", "table:covered-table-cell"):
                continue
            text = _cell_text(cell)
            if text and not is_hidden and self._is_unseen(cell):
                self._hidden_chars += hidden_letters([text])
                text = ""
            count = repeat_count(cell, "columns", MAX_REPEATED if text else _MAX_COLUMNS)
            is_cell_hidden = is_hidden or len(cells) in self._hidden_columns
            self._add_comments(cell, len(cells), is_hidden=is_cell_hidden)
            if text is None and cell.get("table:formula") and not is_cell_hidden:
                self._empty_formulas += count * repeat_count(row, "rows", _MOST_ROWS)
            for _ in range(min(count, _MAX_COLUMNS - len(cells))):
                cells.append(self._merged(len(cells), text or "", cell))
        return cells

    def _is_unseen(self, cell: Element) -> bool:
        """Return whether a cell hides its text, which has no parts in another colour."""
        return (
            cell.get("table:style-name") in self._unseen_styles
            and next(cell.iter("text:span"), None) is None
        )

    def _add_comments(self, cell: Element, column: int, *, is_hidden: bool) -> None:
        found = (it for it in cell if it.tag == "office:annotation")
        for element in found if self._options.with_notes else ():
            author, text = comment_of(element)
            if is_hidden:
                self._hidden_chars += hidden_letters([text])
            else:
                self._comments.append(CellComment(self._row, column, author, text).marked_text)

    def _merged(self, column: int, text: str, cell: Element) -> str:
        """Return the text of a cell, or of the merged cell that covers it."""
        left, above = self._spans.pop(column, (0, ""))
        if left > 1:
            self._spans[column] = (left - 1, above)
        if cell.tag == "table:covered-table-cell":
            return above or text
        height, width = (
            min(int(value), _MAX_COLUMNS) if (value := cell.get(name, "1")).isdigit() else 1
            for name in ("table:number-rows-spanned", "table:number-columns-spanned")
        )
        if width * height > 1:
            text = MergedText(text)
        for at in range(column, column + width if width * height > 1 else column):
            # in its own row, a cell to the right is covered as well
            self._spans[at] = (height - (at == column), text)
        if height == 1:
            self._spans.pop(column, None)
        return text


def _cell_text(cell: Element) -> str | None:
    """Return the text of a cell, or its value if programs wrote no text; None without both."""
    paragraphs = [plain_text(it) for it in cell if it.tag == "text:p"]
    values = (cell.get(f"office:{it}value") for it in ("string-", "date-", "time-", "boolean-", ""))
    return (
        " ".join(" ".join(paragraphs).split())
        if paragraphs
        else next((it for it in values if it is not None), None)
    )


def _is_collapsed(element: Element) -> bool:
    return element.get("table:visibility", "visible") in ("collapse", "filter")
