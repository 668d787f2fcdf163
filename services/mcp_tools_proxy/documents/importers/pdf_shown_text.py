"""Compares text that a PDF states, an ActualText or a value, with the letters that it shows.

PDFium reads an ActualText in place of the glyphs, and the value of a field in place of its
appearance, so both can plant text that readers do not see.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from ctypes import addressof
from dataclasses import replace
from typing import Any

from pypdfium2 import PdfDocument, PdfPage, PdfTextPage, raw

from mcp_tools_proxy.documents.importers.base import clean
from mcp_tools_proxy.documents.importers.glyph_codes import (
    MOST_UNMAPPED,
    glyph_code_objects,
    may_have_glyph_codes,
)
from mcp_tools_proxy.documents.importers.pdf_annotations import Annotation, count_letters, open_pdf
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MOST_OBJECTS = 50_000
"""Limit per page; text after that keeps its ActualText."""

_MOST_DEPTH = 6


@dataclass(slots=True)
class _Span:
    """The characters of a span of marked content; ``unmapped`` ones have no character map."""

    text: str = ""
    unmapped: int = 0


def use_shown_text(pdf: PdfDocument, page: PdfPage, number: int) -> int:
    """Remove each ActualText of a page that differs from its glyphs; return the letters removed.

    It stays where the glyphs have no character map. ``number`` is that of the page, from 1.
    """
    marked = {at: (it, marks) for at, it in enumerate(_texts(page)) if (marks := _marks(it))}
    if not marked:
        return 0
    span_of = {at: addressof(marks[-1].contents) for at, (_, marks) in marked.items()}
    stated = _spans(page, {addressof(it.contents): span_of[at] for at, (it, _) in marked.items()})
    with closing(pdf[number - 1]) as unmarked:
        shapes = {at: it for at, it in enumerate(_texts(unmarked)) if at in marked}
        for it in shapes.values():
            for mark in _marks(it):
                raw.FPDFPageObj_RemoveMark(it, mark)
        shown = _spans(unmarked, {addressof(it.contents): span_of[at] for at, it in shapes.items()})
    nothing = _Span()
    differing = {
        it
        for it in set(span_of.values())
        if _differ(stated.get(it, nothing).text, shown.get(it, nothing))
    }
    for at, (shape, marks) in marked.items():
        if span_of[at] in differing:
            for mark in marks:
                raw.FPDFPageObj_RemoveMark(shape, mark)
    return sum(count_letters(stated.get(it, nothing).text) for it in differing)


class ShownValues:
    """Reads the appearances of a PDF's fields and text boxes; needs a copy, whose pages change."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._opened = ExitStack()
        self._copy: PdfDocument | None = None

    def close(self) -> None:
        """Close the copy."""
        self._opened.close()

    def use(self, annotations: Sequence[Annotation], number: int) -> tuple[list[Annotation], int]:
        """Replace values by what a page shows; return the annotations, and the letters replaced.

        Without a readable appearance, a value stays. ``number`` is that of the page, from 1.
        """
        used, letters = list(annotations), 0
        places = [at for at, it in enumerate(annotations) if it.is_drawn]
        if not places:
            return used, letters
        if self._copy is None:
            self._copy = self._opened.enter_context(open_pdf(self._data))
        with _appearances(self._copy, number - 1) as textpage:
            shown, left = _Appearances(textpage), 2 * textpage.count_chars()
            for at in places if textpage.count_chars() else ():
                text = shown.replacement(used[at])
                if text is None:
                    continue
                stated = Counter(_letters(used[at].text))
                if not stated <= Counter(_letters(text)):  # "1,000.00" shows all of "1000"
                    letters += stated.total()
                left -= len(text)  # many boxes around the same text would repeat it
                used[at] = replace(used[at], text=text if left >= 0 else "")
        return [it for it in used if it.text], letters


@contextmanager
def _appearances(pdf: PdfDocument, index: int) -> Iterator[PdfTextPage]:
    """Yield the text of the appearances of a page, which become part of the page."""
    with closing(pdf[index]) as page:  # PDFium makes those that NeedAppearances asks for
        others = raw.FPDFPage_CountObjects(page)
        raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)  # adds them after the others
    with closing(pdf[index]) as page:
        for at in range(others):
            raw.FPDFPageObj_SetIsActive(raw.FPDFPage_GetObject(page, at), 0)
        with closing(page.get_textpage()) as textpage:
            codes = glyph_code_objects(textpage) if may_have_glyph_codes(textpage) else []
        for it in codes:
            raw.FPDFPageObj_SetIsActive(it, 0)
        with closing(page.get_textpage()) as textpage:
            yield textpage


class _Appearances:
    """The text of the appearances of a page."""

    def __init__(self, textpage: PdfTextPage) -> None:
        self._textpage = textpage
        self._letters = _letters(textpage.get_text_range())

    def replacement(self, value: Annotation) -> str | None:
        """Return the text that is shown in place of a value; None if the value is shown."""
        text = clean(self._textpage.get_text_bounded(*value.box).replace("\r\n", "\n")).strip()
        shown, stated = _letters(text), _letters(value.text)
        if not shown or not _differ(value.text, _Span(text)):
            return None
        if value.is_list:
            chosen = [it for it in value.text.split(", ") if _letters(it) in shown]
            text = ", ".join(chosen) or text
            return text if text != value.text else None
        is_cut = shown in stated and stated in self._letters  # by the frame of its field
        return None if is_cut else text


def _texts(page: PdfPage) -> Iterator[Any]:
    """Yield the text objects of a page, always in the same order."""
    count = min(raw.FPDFPage_CountObjects(page), MOST_OBJECTS)
    pending = [(raw.FPDFPage_GetObject(page, at), 0) for at in range(count)]
    for _ in range(MOST_OBJECTS):
        if not pending:
            return
        shape, depth = pending.pop()
        kind = raw.FPDFPageObj_GetType(shape)
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            yield shape
        elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _MOST_DEPTH:
            inner = min(raw.FPDFFormObj_CountObjects(shape), MOST_OBJECTS - len(pending))
            pending += [(raw.FPDFFormObj_GetObject(shape, at), depth + 1) for at in range(inner)]


def _marks(text: Any) -> list[Any]:
    """Return the marks of a text object that have an ActualText, the inner ones last."""
    marks = [raw.FPDFPageObj_GetMark(text, at) for at in range(raw.FPDFPageObj_CountMarks(text))]
    kind = raw.FPDFPageObjMark_GetParamValueType
    return [it for it in marks if kind(it, b"ActualText") == raw.FPDF_OBJECT_STRING]


def _spans(page: PdfPage, span_of: Mapping[int, int]) -> dict[int, _Span]:
    """Return the characters of spans; ``span_of`` has the addresses of their text objects."""
    spans: dict[int, _Span] = {}
    with closing(page.get_textpage()) as textpage:
        for index in range(textpage.count_chars()):
            text = raw.FPDFText_GetTextObject(textpage, index)
            span = span_of.get(addressof(text.contents)) if text else None
            if span is not None:
                found = spans.setdefault(span, _Span())
                found.text += chr(raw.FPDFText_GetUnicode(textpage, index))
                found.unmapped += raw.FPDFText_HasUnicodeMapError(textpage, index) == 1
    for it in spans.values():
        units = it.text.encode("utf-16-le", errors="surrogatepass")
        it.text = units.decode("utf-16-le", errors="replace")
    return spans


def _differ(stated: str, shown: _Span) -> bool:
    unknown = shown.unmapped + sum(map(_is_unknown, shown.text))
    if unknown > MOST_UNMAPPED * len(shown.text):
        return False
    one, other = _letters(stated), _letters(shown.text)
    if any(unicodedata.bidirectional(it) in {"R", "AL"} for it in other):
        return sorted(one) != sorted(other)  # glyphs are in the order of the page
    times = max(1, len(one) // max(1, len(other)))  # PDFium repeats some
    return one != times * other


def _is_unknown(character: str) -> bool:
    return unicodedata.category(character) in {"Co", "Cc", "Cn"} or character == "\ufffd"


def _letters(text: str) -> str:
    """Return the letters and digits of a text, without case, accents and Arabic tatweel."""
    folded = unicodedata.normalize("NFKD", text).casefold().translate(_SAME_SHAPE)
    return "".join(filter(str.isalnum, folded))


_SAME_SHAPE = str.maketrans(
    "ı\u06cc\u0649\u06be\u06c1\u06a9", "i\u064a\u064a\u0647\u0647\u0643", "\u0640"
)
"""Dotless i below an accent, yeh, heh and kaf of Arabic alphabets; the tatweel is left out."""
