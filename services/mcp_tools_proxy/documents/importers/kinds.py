"""Choice of the importer by the kind of a file; import of plain text."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    ImportFailed,
    ImportOptions,
    Progress,
    build_document,
    clean,
    no_progress,
    paginate,
)
from mcp_tools_proxy.documents.importers.file_kind import FileKind, kind_of
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.domain.document import Document

if TYPE_CHECKING:
    from mcp_tools_proxy.documents.importers.ocr import TesseractReader

_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")


def import_plain(data: bytes, options: ImportOptions) -> Document:
    """Build a document from plain text: pages at form feeds, otherwise of ≤ 8 kB at paragraphs.

    Raises ImportFailed if ``data`` is empty or cannot be decoded.
    """
    text, warnings = decode_text(data, options)
    if not clean(text).strip():
        raise ImportFailed(EMPTY)
    pages: tuple[str, ...]
    if "\f" in text:
        pages = tuple(clean(page) for page in text.removesuffix("\f").split("\f"))
    else:
        text = clean(text)
        pages = paginate(text, [match.end() for match in _PARAGRAPH_END.finditer(text)])
    return build_document(options, pages=pages, headings=(), text_format="plain", warnings=warnings)


_IMPORTERS: Mapping[FileKind, str] = {
    FileKind.MARKDOWN: "markdown.import_markdown",
    FileKind.TEXT: "kinds.import_plain",
    FileKind.DOCX: "docx.import_docx",
    FileKind.HTML: "html.import_html",
    FileKind.CSV: "csv_table.import_csv",
    FileKind.JSON: "json_text.import_json",
    FileKind.JSON_LINES: "json_text.import_json_lines",
    FileKind.PPTX: "slides.import_slides",
    FileKind.EML: "mail.import_eml",
    FileKind.MSG: "outlook_file.import_msg",
    FileKind.EPUB: "epub.import_epub",
    FileKind.ODT: "open_document.import_odt",
    FileKind.ODS: "open_sheets.import_ods",
    FileKind.RTF: "rtf.import_rtf",
    FileKind.XLSX: "spreadsheets.import_workbook",
    FileKind.XLS: "spreadsheets.import_workbook",
}
"""Importers of files that need no OCR, by module and function.

Only the module that is needed is loaded: all of them take 0.2 s of CPU for each file."""


def import_data(
    data: bytes, suffix: str, options: ImportOptions, progress: Progress = no_progress
) -> Document:
    """Import a file; ``suffix`` decides only among kinds of text. Raises ImportFailed."""
    kind = kind_of(data, suffix)
    if kind in _DRAWN:
        return _import_drawn(_loaded(_DRAWN[kind]), data, options, progress)
    importer: Callable[[bytes, ImportOptions], Document] = _loaded(_IMPORTERS[kind])
    return importer(data, options)


def _loaded(function: str) -> Any:
    module, name = function.split(".")
    return getattr(import_module(f"{__package__}.{module}"), name)


class _DrawnImporter(Protocol):
    """An importer of pages that OCR can read, which reports progress."""

    def __call__(
        self,
        data: bytes,
        options: ImportOptions,
        progress: Progress,
        reader: "TesseractReader | None" = None,
    ) -> Document: ...


_DRAWN: Mapping[FileKind, str] = {
    FileKind.PDF: "pdf.import_pdf",
    FileKind.PICTURE: "pictures.import_picture",
}


def _import_drawn(
    importer: _DrawnImporter, data: bytes, options: ImportOptions, progress: Progress
) -> Document:
    if not options.ocr_languages:
        return importer(data, options, progress)
    from mcp_tools_proxy.documents.importers.ocr import TesseractReader  # noqa: PLC0415 - an extra

    with TesseractReader(options.ocr_languages) as reader:
        return importer(data, options, progress, reader)
