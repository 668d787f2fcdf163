"""Letters of right-to-left lines of a PDF in reading order, found by their places.

This inverts the Unicode bidirectional algorithm: PDFium's own order is wrong for ligatures, vowel
marks, brackets and numbers, and for letters that the file has in reading order already.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, groupby, pairwise

from mcp_tools_proxy.documents.importers.pdf_words import Character, PageCharacters, PageWord
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_RIGHT_TO_LEFT = re.compile(
    r"[\u0590-\u065f\u066e-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]{2}"
)
_OPENING, _CLOSING = "([{«‹", ")]}»›"
_MIRRORED = str.maketrans(_OPENING + _CLOSING, _CLOSING + _OPENING)
_STOPS = frozenset(".!?؟۔…")

_LEAST_GAP, _LEAST_GAP_IN_WORD = 0.12, 0.2
"""Least width of a space, as a share of the type size: between neighbouring words of PDFium, and
between other letters."""

_MOST_RISE, _MOST_APART = 0.4, 1.0
"""Limits for the parts of a line, shares of the type size: Chromium shifts letters with marks."""

_MOST_GLYPHS = 1_000
"""Limit per line: placing marks takes quadratic time."""

_KINDS = {"L": "l", "R": "h", "AL": "r", "AN": "a", "EN": "e", "CS": "c", "ES": "s", "ET": "t"}
"""Letters for kinds of characters: from the left, Hebrew, Arabic, numbers (Arabic or European),
their separators, signs and units; "n" are others."""

_RIGHT_TO_LEFT_RUN = re.compile(r"[hr](?:[^l]*[hr])?")
_LEFT_TO_RIGHT_RUN = re.compile(r"(?:[ae][^hr]*?)?l(?:[^hr]*[lae])?")
_NUMBER = re.compile(r"t*e(?:[cs]?e)*t*|a(?:c?a)*")
_NUMBER_BEFORE = re.compile(r"[^lhrae]*a(?:c?a)*")


@dataclass(frozen=True, slots=True)
class _Glyph:
    """The letters of a glyph with their vowel marks, or a space."""

    text: str
    left: float
    right: float
    y: float
    kind: str
    word: int = 0


def has_right_to_left(text: str) -> bool:
    """Return whether ``text`` has words in Arabic, Hebrew or similar scripts."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None


def join_marked_letters(page: PageCharacters, lines: list[list[PageWord]]) -> None:
    """Join lines that PDFium divides at letters with vowel marks."""
    joined: list[list[PageWord]] = []
    for line in lines:
        if joined and _is_continued(page, joined[-1], line):
            joined[-1].extend(line)
        else:
            joined.append(line)
    lines[:] = joined


def _is_continued(
    page: PageCharacters, before: Sequence[PageWord], line: Sequence[PageWord]
) -> bool:
    size = page.size(line[0].start)
    parts = (before, line)
    if abs(before[-1].last_y - line[0].y) > _MOST_RISE * size or not all(
        any(_is_mark(it) or _kind(it) in "hr" for word in words for it in word.text)
        for words in parts
    ):
        return False
    if not any(_is_mark(it) for words in parts for word in words for it in word.text):
        return False
    lefts = [min(min(word.left, word.right) for word in words) for words in parts]
    rights = [max(max(word.left, word.right) for word in words) for words in parts]
    return -size < max(lefts) - min(rights) < _MOST_APART * size


def order_letters(page: PageCharacters, lines: Sequence[list[PageWord]]) -> None:
    """Put the letters and words of a page's right-to-left lines into reading order."""
    found = [
        (line, glyphs)
        for line in lines
        if has_right_to_left("".join(word.text for word in line))
        and (glyphs := _glyphs(page, line))
    ]
    sides = [_side_of_stop(glyphs) for _, glyphs in found]
    for (line, glyphs), side in zip(found, sides, strict=True):
        kinds = [it.kind for it in glyphs]
        is_latin = kinds.count("l") > kinds.count("h") + kinds.count("r")
        is_from_left = is_latin or (side or sum(sides)) > 0
        seen = _as_seen(glyphs)
        if not is_from_left:
            _rewrite(line, _from_right(seen))
            continue
        # PDFium mirrors a bracket before the first word: its text is not a part of the rest
        end = _end_of_bracket(seen) if seen[0].text != glyphs[0].text else 0
        inner = [seen[0], *_from_left(seen[1 : end - 1]), seen[end - 1]] if end else []
        _rewrite(line, [*inner, *_from_left(seen[end:])])


def _side_of_stop(glyphs: Sequence[_Glyph]) -> int:
    """Return 1 if the full stop is at the right end, as in paragraphs set from left, or -1."""
    return (glyphs[-1].text in _STOPS) - (glyphs[0].text in _STOPS)


def _from_left(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """Return the glyphs of a paragraph that is set from left, in reading order."""
    kinds = "".join(it.kind for it in glyphs)
    ordered: list[_Glyph] = []
    done = 0
    for match in _RIGHT_TO_LEFT_RUN.finditer(kinds):
        start, end = match.span()
        between = kinds[done:start]
        if "l" not in between and (number := re.search("[ae]", between)):
            start = done + number.start()
        if number := _NUMBER_BEFORE.match(kinds, end):
            end = number.end()
        start, end = _with_bracket(glyphs, start, end)
        ordered += [*glyphs[done:start], *_from_right(glyphs[start:end])]
        done = end
    return [*ordered, *glyphs[done:]]


def _end_of_bracket(glyphs: Sequence[_Glyph]) -> int:
    """Return the end of the bracket that a line begins with, or 0."""
    depth = 0
    for number, glyph in enumerate(glyphs, start=1):
        depth += (glyph.text in _OPENING) - (glyph.text in _CLOSING)
        if depth <= 0:
            return number if number > 1 else 0
    return 0


def _from_right(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """Return glyphs from right to left; numbers and Latin words run left to right."""
    kinds = _with_arabic_numbers("".join(it.kind for it in glyphs))
    runs = [_with_bracket(glyphs, *it.span()) for it in _LEFT_TO_RIGHT_RUN.finditer(kinds)]
    for match in _NUMBER.finditer(kinds):
        if not any(start <= match.start() < end for start, end in runs):
            runs.append(match.span())
    reversed_glyphs: list[_Glyph] = []
    parts: list[tuple[int, int]] = []
    at = len(glyphs)
    for start, end in sorted(runs, reverse=True):
        reversed_glyphs += glyphs[end:at][::-1]
        parts.append((len(reversed_glyphs), start))
        at = start
    reversed_glyphs += glyphs[:at][::-1]
    reversed_glyphs = [replace(it, text=it.text.translate(_MIRRORED)) for it in reversed_glyphs]
    ends = dict(runs)
    for place, start in reversed(parts):
        reversed_glyphs[place:place] = glyphs[start : ends[start]]
    return reversed_glyphs


def _with_arabic_numbers(kinds: str) -> str:
    """Return kinds with European numbers after Arabic letters as Arabic ones."""
    found: list[str] = []
    letter = ""
    for kind in reversed(kinds):
        letter = kind if kind in "lhr" else letter
        found.append("a" if kind == "e" and letter == "r" else kind)
    return "".join(reversed(found))


def _with_bracket(glyphs: Sequence[_Glyph], start: int, end: int) -> tuple[int, int]:
    """Return a run with the bracket at its end, if it opens or closes one within the run."""
    depth = sum((it.text in _OPENING) - (it.text in _CLOSING) for it in glyphs[start:end])
    if depth > 0 and end < len(glyphs) and glyphs[end].text in _CLOSING:
        return start, end + 1
    if depth < 0 and start and glyphs[start - 1].text in _OPENING:
        return start - 1, end
    return start, end


def _as_seen(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """Return glyphs with brackets as they look: PDFium mirrors only some."""
    seen = list(glyphs)
    for opening, closing in zip(_OPENING, _CLOSING, strict=True):
        places = [at for at, it in enumerate(glyphs) if it.text in {opening, closing}]
        depths = list(accumulate(1 if glyphs[at].text == opening else -1 for at in places))
        if len(places) % 2 == 0 and places and (min(depths) < 0 or depths[-1]):
            for number, at in enumerate(places):
                seen[at] = replace(seen[at], text=closing if number % 2 else opening)
    return seen


def _rewrite(line: list[PageWord], ordered: Sequence[_Glyph]) -> None:
    """Write glyphs as the words of a line."""
    end, is_glued = line[-1].end, line[0].is_glued
    parts = groupby(ordered, lambda it: it.text == " ")
    words = [list(group) for is_space, group in parts if not is_space]
    line += [PageWord(end, end, "", 0, 0, 0, 0) for _ in words[len(line) :]]
    del line[len(words) :]
    for number, (word, glyphs) in enumerate(zip(line, words, strict=True)):
        word.text = "".join(it.text for it in glyphs)
        word.left, word.right = min(it.left for it in glyphs), max(it.right for it in glyphs)
        word.y, word.last_y = glyphs[0].y, glyphs[-1].y
        word.is_glued, word.is_beside = is_glued and not number, word.is_beside or number > 0
    line[-1].end = end


def _glyphs(page: PageCharacters, line: Sequence[PageWord]) -> list[_Glyph]:
    """Return the glyphs of a line from left, with spaces; none if the text is not upright."""
    glyphs: list[_Glyph] = []
    marks: list[Character] = []
    number = 0
    for before, word in zip([None, *line], line, strict=False):
        if before is not None and not word.is_glued:
            number += "\n" not in page.text[before.end : word.start]
        if word.text == page.text[word.start : word.end]:
            found: list[_Glyph] = []
            _add_letters(page.characters(word), number, found, marks)
            glyphs += [replace(it, text=_ligature(it.text)) for it in found]
        else:
            left, right = sorted((word.left, word.right))
            glyphs.append(_Glyph(word.text, left, right, word.y, _kind(word.text), number))
    size = page.size(line[0].start)
    if not glyphs or not size or len(glyphs) + len(marks) > _MOST_GLYPHS:
        return []
    for mark in sorted(marks, key=lambda it: unicodedata.combining(it.text)):
        at = min(range(len(glyphs)), key=lambda it: _distance(mark, glyphs[it]))
        right = max(glyphs[at].right, mark.right)
        glyphs[at] = replace(glyphs[at], text=glyphs[at].text + mark.text, right=right)
    return _with_spaces(sorted(glyphs, key=lambda it: it.left), size)


def _add_letters(
    letters: Sequence[Character], number: int, glyphs: list[_Glyph], marks: list[Character]
) -> None:
    """Add the letters of a word; those of a ligature share their origin."""
    last: Character | None = None
    for it in letters:
        if _is_mark(it.text):
            marks.append(it)
        elif last is not None and (it.left, it.y) == (last.left, last.y):
            text = glyphs[-1].text + it.text
            glyphs[-1] = replace(glyphs[-1], text=text, right=max(glyphs[-1].right, it.right))
        else:
            glyphs.append(_Glyph(it.text, it.left, it.right, it.y, _kind(it.text), number))
            last = it


def _with_spaces(glyphs: Sequence[_Glyph], size: float) -> list[_Glyph]:
    spaced = list(glyphs[:1])
    for first, second in pairwise(glyphs):
        are_neighbours = abs(first.word - second.word) == 1
        least = _LEAST_GAP if are_neighbours else _LEAST_GAP_IN_WORD
        if second.left - first.right > least * size:
            spaced.append(_Glyph(" ", first.right, second.left, first.y, "n"))
        spaced.append(second)
    return spaced


def _distance(mark: Character, glyph: _Glyph) -> tuple[bool, float]:
    """Return how far a mark is from a glyph; those with the same origin belong together."""
    middle = (mark.left + mark.right) / 2
    distance = max(glyph.left - middle, middle - glyph.right, 0)
    return (mark.left, mark.y) != (glyph.left, glyph.y), distance


def _is_mark(letter: str) -> bool:
    return unicodedata.combining(letter) > 0


def _kind(text: str) -> str:
    """Return the kind of a text, which is that of its first letter, if it has one."""
    kinds = [_KINDS.get(unicodedata.bidirectional(it), "n") for it in text]
    return next((it for it in kinds if it in "lhr"), kinds[0])


def _ligature(glyph: str) -> str:
    """Return the letters of a ligature in reading order."""
    if len(glyph) == 1 or not _RIGHT_TO_LEFT.search(glyph):
        return glyph
    known = _presentation_forms()  # PDFium decomposes these itself, in the right order
    is_decomposed = glyph in known and glyph[::-1] not in known
    return glyph if is_decomposed else glyph[::-1]


@cache
def _presentation_forms() -> frozenset[str]:
    codes = (*range(0xFB1D, 0xFE00), *range(0xFE70, 0xFEFD))
    return frozenset(unicodedata.normalize("NFKC", chr(code)).strip() for code in codes)
