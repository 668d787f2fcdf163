"""Choice of the importer by file suffix; import of plain text."""

import re
from collections.abc import Callable, Mapping

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    build_document,
    clean,
    no_progress,
    paginate,
)
from mcp_tools_proxy.documents.importers.converted import import_docx
from mcp_tools_proxy.documents.importers.csv_table import import_csv
from mcp_tools_proxy.documents.importers.html import import_html
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.documents.importers.ocr import TesseractReader
from mcp_tools_proxy.documents.importers.pdf import import_pdf
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


_IMPORTERS: Mapping[str, Callable[[bytes, ImportOptions], Document]] = {
    ".md": import_markdown,
    ".markdown": import_markdown,
    ".txt": import_plain,
    ".text": import_plain,
    ".docx": import_docx,
    ".html": import_html,
    ".htm": import_html,
    ".csv": import_csv,
}
"""Importers except that of PDF, which reports progress."""

SUFFIXES = (".pdf", *_IMPORTERS)

_UNKNOWN = f"is not a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file"


def import_data(
    data: bytes, suffix: str, options: ImportOptions, progress: Progress = no_progress
) -> Document:
    """Import a file with one of SUFFIXES. Raises ImportFailed, also for other suffixes."""
    kind = suffix.lower()
    if kind == ".pdf":
        return _import_pdf(data, options, progress)
    if kind not in _IMPORTERS:
        raise ImportFailed(_UNKNOWN)
    return _IMPORTERS[kind](data, options)


def _import_pdf(data: bytes, options: ImportOptions, progress: Progress) -> Document:
    if not options.ocr_languages:
        return import_pdf(data, options, progress)
    with TesseractReader(options.ocr_languages) as reader:
        return import_pdf(data, options, progress, reader)


def check_suffix(suffix: str) -> None:
    """Check that files with that suffix can be imported. Raises ImportFailed."""
    if suffix.lower() not in SUFFIXES:
        raise ImportFailed(_UNKNOWN)
