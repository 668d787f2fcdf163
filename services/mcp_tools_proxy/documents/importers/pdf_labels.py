"""Adds form fields and text boxes to a PDF page's text, beside their labels.

Each becomes an invisible word of the page while its text is read, so that reading order and tables
include it; then its value replaces the word.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from ctypes import c_double, c_float, c_void_p, cast
from itertools import pairwise
from math import hypot
from typing import Any

from pypdfium2 import PdfDocument, PdfPage, raw

from mcp_tools_proxy.documents.importers.pdf_annotations import (
    Annotation,
    AnnotationKind,
    Box,
    wide_string,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_WORD = re.compile(r"zqj(\d{1,6})zqj")
_FAR = 100.0
_NEAR = 14.0
"""Points. A label above a field is used if it is near and the label to its left is far away."""

_BAND = 20.0
_TALLEST = 120.0
"""Points from the top of a field in which its label is searched."""

_MOST_PLACED = 1_000
"""Annotations of a page beside their labels; more follow the text. 5,000 took 90 s of CPU."""

_MOST_WIDTH = 2.0

_SAME_LINE, _LONGEST_LABEL, _MOST_MOVED = 2.0, 40, 100
"""Points between baselines of a line; letters of a label; text objects that are moved."""


@dataclass(frozen=True, slots=True)
class _Letter:
    """A character of the page: ``place`` counts in its text object."""

    box: Box
    holder: int
    place: int
    x: float
    y: float
    size: float


@dataclass(frozen=True, slots=True)
class _Word:
    """A word to add, at its baseline; after ``place`` characters of a text object."""

    text: str
    x: float
    y: float
    width: float
    size: float
    holder: int | None
    place: int


@contextmanager
def with_annotations(
    pdf: PdfDocument, page: PdfPage, annotations: Sequence[Annotation]
) -> Iterator[Callable[[str], str]]:
    """Add annotations to the page for the block; yields a function that completes its text."""
    if not annotations:
        yield str
        return
    layer = _WordLayer(pdf, page)
    try:
        layer.add(annotations[:_MOST_PLACED])
        others = [it.text for it in annotations[_MOST_PLACED:]]
        yield lambda text: "\n".join((layer.complete(text), *others))
    finally:
        layer.remove()


def has_annotation(text: str) -> bool:
    """Return whether text contains an annotation that is not completed."""
    return _WORD.search(text) is not None


class _WordLayer:
    """Words added to a page, and text objects that they replace."""

    def __init__(self, pdf: PdfDocument, page: PdfPage) -> None:
        self._pdf = pdf
        self._page = page
        self._turn = _Turn(page)
        self._texts: list[str] = []
        self._added: list[Any] = []
        self._replaced: list[Any] = []

    def add(self, annotations: Sequence[Annotation]) -> None:
        """Insert a word for each annotation."""
        letters = _PageLetters(self._page, self._turn)
        by_holder: dict[int, list[_Word]] = defaultdict(list)
        inserted: dict[int, list[_Word]] = defaultdict(list)
        after: dict[int, list[_Word]] = defaultdict(list)
        boxes = [self._turn.box(it.box) for it in annotations]
        for moved, before in letters.moved_texts(annotations, boxes):
            self._move([letters.objects[it] for it in moved], letters.objects[before])
        for it, box in zip(annotations, boxes, strict=True):
            word = letters.word_for(it, box)
            (inserted[0] if word.holder is None else by_holder[word.holder]).append(word)
        top = {_address(it): at for at, it in enumerate(_top_objects(self._page))}
        for holder, words in by_holder.items():
            at = top.get(holder, len(top))
            places = {it.place for it in words}
            if holder in top and min(places) >= letters.length(holder):
                at += 1
                after[at] += words
            elif holder not in top or places != {0}:
                self._replaced.append(letters.objects[holder])
                words.extend(letters.parts(holder, places))
            inserted[at] += words
        for it in self._replaced:
            raw.FPDFPageObj_SetIsActive(it, 0)
        self._insert_all(inserted, after)

    def _insert_all(
        self, inserted: Mapping[int, list[_Word]], after: Mapping[int, list[_Word]]
    ) -> None:
        """Insert words by their position; those ``after`` an object precede those before one."""
        for at in sorted(inserted, reverse=True):
            first = set(map(id, after.get(at, ())))
            for word in sorted(inserted[at], key=lambda it: (id(it) in first, it.y, -it.x)):
                self._insert(word, at)

    def complete(self, text: str) -> str:
        """Replace the words by their texts."""
        return _WORD.sub(self._completed, text)

    def remove(self) -> None:
        for it in self._added:
            if raw.FPDFPage_RemoveObject(self._page, it):
                raw.FPDFPageObj_Destroy(it)
        for it in self._replaced:
            raw.FPDFPageObj_SetIsActive(it, 1)

    def _move(self, texts: Sequence[Any], before: Any) -> None:
        """Move text objects after another one, so that a line is read from left to right."""
        order = [_address(it) for it in _top_objects(self._page)]
        if not {*map(_address, texts), _address(before)} <= set(order):
            return
        for it in reversed(texts):
            if raw.FPDFPage_RemoveObject(self._page, it):
                order.remove(_address(it))
                at = order.index(_address(before)) + 1
                raw.FPDFPage_InsertObjectAtIndex(self._page, it, at)
                order.insert(at, _address(it))

    def _completed(self, match: re.Match[str]) -> str:
        if int(match[1]) >= len(self._texts):
            return match[0]
        start, end = match.span()
        before, after = match.string[start - 1 : start], match.string[end : end + 4]
        space_before = " " if before and not before.isspace() and before not in "([" else ""
        space_after = " " if after[:1].isalnum() and not after.startswith("zqj") else ""
        return f"{space_before}{self._texts[int(match[1])]}{space_after}"

    def _insert(self, word: _Word, at: int) -> None:
        created = raw.FPDFPageObj_NewTextObj(self._pdf, b"Helvetica", c_float(word.size))
        raw.FPDFText_SetText(created, wide_string(f"zqj{len(self._texts)}zqj"))
        raw.FPDFTextObj_SetTextRenderMode(created, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        left, right = c_float(), c_float()
        raw.FPDFPageObj_GetBounds(created, left, c_float(), right, c_float())
        stretch = min(_MOST_WIDTH, max(0.01, word.width / max(1.0, right.value - left.value)))
        a, b, c, d = self._turn.matrix
        x, y = self._turn.back(word.x, word.y)
        raw.FPDFPageObj_Transform(created, a * stretch, b * stretch, c, d, x, y)
        if raw.FPDFPage_InsertObjectAtIndex(self._page, created, at):
            self._texts.append(word.text)
            self._added.append(created)


class _PageLetters:
    """The visible characters of a page's content, to find labels."""

    def __init__(self, page: PdfPage, turn: "_Turn") -> None:
        self.objects: dict[int, Any] = {}
        self._order: dict[int, int] = {}
        self._texts: dict[int, list[str]] = defaultdict(list)
        self._letters: dict[int, list[_Letter]] = defaultdict(list)
        self._bands: dict[int, list[_Letter]] = defaultdict(list)
        with closing(page.get_textpage()) as textpage:
            for index in range(textpage.count_chars()):
                self._add(textpage, index, turn)

    def length(self, holder: int) -> int:
        """Return the number of characters of a text object, without white space at its end."""
        return self._letters[holder][-1].place + 1

    def parts(self, holder: int, places: set[int]) -> Iterator[_Word]:
        """Yield the parts of a text object between ``places``, as words to add."""
        ends = sorted({0, *places, len(self._texts[holder])})
        for start, end in pairwise(ends):
            letters = [it for it in self._letters[holder] if start <= it.place < end]
            if letters:
                first, last = letters[0], letters[-1]
                text = "".join(self._texts[holder][first.place : last.place + 1])
                width = last.box[2] - first.x
                yield _Word(text, first.x, first.y, width, first.size, holder, first.place)

    def word_for(self, annotation: Annotation, box: Box) -> _Word:
        """Return the word for an annotation, beside its label or after the text above."""
        left, bottom, right, top = box
        width = right - left
        if annotation.kind is AnnotationKind.MARK and (label := self._right(box)):
            return self._word(annotation.text, label, left, width, label.place)
        label, above = self._left(box), self._above(box)
        if label and not (above and left - label.box[2] > _FAR):
            return self._word(annotation.text, label, left, width, self._word_end(label))
        text = annotation.text
        if above is None:
            text = f"{annotation.label}: {text}" if annotation.label else text
            above = self._before(box)
        size = max(1.0, min(12.0, (top - bottom) * 0.8))
        baseline = label.y if label else max(bottom + size / 4, top - size * 1.2)
        if above is None:
            return _Word(text, left, baseline, width, size, None, 0)
        place = self.length(above.holder)
        return _Word(text, left, baseline, width, size, above.holder, place)

    def moved_texts(
        self, annotations: Sequence[Annotation], boxes: Sequence[Box]
    ) -> Iterator[tuple[list[int], int]]:
        """Yield text objects that continue the line of a field, but are drawn later or earlier.

        Each with the text object that a reader sees before it.
        """
        rows = sorted(zip(annotations, boxes, strict=True), key=lambda it: it[1][0])
        marked = {
            label.holder
            for it, box in rows
            if it.kind is AnnotationKind.MARK and (label := self._right(box))
        }
        continuing: set[int] = set()
        moved: set[int] = set()
        for it, box in rows:
            before = self._left(box)
            if it.kind is AnnotationKind.MARK:
                after, is_near = self._right(box), True
            else:
                after = self._next(box)
                is_near = after is not None and after.box[0] - box[2] < _NEAR
            if (
                before is None
                or after is None
                or not is_near
                or abs(after.y - before.y) > _SAME_LINE
                or box[0] - before.box[2] > _FAR
                or (before.holder in marked and before.holder not in continuing)
                or len(self._run(before)) > _LONGEST_LABEL
                or len(moved) > _MOST_MOVED
            ):
                continue
            texts = list(dict.fromkeys(letter.holder for letter in self._run(after)))
            places = [self._order[holder] for holder in (before.holder, *texts)]
            continuing.update(texts)
            is_next = places == list(range(places[0], places[0] + len(places)))
            if (before.holder in moved or not is_next) and all(
                abs(letter.y - before.y) <= _SAME_LINE and letter.x > before.x
                for holder in texts
                for letter in self._letters[holder]
            ):
                moved.update(texts)
                yield texts, before.holder

    def _run(self, letter: _Letter) -> list[_Letter]:
        """Return the letters of a text on one line, without wide gaps."""
        bands = {int((letter.y + shift) // _BAND) for shift in (-_NEAR, 0, _NEAR)}
        line = [
            it
            for band in bands
            for it in self._bands.get(band, ())
            if abs(it.y - letter.y) <= _SAME_LINE
        ]
        line.sort(key=lambda it: it.x)
        first = last = line.index(letter)
        while first and line[first].x - line[first - 1].box[2] < _NEAR:
            first -= 1
        while last + 1 < len(line) and line[last + 1].x - line[last].box[2] < _NEAR:
            last += 1
        return line[first : last + 1]

    def _word(self, text: str, label: _Letter, x: float, width: float, place: int) -> _Word:
        return _Word(text, x, label.y, width, label.size, label.holder, place)

    def _word_end(self, letter: _Letter) -> int:
        """Return the place after the word of a letter, which a field can overlap."""
        texts, place = self._texts[letter.holder], letter.place + 1
        while place < len(texts) and not texts[place].isspace() and texts[place] != "_":
            place += 1
        return place

    def _left(self, box: Box) -> _Letter | None:
        """Return the last letter to the left, on the highest line beside the box."""
        beside = [it for it in self._beside(box) if it.box[0] + it.box[2] < 2 * box[0] + 2]
        return max(beside, key=lambda it: (round(it.y), it.box[2]), default=None)

    def _right(self, box: Box) -> _Letter | None:
        """Return the next letter to the right, if it is nearer than the one to the left."""
        right, left = self._next(box), self._left(box)
        if right and left and box[0] - left.box[2] <= right.box[0] - box[2]:
            return None
        return right

    def _next(self, box: Box) -> _Letter | None:
        right = (it for it in self._beside(box) if it.box[0] >= box[2] - 1)
        return min(right, key=lambda it: it.box[0], default=None)

    def _beside(self, box: Box) -> Iterator[_Letter]:
        bottom, top = max(box[1], box[3] - _TALLEST), box[3]
        for band in range(int(bottom // _BAND), int(top // _BAND) + 1):
            for it in self._bands.get(band, ()):
                if bottom <= (it.box[1] + it.box[3]) / 2 <= top:
                    yield it

    def _above(self, box: Box) -> _Letter | None:
        """Return the last letter of the label that is close above."""
        left, _, right, top = box
        near = self._beside((left, top - 2, right, top + _NEAR))
        over = (it for it in near if left - 2 <= it.box[0] and it.box[2] <= right + 2)
        return min(over, key=_from_end, default=None)

    def _before(self, box: Box) -> _Letter | None:
        """Return the last letter of the lowest line above."""
        for band in sorted(it for it in self._bands if it * _BAND >= box[3] - _BAND):
            over = [it for it in self._bands[band] if it.box[1] >= box[3] - 2]
            if over:
                return min(over, key=_from_end)
        return None

    def _add(self, textpage: Any, index: int, turn: "_Turn") -> None:
        found = raw.FPDFText_GetTextObject(textpage, index)
        if not found:  # a space or line end that PDFium adds
            return
        holder = _address(found)
        texts = self._texts[holder]
        texts.append(chr(raw.FPDFText_GetUnicode(textpage, index)))
        if texts[-1].isspace():
            return
        x, y, matrix = c_double(), c_double(), raw.FS_MATRIX()
        raw.FPDFText_GetCharOrigin(textpage, index, x, y)
        raw.FPDFText_GetMatrix(textpage, index, matrix)
        size = raw.FPDFText_GetFontSize(textpage, index) * hypot(matrix.c, matrix.d)
        letter = _Letter(
            turn.box(textpage.get_charbox(index)),
            holder,
            len(texts) - 1,
            *turn.point(x.value, y.value),
            max(1.0, size),
        )
        self.objects[holder] = found
        self._order.setdefault(holder, len(self._order))
        self._letters[holder].append(letter)
        self._bands[int((letter.box[1] + letter.box[3]) / 2 // _BAND)].append(letter)


class _Turn:
    """Converts between the coordinates of a page and those of a reader, who sees it rotated."""

    def __init__(self, page: PdfPage) -> None:
        self._rotation = page.get_rotation()
        self.matrix = {
            0: (1, 0, 0, 1),
            90: (0, 1, -1, 0),
            180: (-1, 0, 0, -1),
            270: (0, -1, 1, 0),
        }[self._rotation]

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates that a reader sees."""
        turned = {0: (x, y), 90: (y, -x), 180: (-x, -y), 270: (-y, x)}
        return turned[self._rotation]

    def back(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of the page."""
        turned = {0: (x, y), 90: (-y, x), 180: (-x, -y), 270: (y, -x)}
        return turned[self._rotation]

    def box(self, box: Box) -> Box:
        """Return the box that a reader sees."""
        one, other = self.point(*box[:2]), self.point(*box[2:])
        return (
            min(one[0], other[0]),
            min(one[1], other[1]),
            max(one[0], other[0]),
            max(one[1], other[1]),
        )


def _from_end(letter: _Letter) -> tuple[float, float]:
    """Return a key that sorts letters from the end of the text."""
    return round(letter.y), -letter.box[2]


def _top_objects(page: PdfPage) -> Iterator[Any]:
    for at in range(raw.FPDFPage_CountObjects(page)):
        yield raw.FPDFPage_GetObject(page, at)


def _address(handle: Any) -> int:
    return cast(handle, c_void_p).value or 0
