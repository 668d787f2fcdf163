"""The text of a PDF page, corrected by the positions of its characters."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from pypdfium2 import PdfPage, PdfTextPage, raw

from mcp_tools_proxy.documents.importers.hyphens import DIVISION
from mcp_tools_proxy.documents.importers.pdf_annotations import wide_string
from mcp_tools_proxy.documents.importers.pdf_headings import TypeLine, read_type_lines
from mcp_tools_proxy.documents.importers.pdf_ideographs import (
    glue_vertical_letters,
    has_ideographs,
    join_spaced_characters,
)
from mcp_tools_proxy.documents.importers.pdf_letters import (
    has_right_to_left,
    join_marked_letters,
    order_letters,
)
from mcp_tools_proxy.documents.importers.pdf_ruled_tables import PageTable
from mcp_tools_proxy.documents.importers.pdf_scripts import PageNotes, mark_scripts, read_shapes
from mcp_tools_proxy.documents.importers.pdf_table_signs import TableSigns, signs_of_tables
from mcp_tools_proxy.documents.importers.pdf_tables import find_tables
from mcp_tools_proxy.documents.importers.pdf_words import PageCharacters, PageWord

_WIDEST = 20.0
_SPACE, _MOST_GAP, _MOST_SHIFT, _MOST_SHIFT_OF_TWO, _SCRIPT = 0.12, 0.45, 0.6, 1.2, 0.87
"""Limits for a line that continues after a superscript or subscript: shares of the type size."""


def read_page_text(
    pdf_page: PdfPage,
    textpage: PdfTextPage,
    number: int = 1,
    type_lines: list[TypeLine] | None = None,
) -> str:
    """Return the text of a page; it may contain DIVISION.

    The type of its lines outside tables is added to ``type_lines``.
    """
    page = PageCharacters(textpage)
    faults, _ = _faults_of_lines(page)
    if not faults:
        return _text_of(pdf_page, page, number, type_lines)
    with _as_horizontal(pdf_page) as again:
        horizontal = PageCharacters(again, without=_LINE_ACROSS)
        is_better = sum(_faults_of_lines(horizontal)) < sum(_faults_of_lines(page))
        return _text_of(pdf_page, horizontal if is_better else page, number, type_lines)


def _faults_of_lines(page: PageCharacters) -> tuple[int, int]:
    """Count lines that were divided or joined, and letters of vertical text that were divided."""
    horizontal = vertical = 0
    if not page.is_located:
        return horizontal, vertical
    last_end = _FAR, _FAR
    last_left, is_letter = _FAR, False
    for start, end in page.spans():
        size = page.size(start)
        left, right, y = page.edges((start, end))
        last_x, last_y = page.origin(start + len(page.text[start:end].rstrip()) - 1)
        if abs(y - last_y) > size and abs(left - last_x) > size > 0:
            horizontal += 1
        gap, rise = left - last_end[0], y - last_end[1]
        if abs(rise) < _SPACE * size and -_SPACE * size < gap < _MOST_GAP * size:
            horizontal += 1
        if is_letter and abs(left - last_left) < _MOST_GAP * size and -2 * size < rise < 0:
            vertical += 1
        last_end, last_left, is_letter = (right, last_y), left, last_x == left
    return horizontal, vertical


_FAR = 100_000.0


@contextmanager
def _as_horizontal(page: PdfPage) -> Iterator[PdfTextPage]:
    """Read the page with an additional line across it, below the others.

    PDFium takes a page whose lines cover less of its width than of its height for vertical text,
    and divides its lines between letters that were written one by one, as browsers do.
    """
    line = raw.FPDFPageObj_NewTextObj(page.pdf, b"Helvetica", 20.0)
    raw.FPDFText_SetText(line, wide_string(_LINE_ACROSS.strip()))
    tenth = page.get_width() / 10  # the line is wider than the page
    raw.FPDFPageObj_Transform(line, tenth, 0, 0, 1, -tenth, -_BELOW)
    raw.FPDFPage_InsertObject(page, line)
    try:
        with closing(page.get_textpage()) as textpage:
            yield textpage
    finally:
        if raw.FPDFPage_RemoveObject(page, line):
            raw.FPDFPageObj_Destroy(line)


_LINE_ACROSS = "\r\nzqj"
_BELOW = 10.0
"""Points from the page to the baseline of that line, whose letters reach into the page."""


def _text_of(
    pdf_page: PdfPage, page: PageCharacters, number: int, type_lines: list[TypeLine] | None
) -> str:
    text, tables = page.text, list[PageTable]()
    if page.is_located:
        spans = page.spans()
        shapes = read_shapes(pdf_page)
        is_from_right, is_spaced = has_right_to_left(text), has_ideographs(text)
        signs = signs_of_tables(page, has_lines=shapes.paths >= _FEW_LINES)
        has_tables = signs is not TableSigns.NONE
        if has_tables or is_from_right or is_spaced or shapes.scripts is None:
            located = spans
        else:
            located = _beside_scripts(page, spans, shapes.scripts)
        lines = _joined_lines(page, [page.words(span) for span in located])
        _correct(page, lines, shapes.scripts or (), is_from_right=is_from_right)
        horizontal: Sequence[Sequence[PageWord]] = lines
        if is_spaced:
            horizontal = glue_vertical_letters(page, lines)
            for line in horizontal:
                join_spaced_characters(line)
        if has_tables:
            tables = find_tables(pdf_page, page, horizontal, signs)
        text = "".join(_pieces(text, [word for line in lines for word in line], tables))
        if type_lines is not None:
            apart = {word.start for table in tables for word in table.words}
            apart |= {it[0].start for it in lines} - {it[0].start for it in horizontal}
            others = [span for span in spans if span[0] not in apart]
            type_lines.extend(read_type_lines(number, page, others))
    return text.replace("\r\n", "\n").replace("\r", "\n")


_FEW_LINES = 4
"""Least number of lines of a table that is drawn with lines."""


def _beside_scripts(
    page: PageCharacters,
    spans: Sequence[tuple[int, int]],
    scripts: Sequence[tuple[float, float]],
) -> list[tuple[int, int]]:
    """Return the lines at the heights of scripts; locating all words takes as long as reading."""
    if not scripts:
        return []
    heights = [(span, page.origin(span[0])[1]) for span in spans]
    return [span for span, y in heights if any(bottom <= y <= top for bottom, top in scripts)]


def _correct(
    page: PageCharacters,
    lines: list[list[PageWord]],
    scripts: Sequence[tuple[float, float]],
    *,
    is_from_right: bool,
) -> None:
    if is_from_right:
        join_marked_letters(page, lines)
    notes = PageNotes(page)
    for line in lines:
        is_beside = any(bottom <= line[0].y <= top for bottom, top in scripts)
        mark_scripts(page, line, notes, is_beside=is_beside)
    if is_from_right:
        order_letters(page, lines)


def _joined_lines(page: PageCharacters, lines: Sequence[list[PageWord]]) -> list[list[PageWord]]:
    """Join lines that PDFium divides at a superscript or subscript."""
    joined: list[list[PageWord]] = []
    for line in lines:
        before = joined[-1] if joined else []
        if (
            before
            and page.text[before[-1].end - 1] != DIVISION
            and _continues(page, before, line[0])
        ):
            gap = line[0].left - before[-1].right
            line[0].is_glued = gap < _SPACE * page.character(before[-1].start).size
            line[0].is_beside = True
            before.extend(line)
        else:
            joined.append(line)
    return joined


def _continues(page: PageCharacters, before: Sequence[PageWord], word: PageWord) -> bool:
    last = before[-1]
    right = max(it.right for it in before[-2:])  # of two scripts, one above the other
    if word.left < right - _SPACE * page.character(word.start).size:
        right = last.right
    gap, shift = word.left - right, abs(word.y - last.last_y)
    if not -_WIDEST < gap < _WIDEST or shift > _WIDEST:
        return False
    first, final = page.character(word.start), page.character(last.end - 1)
    size = max(first.size, *(page.character(it.start).size for it in before[-3:]))
    if max(first.size, final.size) < _SCRIPT * size:  # one script after or above another
        return shift < _MOST_SHIFT_OF_TWO * size and -size < gap < _MOST_GAP * size
    return (
        0 < shift < _MOST_SHIFT * size
        and -_SPACE * size < gap < _MOST_GAP * size
        and min(first.size, final.size) < _SCRIPT * size
    )


def _pieces(text: str, words: Sequence[PageWord], tables: Sequence[PageTable]) -> Iterator[str]:
    """Yield the words with what is between them; a table stands at the place of its first word."""
    table_of = {id(word): table for table in tables for word in table.words}
    written: set[int] = set()
    before: PageTable | None = None
    end = 0
    for word in words:
        table = table_of.get(id(word))
        space = "" if word.is_glued else " " if word.is_beside else text[end : word.start]
        if table is not before and end and "\n" not in space:
            space = "\n"
        if table is None:
            yield space + word.text
        elif id(table) not in written:
            written.add(id(table))
            yield space + table.markdown
        before, end = table, word.end
    yield text[end:]
