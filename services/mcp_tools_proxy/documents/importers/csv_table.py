"""Imports CSV and TSV files as tables; each page repeats the column names."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO, TextIOWrapper
from itertools import islice

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    FileFacts,
    ImportFailed,
    ImportOptions,
    build_document,
    clean,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.pipe_table import table_pages
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.domain.document import Document

_SAMPLE_CHARS = 64 * 1024
_DELIMITERS = ",;\t|"
_NAMED_DELIMITER = re.compile(rf'"?sep=([{_DELIMITERS}])"?\n')
"""A first line for Excel, not a row."""

_NO_DELIMITER = "\x1f"
"""Of a file with one column: the text is cleaned of this character."""

_EVEN = 0.5
"""Least part of rows with the same number of columns, if the first row has one."""

_MAX_PADDED = 1000
"""Columns up to which short rows get empty cells: 350 kB with one long row became 300 MB."""

_MAX_TITLES = 20
_MAX_TITLE_CHARS = 200


def import_csv(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a table; each page starts with the column names.

    Commas, semicolons, tabs or bars separate the columns. Lines above the header are
    text; the first is the title. Raises ImportFailed.
    """
    decoded = decode_text(data, options)
    table = _CsvFile(clean(decoded.text))
    titles, header = table.start()
    above = "".join(f"{one_line(title)}\n\n" for title in titles)
    tables = (paginate(text, ()) for text in table_pages(header, table, above=above))
    pages = [page for pages in tables for page in pages]
    pages[-1] = pages[-1].rstrip()
    title = one_line(titles[0]) if titles else ""
    return build_document(
        options,
        facts=FileFacts(title=title if len(title) <= _MAX_TITLE_CHARS else ""),
        pages=tuple(pages),
        headings=(),
        text_format="markdown",
        warnings=decoded.warnings,
    )


class _CsvFile:
    """The rows of a CSV file, without empty rows and without empty columns at the end.

    It is read several times, as rows take many times the memory of their text.
    """

    def __init__(self, text: str) -> None:
        self._delimiter = ""
        if named := _NAMED_DELIMITER.match(text):
            text, self._delimiter = text[named.end() :], named[1]
        self._lines_above = 0 if named is None else 1
        self._text = text.encode()
        self._escape = "\\" if '\\"' in text and '""' not in text else None
        self._delimiter = self._delimiter or self._likeliest(text[:_SAMPLE_CHARS])
        widths = Counter(map(_width, self._rows(self._text)))
        if not widths:
            raise ImportFailed(EMPTY)
        self._columns = max(widths)
        self._usual = max(widths, key=lambda width: (widths[width], width))
        self._skipped = 1

    def start(self) -> tuple[list[str], list[str]]:
        """Return the texts above the header, and the header."""
        titles: list[str] = []
        first = list(islice(self._rows(self._text), _MAX_TITLES + 1))
        for at, row in enumerate(first):
            width = _width(row)
            if width >= self._usual or (width > 1 and not titles):
                self._skipped = at + 1
                return titles, self._padded(row)
            titles.append(f"{self._delimiter} ".join(filter(None, row)))
        return [], self._padded(first[0])

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the rows after the header."""
        rows = self._rows(self._text)
        for _ in range(self._skipped):
            next(rows)
        return map(self._padded, rows)

    def _padded(self, row: list[str]) -> list[str]:
        missing = self._columns - len(row) if self._columns <= _MAX_PADDED else 0
        return [*row[: self._columns], *[""] * missing]

    def _rows(self, text: bytes, delimiter: str = "") -> Iterator[list[str]]:
        """Yield the rows with text. Raises ImportFailed."""
        # StringIO would take four times as much memory
        lines = TextIOWrapper(BytesIO(text), "utf-8", newline="")
        rows = csv.reader(lines, delimiter=delimiter or self._delimiter, escapechar=self._escape)
        start = 1 + self._lines_above
        try:
            for row in rows:
                if _width(row):
                    yield row
                start = rows.line_num + 1 + self._lines_above
        except csv.Error as error:  # a quote that is not closed takes in the lines after it
            raise ImportFailed(
                f"is not a readable .csv file: correct the quotes from line {start} on ({error})"
            ) from error

    def _likeliest(self, sample: str) -> str:
        """Return the separator that gives the rows the same number of columns, at least two."""
        found = max(_DELIMITERS, key=lambda delimiter: self._evenness(sample, delimiter))
        return found if not 0 < self._evenness(sample, found) < _EVEN else _NO_DELIMITER

    def _evenness(self, sample: str, delimiter: str) -> float:
        try:
            widths = [len(row) for row in self._rows(sample.encode(), delimiter)]
        except ImportFailed:
            return 0.0
        if len(widths) > 1 and len(sample) == _SAMPLE_CHARS:
            widths.pop()  # cut off
        several = Counter(width for width in widths if width > 1)
        if not several:
            return 0.0
        (width, count), *_ = several.most_common(1)
        return count / len(widths) + (0.5 if widths[0] == width else 0) + width / 1e6


def _width(row: Sequence[str]) -> int:
    """Return the number of cells up to the last with text."""
    return next((at for at in range(len(row), 0, -1) if row[at - 1].strip()), 0)
