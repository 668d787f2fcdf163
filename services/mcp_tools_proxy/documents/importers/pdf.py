"""Imports PDF files."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, raw

from mcp_tools_proxy.documents.importers.base import (
    FileFacts,
    Heading,
    ImportFailed,
    ImportOptions,
    Progress,
    build_document,
    no_progress,
    one_line,
)
from mcp_tools_proxy.documents.importers.hyphens import clean_divided, join_divided_words
from mcp_tools_proxy.documents.importers.ocr import TesseractReader
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.fast_dataclass import dataclass

FEW_LETTERS = 100
"""Below this number of letters (a stamp, a page number, a running title), a page with a picture is
read by OCR."""

MIN_SHARE = 0.5
"""Minimum share of the page covered by a picture, if the page has some letters."""

_MOST_OBJECTS = 1_000


def import_pdf(
    data: bytes,
    options: ImportOptions,
    progress: Progress = no_progress,
    reader: TesseractReader | None = None,
) -> Document:
    """Build a document from a PDF: its pages, its outline as sections, its title.

    Pages without text keep their number. ``reader`` reads scanned pages. Raises ImportFailed if the
    file is broken, encrypted, or without any text.
    """
    try:
        with closing(PdfDocument(data)) as pdf:
            found = tuple(_page_texts(pdf, progress, reader))
            pages = join_divided_words([page.text for page in found], options.language)
            if not any(page.strip() for page in pages):
                raise ImportFailed(_NO_TEXT if reader is None else _NO_TEXT_FOUND)
            headings = _place_headings(_outline(pdf), pages)
            title = _text_of(lambda: pdf.get_metadata_value("Title"))
    except PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise ImportFailed("is encrypted: remove its password first") from error
        raise ImportFailed("is not a readable PDF") from error
    document = build_document(
        options, facts=FileFacts(title=title), pages=pages, headings=headings, text_format="plain"
    )
    ocr = tuple(page.confidence for page in found)
    return replace(document, ocr=ocr) if any(it is not None for it in ocr) else document


_NO_TEXT = (
    "has no text, only scanned pages. For OCR, import it with --ocr-languages eng, or set "
    "MCP_PROXY_OCR_LANGUAGES; this needs mcp-tools-proxy[ocr] or the image tag :ocr"
)
_NO_TEXT_FOUND = "has no text, and OCR found none on its pages"


@dataclass(frozen=True, slots=True)
class _Page:
    text: str
    confidence: int | None = None


def _page_texts(
    pdf: PdfDocument, progress: Progress, reader: TesseractReader | None
) -> Iterator[_Page]:
    total = len(pdf)
    for index in range(total):
        with closing(pdf[index]) as page:
            yield _page(page, reader)
        progress(index + 1, total)


def _page(page: PdfPage, reader: TesseractReader | None) -> _Page:
    with closing(page.get_textpage()) as textpage:
        text: str = textpage.get_text_range()
    text = clean_divided(text.replace("\r\n", "\n").replace("\r", "\n"))
    if reader is not None and is_picture(page, text):
        read = reader.read(page)
        if read is not None and len(read.text) > len(text):
            return _Page(read.text, read.confidence)
    return _Page(text)


def _outline(pdf: PdfDocument) -> Iterator[tuple[int, str, int]]:
    """Yield level, title and page (1-based) of each bookmark that points to a page."""
    for bookmark in pdf.get_toc():
        destination = bookmark.get_dest()
        index = None if destination is None else destination.get_index()
        title = one_line(_text_of(bookmark.get_title))
        if title and index is not None and index < len(pdf):
            yield bookmark.level, title, index + 1


def _text_of(read: Callable[[], str]) -> str:
    """Read a string of the PDF; return "" if it is not valid UTF-16."""
    try:
        return read()
    except UnicodeDecodeError:
        return ""


def _place_headings(outline: Iterator[tuple[int, str, int]], pages: Sequence[str]) -> list[Heading]:
    """Locate each title in its page's text, after the previous one; otherwise use the page's start.

    A bookmark's coordinates do not help: they are unrelated to the order of the text.
    """
    headings: list[Heading] = []
    found_to = (1, 0)
    for level, title, page in outline:
        text = pages[page - 1]
        match = _title_pattern(title).search(text, found_to[1] if found_to[0] == page else 0)
        if match:
            found_to = (page, match.end())
        char = match.start() if match and text[: match.start()].strip() else 0
        headings.append(Heading(level=level, title=title, page=page, char=char))
    return headings


def _title_pattern(title: str) -> re.Pattern[str]:
    """Return a pattern for lines with only the title, optionally after a number."""
    words = r"\s+".join(re.escape(word) for word in title.split())
    return re.compile(
        rf"^(?:\w+[ \t]+)?(?:\d|[^\w\n])*?{words}[^\w\n]*$", re.IGNORECASE | re.MULTILINE
    )


def is_picture(page: PdfPage, text: str) -> bool:
    """Return whether a page needs OCR."""
    letters = sum(map(str.isalnum, text))
    if not letters:
        return bool(raw.FPDFPage_CountObjects(page.raw))
    return letters < FEW_LETTERS and _picture_share(page) >= MIN_SHARE


def _picture_share(page: PdfPage) -> float:
    """Return the share of a page covered by its largest picture."""
    width, height = map(float, page.get_size())
    pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    areas = (_area(it.get_bounds()) for it in islice(pictures, _MOST_OBJECTS))
    return max(areas, default=0.0) / max(1.0, width * height)


def _area(bounds: tuple[float, float, float, float]) -> float:
    left, bottom, right, top = bounds
    return max(0.0, right - left) * max(0.0, top - bottom)
