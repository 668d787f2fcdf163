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
    WarningCode,
    build_document,
    no_progress,
    one_line,
    spell_pages,
    warning,
)
from mcp_tools_proxy.documents.importers.glyph_codes import (
    glyph_code_objects,
    is_glyph_codes,
    may_have_glyph_codes,
)
from mcp_tools_proxy.documents.importers.hyphens import clean_divided, join_divided_words
from mcp_tools_proxy.documents.importers.ocr import TesseractReader
from mcp_tools_proxy.documents.importers.pdf_annotations import (
    AnnotationKind,
    count_letters,
    is_xfa_placeholder,
    open_pdf,
    read_annotations,
    signers_of,
)
from mcp_tools_proxy.documents.importers.pdf_headings import TypeLine, find_headings
from mcp_tools_proxy.documents.importers.pdf_hidden import HiddenText
from mcp_tools_proxy.documents.importers.pdf_labels import has_annotation, with_annotations
from mcp_tools_proxy.documents.importers.pdf_shown_text import ShownValues, use_shown_text
from mcp_tools_proxy.documents.importers.pdf_text import read_page_text
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document, ImportWarning
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
    """Build a document from a PDF: its pages with their form fields, its outline, its title.

    Pages without text keep their number. ``reader`` reads scanned pages. Raises ImportFailed if the
    file is broken, encrypted, an XFA form, or without any text.
    """
    try:
        with open_pdf(data) as pdf, closing(ShownValues(data)) as shown_values:
            if is_xfa_placeholder(pdf):
                raise ImportFailed(_XFA)
            outline = list(_outline(pdf))
            source = _Source(
                pdf=pdf,
                signers=signers_of(pdf, data),
                hidden=HiddenText(data),
                shown_values=shown_values,
                type_lines=None if outline else [],
            )
            found = tuple(_page_texts(source, options, progress, reader))
            pages = join_divided_words([page.text for page in found], options.language)
            if not any(page.strip() for page in pages):
                raise ImportFailed(_reason_without_text(found, with_ocr=reader is not None))
            headings = _place_headings(
                outline or find_headings(source.type_lines or ()), pages, is_found=not outline
            )
            title = own_title(_text_of(lambda: pdf.get_metadata_value("Title")))
    except PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise ImportFailed("is encrypted: remove its password first") from error
        raise ImportFailed("is not a readable PDF: copy it again, or export it again") from error
    document = build_document(
        options,
        facts=FileFacts(title=title),
        pages=pages,
        headings=headings,
        text_format="plain",
        warnings=tuple(_warnings(found, with_ocr=reader is not None)),
        hidden_chars=sum(page.hidden_chars for page in found),
    )
    ocr = tuple(page.confidence for page in found)
    return replace(document, ocr=ocr) if any(it is not None for it in ocr) else document


_XFA = (
    "is an XFA form, which only Adobe's programs can show: open it there, print it to a PDF, and "
    "import that"
)
_NO_TEXT = (
    "has no text, only scanned pages. For OCR, set MCP_PROXY_OCR_LANGUAGES, such as eng; this "
    "needs mcp-tools-proxy[ocr] or the image tag :ocr"
)
_HIDDEN = "has only hidden text, which is left out. If its pages are scanned, import it with OCR"
_NO_TEXT_FOUND = "has no text, and OCR found none on its pages: scan it again"
_UNREADABLE = (
    "has text without a character map, which cannot be read: export it again with Unicode text, or "
    "import it with OCR"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    text: str
    confidence: int | None = None
    hidden_chars: int = 0
    is_unreadable: bool = False


def _reason_without_text(pages: Sequence[_Page], *, with_ocr: bool) -> str:
    if with_ocr:
        return _NO_TEXT_FOUND
    if any(page.is_unreadable for page in pages):
        return _UNREADABLE
    return _HIDDEN if any(page.hidden_chars for page in pages) else _NO_TEXT


def _warnings(pages: Sequence[_Page], *, with_ocr: bool) -> Iterator[ImportWarning]:
    unreadable = [at for at, page in enumerate(pages, start=1) if page.is_unreadable]
    empty = [
        at
        for at, page in enumerate(pages, start=1)
        if not page.text.strip() and not page.is_unreadable
    ]
    if empty:
        listed = f"{_list_pages(empty, len(pages))} no text and cannot be searched"
        if with_ocr:
            yield warning(WarningCode.OCR_WITHOUT_TEXT, f"{listed}; OCR found none")
        else:
            yield warning(WarningCode.PAGES_WITHOUT_TEXT, listed)
    if unreadable:
        listed = _list_pages(unreadable, len(pages))
        yield warning(
            WarningCode.UNREADABLE_TEXT,
            f"{listed} text without a character map, which was left out",
        )


def _list_pages(numbers: Sequence[int], total: int) -> str:
    noun, verb = ("page", "has") if len(numbers) == 1 else ("pages", "have")
    return f"{noun} {spell_pages(numbers)} of {total} {verb}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """An open PDF, the signers of its remaining signature fields, and what finds hidden text.

    ``type_lines`` collects the lines of a PDF without bookmarks, to find its headings.
    """

    pdf: PdfDocument
    signers: Iterator[str]
    hidden: HiddenText
    shown_values: ShownValues
    type_lines: list[TypeLine] | None


def _page_texts(
    source: _Source, options: ImportOptions, progress: Progress, reader: TesseractReader | None
) -> Iterator[_Page]:
    total = len(source.pdf)
    for index in range(total):
        with closing(source.pdf[index]) as page:
            yield _page(source, page, index + 1, options, reader)
        progress(index + 1, total)


def _page(
    source: _Source,
    page: PdfPage,
    number: int,
    options: ImportOptions,
    reader: TesseractReader | None,
) -> _Page:
    found = read_annotations(page, source.signers)
    visible = source.hidden.visible(page, found.visible)
    seen = set(map(id, visible))
    unseen = sum(count_letters(it.text) for it in found.visible if id(it) not in seen)
    visible, replaced = source.shown_values.use(visible, number)
    placed = [it for it in visible if it.kind is not AnnotationKind.NOTE]
    hidden_chars = found.hidden_chars + unseen + replaced + source.hidden.remove(page)
    hidden_chars += use_shown_text(source.pdf, page, number)
    before = len(source.type_lines or ())
    with with_annotations(source.pdf, page, placed) as complete:
        text, is_unreadable = _readable_text(page, number, source.type_lines)
        if text or not is_unreadable:
            text = complete(clean_divided(text))
    if placed and source.type_lines is not None:  # a line with a field is not a heading
        lines_here = source.type_lines[before:]
        source.type_lines[before:] = [it for it in lines_here if not has_annotation(it.text)]
    confidence = None
    if reader is not None and is_picture(page, text):
        read = reader.read(page)
        if read is not None and len(read.text) > len(text):
            text, confidence, is_unreadable = read.text, read.confidence, False
    lines = [text]
    if is_unreadable or confidence is not None:
        values = (it.text for it in placed if it.kind is AnnotationKind.TEXT)
        lines += [it for it in values if it not in text]
    if options.with_notes:
        lines += [it.text for it in visible if it.kind is AnnotationKind.NOTE]
    return _Page(
        text="\n".join(filter(None, lines)),
        confidence=confidence,
        hidden_chars=hidden_chars,
        is_unreadable=is_unreadable,
    )


def _readable_text(
    page: PdfPage, number: int, type_lines: list[TypeLine] | None
) -> tuple[str, bool]:
    """Return the text of a page without codes of glyphs, and whether there are some."""
    with closing(page.get_textpage()) as textpage:
        may_have_codes = may_have_glyph_codes(textpage)
        if may_have_codes and is_glyph_codes(textpage):
            return "", True
        left_out = glyph_code_objects(textpage) if may_have_codes else []
        if not left_out:
            return read_page_text(page, textpage, number, type_lines), False
    for it in left_out:
        raw.FPDFPageObj_SetIsActive(it, 0)
    try:
        with closing(page.get_textpage()) as textpage:
            return read_page_text(page, textpage, number, type_lines), True
    finally:
        for it in left_out:
            raw.FPDFPageObj_SetIsActive(it, 1)


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


def _place_headings(
    outline: Sequence[tuple[int, str, int]], pages: Sequence[str], *, is_found: bool
) -> list[Heading]:
    """Locate each title in its page's text, after the previous one; otherwise use the page's start.

    Titles that were found in the text must be there. A bookmark's coordinates do not help: they are
    unrelated to the order of the text.
    """
    headings: list[Heading] = []
    found_to = (1, 0)
    for level, title, page in outline:
        text = pages[page - 1]
        place = _place_of_title(title, text, found_to[1] if found_to[0] == page else 0)
        if place:
            found_to = (page, place[1])
        elif is_found:
            continue
        char = place[0] if place and text[: place[0]].strip() else 0
        headings.append(Heading(level=level, title=title, page=page, char=char))
    return headings


def _place_of_title(title: str, text: str, start: int) -> tuple[int, int] | None:
    """Return the start and end of the first line with only the title, optionally after a number.

    A pattern for each title would take a sixth of the time of an import.
    """
    first, *others = _lowered(title).split()
    lowered = _lowered(text)
    at = lowered.find(first, start)
    while at >= 0:
        line, end = lowered.rfind("\n", 0, at) + 1, at + len(first)
        for word in others:
            space = _SPACE.match(lowered, end)
            end = space.end() + len(word) if space and lowered.startswith(word, space.end()) else 0
            if not end:
                break
        rest = _REST_OF_LINE.match(lowered, end) if end else None
        if line >= start and rest and _BEFORE_TITLE.fullmatch(lowered, line, at):
            return line, rest.end()
        at = lowered.find(first, at + 1)
    return None


def _lowered(text: str) -> str:
    return text.replace("İ", "I").lower()  # the only letter whose small one has another length


_SPACE = re.compile(r"\s+")
_BEFORE_TITLE = re.compile(r"(?:\w+[ \t]+)?(?:\d|[^\w\n])*")
_REST_OF_LINE = re.compile(r"[^\w\n]*$", re.MULTILINE)


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
