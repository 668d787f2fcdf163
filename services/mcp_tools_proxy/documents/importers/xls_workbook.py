"""Reads XLS workbooks with xlrd (extra formats)."""

import datetime
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO, TextIOBase
from operator import itemgetter
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.base import NO_FORMATS, ImportFailed
from mcp_tools_proxy.documents.importers.cell_comments import CellComment
from mcp_tools_proxy.documents.importers.number_formats import hides_values
from mcp_tools_proxy.documents.importers.workbook_looks import (
    DAMAGED,
    PROTECTED,
    CellValue,
    SheetLook,
    WorkbookSheet,
    formats_by_style,
)

if TYPE_CHECKING:
    from xlrd import Book
    from xlrd.sheet import Sheet

_SHEET_PLACE, _FORMULA = 0x85, 0x06
"""Kinds of records."""
_EMPTY_NUMBER = re.compile(rb".{6}\x03.{5}\xff\xff.{6}(?P<size>..)", re.DOTALL)
"""The head of a formula with an empty text, up to its tokens."""
_GIVES_NUMBER = re.compile(
    rb"(?:[\x03-\x07\x09-\x0e\x13\x14]|\x19\x10..|[\x22\x42\x62].[\0\4\5\6\7\xa9\xb7]\0)\Z",
    re.DOTALL,
)
"""Ends of tokens: an operator but &, SUM of one range, and COUNT, SUM, AVERAGE, MIN, MAX, COUNTA
and PRODUCT."""
_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
"""Formats of durations, such as 25:30 hours."""


class _NoLog(TextIOBase):
    """Takes xlrd's messages, which would otherwise go to stdout and into the import's answer."""

    def write(self, text: str) -> int:
        return len(text)


def xls_sheets(data: bytes) -> Iterator[WorkbookSheet]:
    """Yield the sheets of an XLS file, each read when it is asked for. Raises ImportFailed."""
    try:
        import xlrd  # noqa: PLC0415 - an extra
        from olefile import OleFileIO  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportFailed(NO_FORMATS) from error
    try:
        with OleFileIO(BytesIO(data)) as file:  # xlrd itself refuses files that Excel opens
            name = "Workbook" if file.exists("Workbook") else "Book"
            records = file.openstream(name).read()
        with xlrd.open_workbook(
            file_contents=records,
            logfile=_NoLog(),
            formatting_info=True,
            on_demand=True,
            ragged_rows=True,
        ) as book:
            reader = _SheetReader(book)
            empty = _empty_formulas(records)
            for number in range(book.nsheets):
                sheet = reader.read(book.sheet_by_index(number))
                sheet.look.empty_formulas |= empty.get(number, set())
                yield sheet
                book.unload_sheet(number)
    except (ImportFailed, MemoryError):
        raise
    except Exception as error:  # xlrd's, and AssertionError, KeyError, struct.error and others
        is_encrypted = isinstance(error, xlrd.XLRDError) and "encrypted" in str(error)
        raise ImportFailed(PROTECTED if is_encrypted else DAMAGED) from error


def _empty_formulas(records: bytes) -> Mapping[int, set[tuple[int, int]]]:
    """Return by sheet the formulas that were never computed, as xlwt writes them.

    Their value is an empty text, although the last operation gives a number.
    """
    starts: dict[int, int] = {}
    found: dict[int, set[tuple[int, int]]] = {}
    sheet = at = 0
    while at + 4 <= len(records):
        kind, size = struct.unpack_from("<HH", records, at)
        data = records[at + 4 : at + 4 + size] if kind in (_SHEET_PLACE, _FORMULA) else b""
        if kind == _SHEET_PLACE and len(data) > 5 and data[5] == 0:
            starts[int.from_bytes(data[:4], "little")] = len(starts)
        elif kind == _FORMULA and (match := _EMPTY_NUMBER.match(data)):
            tokens = data[match.end() : match.end() + int.from_bytes(match["size"], "little")]
            if _GIVES_NUMBER.search(tokens):
                place = struct.unpack_from("<HH", data)
                found.setdefault(sheet, set()).add(place)
        sheet = starts.get(at, sheet)
        at += 4 + size
    return found


class _SheetReader:
    """Reads the sheets of a workbook with its formats."""

    def __init__(self, book: "Book") -> None:
        self._date_mode: int = book.datemode
        styles = [style.format_key for style in book.xf_list]
        self._formats: Mapping[int, str] = formats_by_style(
            {it.format_key: it.format_str for it in book.format_list}, styles
        )
        self._elapsed = {
            number
            for number, key in enumerate(styles)
            if _ELAPSED.search(book.format_map[key].format_str)
        }

    def read(self, sheet: "Sheet") -> WorkbookSheet:
        """Return a sheet. Raises ImportFailed."""
        look = SheetLook(
            hidden_rows={row for row, info in sheet.rowinfo_map.items() if info.hidden},
            hidden_columns={column for column, info in sheet.colinfo_map.items() if info.hidden},
            comments=[
                CellComment(row, column, note.author, note.text)
                for (row, column), note in sorted(sheet.cell_note_map.items(), key=itemgetter(0))
            ],
        )
        filled = [self._filled(sheet.row_types(row)) for row in range(sheet.nrows)]
        look.rows = max((row for row, count in enumerate(filled, start=1) if count), default=0)
        look.columns = max(filled, default=0)
        look.check_size()
        return WorkbookSheet(
            name=sheet.name,
            is_visible=sheet.visibility == 0,
            look=look,
            values=[self._row(sheet, row, look) for row in range(look.rows)],
            merged=[
                ((top, left), (below - 1, beyond - 1))
                for top, below, left, beyond in sheet.merged_cells
            ],
        )

    def _filled(self, kinds: Sequence[int]) -> int:
        """Return the number of cells up to the last one with a value."""
        from xlrd import XL_CELL_BLANK, XL_CELL_EMPTY  # noqa: PLC0415 - an extra

        count = len(kinds)
        while count and kinds[count - 1] in (XL_CELL_BLANK, XL_CELL_EMPTY):
            count -= 1
        return count

    def _row(self, sheet: "Sheet", row: int, look: SheetLook) -> list[CellValue]:
        """Return the values of a row, and add its number formats to ``look``."""
        values: list[CellValue] = []
        kinds = sheet.row_types(row)[: look.columns]
        for column, (kind, value) in enumerate(zip(kinds, sheet.row_values(row), strict=False)):
            style = sheet.cell_xf_index(row, column)
            values.append(self._value(kind, value, style))
            if style in self._formats:
                look.formats[row, column] = self._formats[style]
            is_number = isinstance(value, float)
            if hides_values(self._formats.get(style, ""), are_numbers=is_number):
                look.unseen.add((row, column))
        return [*values, *[""] * (look.columns - len(values))]

    def _value(self, kind: int, value: str | float, style: int) -> CellValue:
        from xlrd import (  # noqa: PLC0415 - an extra
            XL_CELL_BOOLEAN,
            XL_CELL_DATE,
            XL_CELL_ERROR,
            error_text_from_code,
        )

        if isinstance(value, str):
            return value
        if kind == XL_CELL_BOOLEAN:
            return bool(value)
        if kind == XL_CELL_ERROR:
            return str(error_text_from_code.get(value, "#ERROR!"))
        if style in self._elapsed or kind == XL_CELL_DATE:
            return self._moment(value, is_elapsed=style in self._elapsed)
        return value

    def _moment(self, value: float, *, is_elapsed: bool) -> CellValue:
        """Return the date, time or duration of a number, or the number if no date has it."""
        from xlrd import xldate_as_datetime  # noqa: PLC0415 - an extra

        try:
            if is_elapsed:
                return datetime.timedelta(days=value)
            moment: datetime.datetime = xldate_as_datetime(value, self._date_mode)
        except (OverflowError, ValueError):
            return value
        if value < 0:
            return value
        return moment.time() if value < 1 else moment
