"""Imports DOCX, HTML and CSV: markitdown makes Markdown of them (extra formats)."""

import csv
import re
from collections.abc import Iterable, Iterator
from io import BytesIO, StringIO, TextIOWrapper
from itertools import accumulate
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.base import (
    PAGE_BYTES,
    ImportFailed,
    ImportOptions,
    build_document,
    clean,
    decode_text,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.docx_archive import MAX_TOKENS, text_archive
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.domain.document import Document

if TYPE_CHECKING:
    from markitdown import DocumentConverter, DocumentConverterResult

_SNIFFED_CHARS = 64 * 1024
_DELIMITERS = ",;\t|"
_NAMED_DELIMITER = re.compile(rf'"?sep=([{_DELIMITERS}])"?\n')
"""A first line for Excel, and no row."""

_CELL_CHARS = 3
"""Characters that a table has around a cell."""

_EMBEDDED = re.compile(r"!\[([^\]]*)\]\(data:[^)]*\)")
"""A picture within the file: only its description is text."""


def import_docx(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a Word file, by its headings. Raises ImportFailed."""
    converters = _converters()
    return _document(converters.docx, text_archive(data), options, kind=".docx")


def import_html(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a web page, by its headings, without scripts. Raises ImportFailed.

    Nothing that it names is fetched.
    """
    if data.count(b"<") > MAX_TOKENS:
        raise ImportFailed(f"has more than {MAX_TOKENS} elements: cut it into parts")
    converters = _converters()
    from bs4 import UnicodeDammit  # noqa: PLC0415 - an extra

    text = UnicodeDammit(data, is_html=True).unicode_markup
    if text is None:
        raise ImportFailed("has an unknown text encoding: save it as UTF-8")
    return _document(converters.html, clean(text).encode(), options, kind=".html")


def import_csv(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a table: each page begins with the names of the columns.

    Commas, semicolons, tabs or bars part the columns. Raises ImportFailed.
    """
    converters = _converters()
    text = clean(decode_text(data))
    tables = [
        f"{_convert(converters.csv, _spelled(rows).encode(), kind='.csv').markdown}\n\n"
        for rows in _slices(_rows(text))
    ]
    # not parsed again, for it would be a token for each cell: there are no headings to be found
    edges = list(accumulate(map(len, tables)))
    pages = paginate("".join(tables).rstrip(), edges)
    return build_document(options, title="", pages=pages, headings=())


class _Converters:
    """What markitdown has for each kind of file."""

    def __init__(self) -> None:
        # the converters alone: MarkItDown itself starts threads, and guesses what a file is
        from markitdown.converters import (  # noqa: PLC0415 - an extra
            CsvConverter,
            DocxConverter,
            HtmlConverter,
        )

        self.docx = DocxConverter()  # type: ignore[no-untyped-call] # the library's
        self.html = HtmlConverter()
        self.csv = CsvConverter()  # type: ignore[no-untyped-call] # the library's


def _converters() -> _Converters:
    """Return the converters. Raises ImportFailed where they are not installed."""
    try:
        return _Converters()
    except ImportError as error:
        raise ImportFailed(
            "cannot be read by this installation: install mcp-tools-proxy[formats], or use the "
            "image tag :formats"
        ) from error


def _document(
    converter: "DocumentConverter", data: bytes, options: ImportOptions, *, kind: str
) -> Document:
    result = _convert(converter, data, kind=kind)
    text = _EMBEDDED.sub(r"\1", clean(result.markdown))
    return build_from_markdown(text, options, title=one_line(result.title or ""))


def _convert(
    converter: "DocumentConverter", data: bytes, *, kind: str
) -> "DocumentConverterResult":
    """Convert a file. Raises ImportFailed, MemoryError."""
    from markitdown import StreamInfo  # noqa: PLC0415 - an extra

    info = StreamInfo(charset="utf-8", extension=kind)
    try:
        return converter.convert(BytesIO(data), info)
    except MemoryError:
        raise
    except RecursionError as error:
        raise ImportFailed("is nested too deeply to be read") from error
    except Exception as error:
        raise ImportFailed(f"is not a readable {kind} file ({type(error).__name__})") from error


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the rows that hold something. Raises ImportFailed."""
    delimiter = None
    if named := _NAMED_DELIMITER.match(text):
        text, delimiter = text[named.end() :], named[1]
    lines = TextIOWrapper(BytesIO(text.encode()), "utf-8", newline="")  # StringIO: four times it
    rows = csv.reader(lines, delimiter=delimiter or _delimiter(text))
    try:
        yield from (row for row in rows if any(cell.strip() for cell in row))
    except csv.Error as error:
        raise ImportFailed(f"is not a readable .csv file: line {rows.line_num}: {error}") from error


def _delimiter(text: str) -> str:
    try:
        return csv.Sniffer().sniff(text[:_SNIFFED_CHARS], _DELIMITERS).delimiter
    except csv.Error:  # one column, or rows that differ
        first = text.partition("\n")[0]
        return max(_DELIMITERS, key=first.count)


def _slices(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    """Yield tables of about one page each, all with the first row at their top."""
    header = next(rows, None)
    if header is None:
        raise ImportFailed("is empty")
    table, size = [header], 0
    most = PAGE_BYTES - 2 * _row_bytes(header)
    for row in rows:
        size += _row_bytes(row)
        if size > most and len(table) > 1:
            yield table
            table, size = [header], _row_bytes(row)
        table.append(row)
    yield table


def _row_bytes(row: Iterable[str]) -> int:
    return sum(len(cell.encode()) + _CELL_CHARS for cell in row) + 2


def _spelled(rows: Iterable[list[str]]) -> str:
    """Return rows as markitdown reads them."""
    text = StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()
