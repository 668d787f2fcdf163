"""Imports XLSX workbooks with calamine and XLS workbooks with xlrd (extra formats).

Damaged files cannot corrupt memory: calamine is written in Rust, xlrd in Python. Macros and
formulas never run.
"""

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import accumulate, chain
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.base import (
    NO_FORMATS,
    PAGE_BYTES,
    FileFacts,
    Heading,
    ImportFailed,
    ImportOptions,
    WarningCode,
    build_document,
    clean,
    one_line,
    paginate,
    warning,
)
from mcp_tools_proxy.documents.importers.number_formats import shown_number, shown_text
from mcp_tools_proxy.documents.importers.pipe_table import (
    MergedText,
    header_rows,
    merged_header,
    named_groups,
    table_pages,
)
from mcp_tools_proxy.documents.importers.workbook_looks import (
    DAMAGED,
    MAX_CELLS,
    PROTECTED,
    CellValue,
    SheetLook,
    WorkbookSheet,
    workbook_look,
)
from mcp_tools_proxy.documents.importers.xls_workbook import xls_sheets
from mcp_tools_proxy.domain.document import Document, ImportWarning

Rows = list[list[str]]


class ShownSheet(NamedTuple):
    """A sheet as readers see it: the visible cells, and the marked texts of comments on them."""

    name: str
    rows: Rows
    comments: Sequence[str]
    empty_formulas: int
    """The number of visible formulas without stored values."""
    hidden_chars: int


_ZIP = b"PK"

_HEADER_SAMPLE = 100
"""Rows in which numbers show that the rows above them are names."""

_LONGEST_NAME = 60
"""Characters of the name of a group of columns; longer texts are remarks above a table."""

_EXACT_DIGITS = 15
"""Digits that spreadsheet programs show: 0.1 + 0.2 is 0.3."""


def import_workbook(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a workbook: each visible sheet is a section with a table.

    Raises ImportFailed.
    """
    title, read = "", xls_sheets(data)
    if data.startswith(_ZIP):
        title, looks = workbook_look(data)
        read = _xlsx_sheets(data, looks)
    return document_of_sheets((_shown_sheet(it, options) for it in read), options, title=title)


def _shown_sheet(sheet: WorkbookSheet, options: ImportOptions) -> ShownSheet:
    look = sheet.look
    rows = _rows(sheet)
    shown = _shown(rows, look) if sheet.is_visible else []
    comments: list[str] = []
    hidden_chars = _letters(rows) - _letters(shown)
    for comment in look.comments if options.with_notes else ():
        if not sheet.is_visible or look.is_hidden(comment.row, comment.column):
            hidden_chars += len(comment.text)
        else:
            comments.append(comment.marked_text)
    return ShownSheet(
        name=sheet.name,
        rows=shown,
        comments=comments,
        empty_formulas=sum(
            sheet.is_visible and not look.is_hidden(*place) for place in look.empty_formulas
        ),
        hidden_chars=hidden_chars,
    )


def _xlsx_sheets(data: bytes, looks: Mapping[str, SheetLook]) -> Iterator[WorkbookSheet]:
    try:
        from python_calamine import (  # noqa: PLC0415 - an extra
            CalamineError,
            CalamineWorkbook,
            PasswordError,
            SheetVisibleEnum,
        )
    except ImportError as error:
        raise ImportFailed(NO_FORMATS) from error
    try:
        with CalamineWorkbook.from_filelike(BytesIO(data)) as workbook:
            for listed in workbook.sheets_metadata:
                look = looks.get(listed.name, SheetLook())
                sheet = workbook.get_sheet_by_name(listed.name)
                yield WorkbookSheet(
                    name=listed.name,
                    is_visible=listed.visible is SheetVisibleEnum.Visible,
                    look=look,
                    values=sheet.iter_rows(),  # with the empty rows above the first cell
                    merged=sheet.merged_cell_ranges or (),
                    first_column=sheet.start[1] if sheet.start else 0,
                )
    except PasswordError as error:
        raise ImportFailed(PROTECTED) from error
    except (CalamineError, OSError) as error:
        raise ImportFailed(DAMAGED) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3's, of no module that can be imported
            raise
        raise ImportFailed(DAMAGED) from error


def document_of_sheets(
    sheets: Iterable[ShownSheet], options: ImportOptions, *, title: str = ""
) -> Document:
    """Build a document from sheets. Raises ImportFailed if all are empty."""
    pages: list[str] = []
    headings: list[Heading] = []
    hidden_chars = empty_formulas = 0
    for sheet in sheets:
        hidden_chars += sheet.hidden_chars
        empty_formulas += sheet.empty_formulas
        found = _with_comments(list(_sheet_pages(_trimmed(sheet.rows))), sheet.comments)
        if found:
            heading = one_line(sheet.name)
            headings.append(Heading(level=1, title=heading, page=len(pages) + 1, char=0))
            pages += [f"## {heading}\n\n{found[0]}", *found[1:]]
    if not pages:
        raise ImportFailed(_why_empty(hidden_chars, empty_formulas))
    return build_document(
        options,
        facts=FileFacts(title=title),
        pages=tuple(pages),
        headings=headings,
        text_format="markdown",
        warnings=_formulas_warning(empty_formulas),
        hidden_chars=hidden_chars,
    )


def _why_empty(hidden_chars: int, empty_formulas: int) -> str:
    if empty_formulas:
        return "has only formulas without stored values: save it in a spreadsheet program first"
    return "has no text but in hidden sheets" if hidden_chars else "is empty"


def _formulas_warning(count: int) -> tuple[ImportWarning, ...]:
    if not count:
        return ()
    formulas, cells = ("formula has", "cell is") if count == 1 else ("formulas have", "cells are")
    message = f"{count} {formulas} no stored value, so that the {cells} empty"
    return (warning(WarningCode.FORMULAS_WITHOUT_VALUES, message),)


def _rows(sheet: WorkbookSheet) -> Rows:
    """Return the cells from the first row and column as text, with merged cells repeated."""
    formats, given = sheet.look.formats, sheet.look.texts
    before = [""] * sheet.first_column
    rows: Rows = []
    for row, values in enumerate(sheet.values):
        texts = (
            given[row, column]
            if (row, column) in given
            else _text(value, formats.get((row, column)))
            for column, value in enumerate(values, start=sheet.first_column)
        )
        rows.append([*before, *texts])
    repeated = 0
    for (top, left), (bottom, right) in sheet.merged:
        merged, across = rows[top : bottom + 1], slice(left, right + 1)
        repeated += len(merged) * len(merged[0][across] if merged else ())
        if repeated > MAX_CELLS:
            raise ImportFailed("has too many merged cells: cut it into parts")
        if (top, left) in sheet.look.unseen:
            sheet.look.unseen.update(
                (row, column)
                for row in range(top, top + len(merged))
                for column in range(left, min(right + 1, len(rows[row])))
            )
        if text := "".join(merged[0][across][:1] if merged else ()):
            text = MergedText(text)
            for cells in merged:
                cells[across] = [text] * len(cells[across])
    return rows


def _shown(rows: Rows, look: SheetLook) -> Rows:
    """Return the rows without hidden rows, columns and values."""
    return [
        [
            "" if (row, column) in look.unseen else cell
            for column, cell in enumerate(cells)
            if column not in look.hidden_columns
        ]
        for row, cells in enumerate(rows)
        if row not in look.hidden_rows
    ]


def _letters(rows: Rows) -> int:
    return sum(map(len, chain.from_iterable(rows)))


def _text(value: CellValue, number_format: str | None) -> str:
    match value:
        case bool():
            return str(value).upper()
        case int() | float():
            shown = shown_number(value, number_format) if number_format else None
            return _number(value) if shown is None else shown
        case datetime.datetime():
            return _moment(value)
        case datetime.time():
            return value.isoformat("seconds" if value.second else "minutes")
        case datetime.timedelta():
            return _duration(value)
        case _:
            text = clean(str(value)).strip()
            return shown_text(text, number_format) if number_format else text


def _number(value: float) -> str:
    if math.isfinite(value) and abs(value) < 10**_EXACT_DIGITS and value == int(value):
        return str(int(value))
    return f"{value:.{_EXACT_DIGITS}g}"


def _moment(value: datetime.datetime) -> str:
    if value.time() == datetime.time():
        return value.date().isoformat()
    return value.isoformat(" ", "seconds" if value.second else "minutes")


def _duration(value: datetime.timedelta) -> str:
    seconds = round(value.total_seconds())
    sign, minutes = "-" if seconds < 0 else "", abs(seconds) // 60
    text = f"{sign}{minutes // 60}:{minutes % 60:02}"
    return f"{text}:{abs(seconds) % 60:02}" if seconds % 60 else text


def _trimmed(rows: Rows) -> Rows:
    """Return the rows without empty rows and columns."""
    rows = [row for row in rows if any(row)]
    used = sorted({column for row in rows for column, cell in enumerate(row) if cell})
    return [[row[column] if column < len(row) else "" for column in used] for row in rows]


def _sheet_pages(rows: Rows) -> Iterator[str]:
    """Yield the pages of a sheet; titles above the table are lines of text before it."""
    if not rows:
        return
    first = next((number for number in range(len(rows)) if not _is_title(rows, number)), 0)
    titles = (next(filter(None, row)) for row in rows[:first])
    above = "".join(f"{one_line(title)}\n\n" for title in titles)
    head = named_groups(rows[first : first + _HEADER_SAMPLE])
    names = header_rows(head)
    tables = table_pages(merged_header(head[:names]), rows[first + names :])
    yield above + next(tables)
    yield from tables


def _is_title(rows: Rows, number: int) -> bool:
    """Return whether a row has one text, which is not the name of a group of columns."""
    texts = {*rows[number]} - {""}
    if len(texts) > 1:
        return False
    if rows[number][0] or max(map(len, texts), default=0) > _LONGEST_NAME:
        return True
    return header_rows(rows[number : number + _HEADER_SAMPLE]) == 1


def _with_comments(pages: list[str], comments: Sequence[str]) -> list[str]:
    """Return the pages of a sheet with the comments after the table."""
    lines = [f"{comment}\n" for comment in comments if comment]
    text = "\n".join(lines)
    if text and pages and len(f"{pages[-1]}\n{text}".encode()) <= PAGE_BYTES:
        return [*pages[:-1], f"{pages[-1]}\n{text}"]
    return [
        *pages,
        *paginate(text, [end + at for at, end in enumerate(accumulate(map(len, lines)))]),
    ]
