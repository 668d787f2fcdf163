"""Superscripts and subscripts of a PDF, recognised by type size and baseline.

``10^3``, ``x^(n+1)`` and ``H_2O``. Ordinals (``1st``) stay letters, footnote marks become ``[1]``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import c_float
from enum import Enum
from itertools import groupby

from pypdfium2 import PdfPage, raw

from mcp_tools_proxy.documents.importers.pdf_words import Character, PageCharacters, PageWord
from mcp_tools_proxy.documents.importers.superscripts import (
    SuperscriptKind,
    footnote_mark,
    may_be_note,
    superscript_kind,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_SMALL = 0.87
"""Largest size of a script; browsers use 0.83, TeX and Word 0.58 to 0.7 of the text's size."""

_LEAST_RISE, _LEAST_FALL, _MOST_SHIFT = 0.18, 0.06, 0.9
_MOST_GAP, _MOST_SPACE, _MOST_OVERLAP = 0.4, 0.2, 0.3
"""Limits, as shares of the text's size. TeX raises by 0.36 and lowers by 0.15; a drop capital is
followed by smaller letters that are further up, and the A of LaTeX overlaps the L."""

_MOST_WIDTH = 1.5
"""Greatest width of a script above or below another one."""

_MOST_LARGER = 1.25
"""Type larger than that of its line has no scripts: it is a drop capital."""

_SHIFT = 0.3
"""Least difference of baselines in points; rounding and rotation result in less."""

_FORMULA = re.compile(r"[^\W_]\d[^\W\d_]|[^\W\d_]\d[-+×·∗*/=^(]")
"""A word that may have scripts between its first and its last letter: H2O, m2/s."""

_PLAIN_CONTENT = re.compile(r"[-+]?[\w.,′'∗*]+[-+]?|[-+]")
_LETTERS = re.compile(r"[^\W\d_]+$")

_MARK = re.compile(r"\[\w{1,3}(?:[,;–-]\w{1,3})*\]$")
"""A footnote mark, which the next word follows with a space."""


class _Kind(Enum):
    FULL = 0
    RAISED = 1
    LOWERED = 2


@dataclass(frozen=True, slots=True)
class _ScriptRun:
    """Consecutive characters of a word on one level, after the character ``base``, if any."""

    kind: _Kind
    text: str
    base: Character | None


_CONTEXT = 200
"""Characters before a script that decide what it is."""

_MOST_OBJECTS = 3_000
"""Objects of a page that are examined; with more, there may be scripts anywhere."""

_BESIDE = 6.0
"""Points between a script and the text before it."""


@dataclass(frozen=True, slots=True)
class PageShapes:
    """The heights at which small type is beside larger type, and the number of paths.

    ``scripts`` is None if there may be some anywhere: text inside forms is not examined.
    """

    scripts: Sequence[tuple[float, float]] | None
    paths: int


def read_shapes(page: PdfPage) -> PageShapes:
    """Return the kinds of a page's objects, without its text."""
    count = raw.FPDFPage_CountObjects(page)
    if count > _MOST_OBJECTS:
        return PageShapes(None, count)
    matrix, size = raw.FS_MATRIX(), c_float()
    before: tuple[float, object] | None = None
    scripts: list[tuple[float, float]] | None = []
    paths = 0
    for number in range(count):
        shape = raw.FPDFPage_GetObject(page, number)
        kind = raw.FPDFPageObj_GetType(shape)
        if kind == raw.FPDF_PAGEOBJ_FORM:
            scripts = None
        paths += kind in {raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM}
        if kind != raw.FPDF_PAGEOBJ_TEXT or scripts is None:
            continue
        raw.FPDFTextObj_GetFontSize(shape, size)
        raw.FPDFPageObj_GetMatrix(shape, matrix)
        height = size.value * abs(matrix.d)
        if before is not None and before[0] != height and _are_beside(before, (height, shape)):
            _, bottom, _, top = _bounds(shape)
            scripts.append((bottom - max(height, before[0]), top + max(height, before[0])))
        before = height, shape
    return PageShapes(scripts, paths)


def _are_beside(first: tuple[float, object], second: tuple[float, object]) -> bool:
    small, large = sorted((first[0], second[0]))
    if small > _SMALL * large:
        return False
    left, bottom, right, top = _bounds(first[1])
    other_left, other_bottom, other_right, other_top = _bounds(second[1])
    gap = max(left, other_left) - min(right, other_right)
    return -_BESIDE <= gap <= _BESIDE and bottom < other_top and other_bottom < top


def _bounds(shape: object) -> tuple[float, float, float, float]:
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    raw.FPDFPageObj_GetBounds(shape, left, bottom, right, top)
    return left.value, bottom.value, right.value, top.value


class PageNotes:
    """The footnotes of a page: lines in small type below its text that begin with a number."""

    def __init__(self, page: PageCharacters) -> None:
        self._page = page
        self._found: list[tuple[str, float, float]] | None = None

    def has(self, mark: str, text: Character) -> bool:
        """Return whether a note with this mark is below ``text``, in smaller type."""
        if self._found is None:
            self._found = list(self._read())
        return any(
            number == mark and y < text.y and size <= _SMALLER * text.size
            for number, size, y in self._found
        )

    def _read(self) -> Iterator[tuple[str, float, float]]:
        """Yield the number, type size and baseline of each."""
        page = self._page
        lines = [
            (page.size(start), *page.edges((start, end)), end - start)
            for start, end in page.spans()
        ]
        for start, _ in page.spans():
            match = _NOTE_START.match(page.text, start)
            if match is None:
                continue
            left, right, y = page.edges((start, match.end()))
            size = page.size(match.end() - 1)
            is_apart = not any(
                (abs(other_y - y) < size and left - _BESIDE < other_right < left + 1)
                or (
                    other_y < y - 1
                    and other_size * _SMALLER > size
                    and length >= _FEWEST_OF_LINE
                    and other_left < right + _WIDEST_NOTE
                    and left < other_right
                )
                for other_size, other_left, other_right, other_y, length in lines
            )
            if size and is_apart:
                yield match[1], size, y


_NOTE_START = re.compile(r"(\d{1,3})[.)]?\s*[\"'“„«(]?[^\W\d_]")
_SMALLER = 0.92
_FEWEST_OF_LINE = 20
_WIDEST_NOTE = 150.0
"""Points to the right of a note's start that text below it may not have."""


def mark_scripts(
    page: PageCharacters, line: Sequence[PageWord], notes: PageNotes, *, is_beside: bool
) -> None:
    """Change the texts of the words of a line with superscripts or subscripts.

    ``is_beside``: small type is beside larger type at its height.
    """
    found = [
        number
        for number, word in enumerate(line)
        if _may_have_scripts(line, number) or (is_beside and len(word.text) > 2)
    ]
    if not found:
        return
    usual = _usual(page, line)
    if not usual.size:
        return
    written = ""
    for number, word in enumerate(line):
        if number in found:
            previous = line[number - 1] if number else None
            following = line[number + 1].text if number + 1 < len(line) else ""
            _mark_word(page, word, previous, usual, notes, written, following)
            if _MARK.search(word.text) and following[:1].isalnum() and line[number + 1].is_glued:
                line[number + 1].is_glued, line[number + 1].is_beside = False, True
        written = (written + (word.text if word.is_glued else f" {word.text}"))[-_CONTEXT:]


def _may_have_scripts(line: Sequence[PageWord], number: int) -> bool:
    word = line[number]
    return (
        abs(word.last_y - word.y) > _SHIFT
        or (number > 0 and abs(word.y - line[number - 1].last_y) > _SHIFT)
        or (number == 0 and len(line) > 1 and abs(line[1].y - word.last_y) > _SHIFT)
        or (len(word.text) > 2 and _FORMULA.search(word.text) is not None)
    )


def _usual(page: PageCharacters, line: Sequence[PageWord]) -> Character:
    """Return a character of the line's usual baseline."""
    lengths: Counter[float] = Counter()
    for word in line:
        lengths[round(word.y, 1)] += len(word.text)
    y = max(lengths, key=lengths.__getitem__)
    return page.character(next(word.start for word in line if round(word.y, 1) == y))


def _mark_word(
    page: PageCharacters,
    word: PageWord,
    previous: PageWord | None,
    usual: Character,
    notes: PageNotes,
    before: str,
    following: str,
) -> None:
    first = page.character(word.start)
    if not first.size:
        return
    base = _base_of(page, previous, first, usual)
    if _kind(first, _level(base, usual)) is _Kind.FULL and page.is_one_object(word):
        return
    characters = page.characters(word)
    if not all(character.size for character in characters):
        return
    runs = _runs(characters, base, usual)
    if all(run.kind is _Kind.FULL for run in runs):
        return
    text, glued = "", word.is_glued
    for number, run in enumerate(runs):
        after = "".join(run.text for run in runs[number + 1 :])
        is_attached = bool(text) or (run.base is not None and base is run.base)
        space = "" if glued or base is run.base else " "
        context = f"{before}{space}{text}" if is_attached else ""
        if _is_numerator(page, run, word.end - len(after), usual):
            piece = f" {run.text}" if context[-1:].isdigit() else run.text
        else:
            piece = _write(run, context, after or (f" {following}" if following else ""), notes)
        if not text and number == 0 and is_attached and piece[:1] in {"^", "_"}:
            glued = True
        text += piece
    word.text, word.is_glued = text.strip(), glued and not text.startswith(" ")
    word.is_beside = word.is_beside or (glued and not word.is_glued)


def _base_of(
    page: PageCharacters, previous: PageWord | None, first: Character, usual: Character
) -> Character | None:
    """Return the last character of the previous word, if a script can follow it directly."""
    if previous is None:
        return None
    base = page.character(previous.end - 1)
    return base if _is_near(first, base, usual, _MOST_SPACE) else None


def _is_near(script: Character, base: Character, usual: Character, most: float) -> bool:
    """Return whether a script is right after a character, or above or below a script."""
    gap = (script.left - base.right) / (base.size or usual.size)
    is_stacked = max(base.size, script.size) < _SMALL * usual.size
    return -(_MOST_WIDTH if is_stacked else _MOST_OVERLAP) <= gap <= most


def _runs(
    characters: Sequence[Character], base: Character | None, usual: Character
) -> list[_ScriptRun]:
    level, full = _level(base, usual), base
    kinds: list[tuple[_Kind, Character, Character | None]] = []
    for character in characters:
        kind = _kind(character, level)
        if kind is _Kind.FULL:
            kinds.append((kind, character, None))
            if character.size >= _SMALL * usual.size:
                level = full = character
        else:
            kinds.append((kind, character, full))
    runs: list[_ScriptRun] = []
    for (kind, after), group in groupby(kinds, key=lambda it: (it[0], it[2])):
        parts = [character for _, character, _ in group]
        text = "".join(character.text for character in parts)
        beside = [it for it in (after, *_ends(runs, characters)) if it is not None]
        if (
            kind is not _Kind.FULL
            and after is not None
            and not any(_is_near(parts[0], it, usual, _MOST_GAP) for it in beside)
        ):
            kind = _Kind.FULL  # noqa: PLW2901 - such as the limits of a sum
        runs.append(_ScriptRun(kind, text, after))
    return runs


def _level(base: Character | None, usual: Character) -> Character:
    """Return the character that a script after ``base`` is compared with."""
    return base if base is not None and base.size >= _SMALL * usual.size else usual


def _ends(runs: Sequence[_ScriptRun], characters: Sequence[Character]) -> list[Character]:
    """Return the last character of the runs so far: a script may follow another one."""
    count = sum(len(run.text) for run in runs)
    return [characters[count - 1]] if count else []


def _kind(character: Character, level: Character) -> _Kind:
    shift = (character.y - level.y) / level.size
    if character.size > _SMALL * level.size or abs(shift) > _MOST_SHIFT:
        return _Kind.FULL
    if shift >= _LEAST_RISE:
        return _Kind.RAISED
    return _Kind.LOWERED if shift <= -_LEAST_FALL else _Kind.FULL


def _write(run: _ScriptRun, before: str, after: str, notes: PageNotes) -> str:
    if run.kind is _Kind.FULL or not any(map(str.isalnum, run.text)):
        return _sign(run.text) if run.kind is _Kind.RAISED else run.text
    if run.kind is _Kind.LOWERED:
        return _write_subscript(run.text, before)
    kind = superscript_kind(run.text, before, after)
    is_listed = (
        kind is SuperscriptKind.EXPONENT
        and run.base is not None
        and run.text.isdigit()
        and may_be_note(before, after)
        and notes.has(run.text, run.base)
    )
    return _write_superscript(run.text, before, after, SuperscriptKind.NOTE if is_listed else kind)


def _sign(text: str) -> str:
    """Return a raised ring as the degree sign."""
    return "°" if text in {"◦", "○", "∘"} else text


def _write_subscript(text: str, before: str) -> str:
    if not before or not (before[-1].isalnum() or before[-1] in ")]}"):
        return text
    letters = _LETTERS.search(before)
    is_long_word = letters is not None and len(letters[0]) > 3
    return text if is_long_word and not text.isdigit() else f"_{_content(text)}"


def _is_numerator(page: PageCharacters, run: _ScriptRun, end: int, usual: Character) -> bool:
    """Return whether a raised number is followed by a small one after a line, as in 1/2."""
    if run.kind is not _Kind.RAISED or not run.text.isdigit():
        return False
    below = _FRACTION_LINE.match(page.text, end)
    return below is not None and page.size(below.end()) <= _SMALL * usual.size


_FRACTION_LINE = re.compile(r"\s*[/⁄]\s*(?=\d)")


def _write_superscript(text: str, before: str, after: str, kind: SuperscriptKind) -> str:
    if before.endswith(tuple("([{")):
        return text
    if kind is SuperscriptKind.NOTE:
        return footnote_mark(text, before, after)
    if kind is SuperscriptKind.EXPONENT:
        return f"^{_content(text)}"
    is_degree = text == "o" and before[-1:].isdigit() and _TEMPERATURE.match(after)
    return "°" if is_degree else text


_TEMPERATURE = re.compile(r"[CF](?![^\W_])")


def _content(text: str) -> str:
    text = _ascii(text)
    is_whole = _PLAIN_CONTENT.fullmatch(text) or (
        text[0] == "(" and text.find(")") == len(text) - 1
    )
    return text if is_whole else f"({text})"


def _ascii(text: str) -> str:
    return text.replace("−", "-").replace("–", "-")
