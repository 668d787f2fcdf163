"""Choice of the importer by the kind of a file; import of plain text."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    build_document,
    clean,
    no_progress,
    paginate,
)
from mcp_tools_proxy.documents.importers.csv_table import import_csv
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.documents.importers.epub import import_epub
from mcp_tools_proxy.documents.importers.file_kind import FileKind, kind_of
from mcp_tools_proxy.documents.importers.html import import_html
from mcp_tools_proxy.documents.importers.json_text import import_json, import_json_lines
from mcp_tools_proxy.documents.importers.mail import import_eml
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.documents.importers.ocr import TesseractReader
from mcp_tools_proxy.documents.importers.open_document import import_ods, import_odt
from mcp_tools_proxy.documents.importers.outlook_file import import_msg
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.documents.importers.pictures import import_picture
from mcp_tools_proxy.documents.importers.rtf import import_rtf
from mcp_tools_proxy.documents.importers.slides import import_slides
from mcp_tools_proxy.documents.importers.spreadsheets import import_workbook
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.domain.document import Document

_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")


def import_plain(data: bytes, options: ImportOptions) -> Document:
    """Build a document from plain text: pages at form feeds, otherwise of ≤ 8 kB at paragraphs.

    Raises ImportFailed if ``data`` is empty or cannot be decoded.
    """
    text, warnings = decode_text(data, options)
    if not clean(text).strip():
        raise ImportFailed("is empty")
    pages: tuple[str, ...]
    if "\f" in text:
        pages = tuple(clean(page) for page in text.removesuffix("\f").split("\f"))
    else:
        text = clean(text)
        pages = paginate(text, [match.end() for match in _PARAGRAPH_END.finditer(text)])
    return build_document(options, pages=pages, headings=(), text_format="plain", warnings=warnings)


_IMPORTERS: Mapping[FileKind, Callable[[bytes, ImportOptions], Document]] = {
    FileKind.MARKDOWN: import_markdown,
    FileKind.TEXT: import_plain,
    FileKind.DOCX: import_docx,
    FileKind.HTML: import_html,
    FileKind.CSV: import_csv,
    FileKind.JSON: import_json,
    FileKind.JSON_LINES: import_json_lines,
    FileKind.PPTX: import_slides,
    FileKind.EML: import_eml,
    FileKind.MSG: import_msg,
    FileKind.EPUB: import_epub,
    FileKind.ODT: import_odt,
    FileKind.ODS: import_ods,
    FileKind.RTF: import_rtf,
    FileKind.XLSX: import_workbook,
    FileKind.XLS: import_workbook,
}
"""Importers of files that need no OCR."""


def import_data(
    data: bytes, suffix: str, options: ImportOptions, progress: Progress = no_progress
) -> Document:
    """Import a file; ``suffix`` decides only among kinds of text. Raises ImportFailed."""
    kind = kind_of(data, suffix)
    if kind in _DRAWN:
        return _import_drawn(_DRAWN[kind], data, options, progress)
    return _IMPORTERS[kind](data, options)


class _DrawnImporter(Protocol):
    """An importer of pages that OCR can read, which reports progress."""

    def __call__(
        self,
        data: bytes,
        options: ImportOptions,
        progress: Progress,
        reader: TesseractReader | None = None,
    ) -> Document: ...


_DRAWN: Mapping[FileKind, _DrawnImporter] = {
    FileKind.PDF: import_pdf,
    FileKind.PICTURE: import_picture,
}


def _import_drawn(
    importer: _DrawnImporter, data: bytes, options: ImportOptions, progress: Progress
) -> Document:
    if not options.ocr_languages:
        return importer(data, options, progress)
    with TesseractReader(options.ocr_languages) as reader:
        return importer(data, options, progress, reader)
