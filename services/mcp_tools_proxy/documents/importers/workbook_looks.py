"""How workbooks are shown: number formats, hidden rows and columns, comments.

Reads from XLSX what calamine leaves out: these, errors in cells, and formulas without values.
"""

import datetime
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import ImportFailed, one_line
from mcp_tools_proxy.documents.importers.cell_comments import (
    COMMENT_PARTS,
    CellComment,
    cell_place,
    commenters,
    comments_of_sheet,
)
from mcp_tools_proxy.documents.importers.cell_styles import (
    InvisibleStyles,
    RichText,
    inline_rich_text,
    invisible_styles,
    shared_rich_texts,
)
from mcp_tools_proxy.documents.importers.number_formats import hides_values
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive
from mcp_tools_proxy.domain.fast_dataclass import dataclass

CellValue = (
    int
    | float
    | str
    | bool
    | datetime.time
    | datetime.date
    | datetime.datetime
    | datetime.timedelta
)

DAMAGED = "is not a readable spreadsheet: it is damaged or has a password; save it again as .xlsx"
PROTECTED = "has a password: save it without one"

MAX_CELLS = 8_000_000
"""Area of a sheet, each of whose cells takes 40 bytes, also an empty one."""

MAX_ALL_CELLS = 4 * MAX_CELLS
"""Area of all sheets: 60 sheets with a cell far from the first, in 18 kB, took 120 s."""

_BUILT_IN: Mapping[int, str] = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    12: "# ?/?",
    13: "# ??/??",
    **dict.fromkeys((37, 38), "#,##0;(#,##0)"),
    **dict.fromkeys((39, 40), "#,##0.00;(#,##0.00)"),
    41: "#,##0",
    43: "#,##0.00",
}
"""Formats that files name by number only."""

_PREFIXES = {
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "s",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "s",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships": "r",
    "http://purl.oclc.org/ooxml/officeDocument/relationships": "r",
    "http://schemas.openxmlformats.org/package/2006/relationships": "p",
}

# a parser would need a minute for a sheet that calamine reads in a second
_TAG = re.compile(rb"<(?:\w+:)?(row|col|c)\b([^<>]*)>")
_ATTRIBUTE = re.compile(rb"\b(r|s|t|min|max|hidden|ht|width)\s*=\s*[\"']([^\"']*)[\"']")
_ERROR = re.compile(
    rb"\s*(?:<(?:\w+:)?f\b[^<>]*>(?:[^<]*</(?:\w+:)?f>\s*)?)?"
    rb"<(?:\w+:)?v\b[^<>]*>\s*(#[\w/!?]{1,30})"
)
"""The value of a cell, after its formula."""
_INDEX = re.compile(rb"\s*<(?:\w+:)?v>(\d{1,8})<")
"""The number of a shared text."""
_FORMULA = re.compile(
    rb"\s*<(?:\w+:)?f\b(?:[^<>]*/>|[^<>]*>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?P<stored><(?:\w+:)?v\b(?:[^<>]*/>|[^<>]*>(?P<value>[^<]*)</(?:\w+:)?v>)\s*)?</(?:\w+:)?c>"
)
"""The rest of a cell with a formula."""
_OTHER_GROUND = re.compile(rb"<(?:\w+:)?(?:tablePart|picture)\b")
"""Tables with a style of their own, and pictures behind a sheet."""
_MAX_FORMAT_CHARS = 255
"""Excel's limit. Longer formats, read for each cell, could take minutes."""

_TOO_LONG = " " * 256
_MOST_COLUMNS = 16_384
_XLSX_WRITER = "124519"
"""The engine that XlsxWriter names; Excel removes the order to compute when it saves."""
_PARTS = ("*workbook.xml", "*.rels", "*styles.xml", "*core.xml", *COMMENT_PARTS)
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_MAX_TOKENS = 5_000_000
"""Workbooks of many years have 60,000 styles."""


@dataclass(slots=True)
class SheetLook:
    """How a sheet is shown; rows and columns count from 0."""

    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)
    formats: dict[tuple[int, int], str] = field(default_factory=dict)
    """Number formats by row and column."""
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    """Texts that replace values, such as the error #DIV/0!, by row and column."""
    unseen: set[tuple[int, int]] = field(default_factory=set)
    """The rows and columns of cells whose colours or number formats hide their values."""
    empty_formulas: set[tuple[int, int]] = field(default_factory=set)
    """The rows and columns of formulas whose values are not in the file."""
    zero_formulas: set[tuple[int, int]] = field(default_factory=set)
    has_results: bool = False
    """Whether a formula has another value than 0."""
    comments: Sequence[CellComment] = ()
    rows: int = 0
    columns: int = 0
    """The size of the area with cells."""

    def is_hidden(self, row: int, column: int) -> bool:
        """Return whether a cell is in a hidden row or column."""
        return row in self.hidden_rows or column in self.hidden_columns

    def check_size(self) -> None:
        """Raise ImportFailed if the area with cells is too large."""
        if self.rows * self.columns > MAX_CELLS:
            raise ImportFailed(
                f"has a sheet of {self.rows} rows and {self.columns} columns: delete the cells far "
                "from the table"
            )


class WorkbookSheet(NamedTuple):
    """A sheet with the values of its cells from row 0 and ``first_column`` on.

    A merged range is the row and column of its first and of its last cell.
    """

    name: str
    is_visible: bool
    look: SheetLook
    values: Iterable[Sequence[CellValue]]
    merged: Sequence[tuple[tuple[int, int], tuple[int, int]]]
    first_column: int = 0


class WorkbookLook(NamedTuple):
    """The title in a workbook's properties, and the looks of its sheets by name."""

    title: str
    sheets: Mapping[str, SheetLook]


def workbook_look(data: bytes) -> WorkbookLook:
    """Return how an XLSX file is shown. Raises ImportFailed."""
    archive = XmlArchive(data, ".xlsx", xml=_PARTS, max_tokens=_MAX_TOKENS)
    titles = (it.text or "" for it in _elements(archive, "docProps/core.xml", _TITLE))
    return WorkbookLook(own_title(one_line(next(titles, ""))), _sheet_looks(archive))


def _sheet_looks(archive: XmlArchive) -> Mapping[str, SheetLook]:
    targets = {
        it.get("Id"): it.get("Target", "")
        for it in _elements(archive, "xl/_rels/workbook.xml.rels", "p:Relationship")
    }
    styles = _cell_styles(archive)
    texts = shared_rich_texts(archive.read("xl/sharedStrings.xml"))
    people = commenters(archive)
    looks: dict[str, SheetLook] = {}
    read: set[str] = set()
    for sheet in _elements(archive, "xl/workbook.xml", "s:sheet"):
        target = targets.get(sheet.get("r:id"), "")
        part = target[1:] if target.startswith("/") else f"xl/{target}"
        look = looks[sheet.get("name", "")] = _LookReader(archive.read(part), styles, texts).read()
        look.check_size()
        look.comments = comments_of_sheet(archive, part, people, read)
    if sum(it.rows * it.columns for it in looks.values()) > MAX_ALL_CELLS:
        raise ImportFailed(
            "has sheets with cells far from their tables: delete these, or cut the workbook into "
            "parts"
        )
    _drop_placeholders(archive, looks.values())
    return looks


def _elements(archive: XmlArchive, part: str, tag: str) -> Iterator[Element]:
    root = archive.parse(part, _PREFIXES)
    return iter(()) if root is None else root.iter(tag)


class _CellStyles(NamedTuple):
    """The number formats by the number of a cell's style, and the styles that show no text."""

    formats: Mapping[bytes, str] = {}
    invisible: InvisibleStyles = InvisibleStyles()


def _cell_styles(archive: XmlArchive) -> _CellStyles:
    root = archive.parse("xl/styles.xml", _PREFIXES)
    if root is None:
        return _CellStyles()
    own = {
        _number(it.get("numFmtId", "").encode(), -1): it.get("formatCode", "")
        for it in root.iter("s:numFmt")
    }
    styles = (xf for styles in root if styles.tag == "s:cellXfs" for xf in styles)
    formats = formats_by_style(own, (_number(it.get("numFmtId", "").encode(), -1) for it in styles))
    theme = archive.read("xl/theme/theme1.xml").decode("utf-8", "replace")
    return _CellStyles(
        {str(style).encode(): code for style, code in formats.items()},
        invisible_styles(root, theme),
    )


def formats_by_style(own: Mapping[int, str], styles: Iterable[int]) -> Mapping[int, str]:
    """Return the number formats by the number of the style.

    ``own`` are the formats that the file spells out, ``styles`` the number of each style's format.
    """
    codes = {**_BUILT_IN, **own}
    return {
        style: codes[number]
        for style, number in enumerate(styles)
        if len(codes.get(number, _TOO_LONG)) <= _MAX_FORMAT_CHARS
    }


class _LookReader:
    """Reads the look of a sheet once, from its start to its end."""

    def __init__(
        self, sheet: bytes, styles: _CellStyles, shared_texts: Mapping[bytes, RichText]
    ) -> None:
        self.look = SheetLook()
        self._sheet = sheet
        self._formats = styles.formats
        unseen = styles.invisible.on_fill
        if not _OTHER_GROUND.search(sheet):
            unseen |= styles.invisible.on_sheet
        self._unseen_styles = {str(style).encode() for style in unseen}
        self._shared_texts = shared_texts
        self._has_inline = bool(unseen) or b"vertAlign" in sheet

    def read(self) -> SheetLook:
        """Return the look."""
        look = self.look
        hidden = bytearray(_MOST_COLUMNS)  # 66 kB name them 200,000 times
        row = column = -1
        for tag in _TAG.finditer(self._sheet):
            given = dict(_ATTRIBUTE.findall(tag[2]))
            is_hidden = given.get(b"hidden") in (b"1", b"true") or _is_thin(given)
            if tag[1] == b"col" and is_hidden:
                first, last = _number(given.get(b"min")), _number(given.get(b"max"))
                if (count := min(last, _MOST_COLUMNS) - first + 1) > 0 < first:
                    hidden[first - 1 : first - 1 + count] = b"\1" * count
            elif tag[1] == b"row":
                row, column = _number(given.get(b"r"), row + 2) - 1, -1
                if is_hidden:
                    look.hidden_rows.add(row)
            elif tag[1] == b"c":
                row, column = cell_place(given.get(b"r", b""), row, column + 1)
                if not tag[2].endswith(b"/"):
                    self._add_cell((row, column), given, tag.end())
        look.hidden_columns.update(it for it, is_hidden in enumerate(hidden) if is_hidden)
        return look

    def _add_cell(self, place: tuple[int, int], given: Mapping[bytes, bytes], start: int) -> None:
        look, (row, column) = self.look, place
        look.rows, look.columns = max(look.rows, row + 1), max(look.columns, column + 1)
        style, kind = given.get(b"s", b""), given.get(b"t", b"n")
        if code := self._formats.get(style):
            look.formats[place] = code
            if hides_values(code, are_numbers=kind == b"n"):
                look.unseen.add(place)
        rich = self._rich_text(kind, start)
        if rich is not None and rich.text is not None:
            look.texts[place] = rich.text
        if style in self._unseen_styles and not (rich and rich.is_coloured):
            look.unseen.add(place)
        self._add_content(place, kind, start)

    def _rich_text(self, kind: bytes, start: int) -> RichText | None:
        if kind == b"inlineStr" and self._has_inline:
            return inline_rich_text(self._sheet, start)
        if kind == b"s" and self._shared_texts and (value := _INDEX.match(self._sheet, start)):
            return self._shared_texts.get(value[1])
        return None

    def _add_content(self, place: tuple[int, int], kind: bytes, start: int) -> None:
        look = self.look
        if kind == b"e" and (error := _ERROR.match(self._sheet, start)):
            look.texts[place] = error[1].decode()
        formula = _FORMULA.match(self._sheet, start)
        if formula is None:
            return
        if formula["value"] == b"0" and kind == b"n":
            look.zero_formulas.add(place)
        elif formula["value"] or (kind == b"str" and formula["stored"]):  # also an empty text
            look.has_results = True
        else:
            look.empty_formulas.add(place)


def _drop_placeholders(archive: XmlArchive, looks: Collection[SheetLook]) -> None:
    """Empty the formulas with the value 0 if programs must compute them first.

    XlsxWriter writes 0 for an unknown value, beside the values that it was given. In files of other
    programs, all formulas have the value 0 if none was computed.
    """
    modes = [
        it
        for it in _elements(archive, "xl/workbook.xml", "s:calcPr")
        if it.get("fullCalcOnLoad") in ("1", "true")
    ]
    is_of_writer = any(it.get("calcId") == _XLSX_WRITER for it in modes)
    if not modes or (not is_of_writer and any(it.has_results for it in looks)):
        return
    for look in looks:
        look.empty_formulas |= look.zero_formulas
        look.texts.update(dict.fromkeys(look.zero_formulas, ""))


def _number(value: bytes | None, default: int = 0) -> int:
    return int(value) if value is not None and value.isdigit() and len(value) < 8 else default


def _is_thin(given: Mapping[bytes, bytes]) -> bool:
    """Return whether a row or column is too thin to show text: under 1 point, or 0.3 characters."""
    for name, least in ((b"ht", 1.0), (b"width", 0.3)):
        with suppress(ValueError):
            if name in given and float(given[name]) < least:
                return True
    return False
