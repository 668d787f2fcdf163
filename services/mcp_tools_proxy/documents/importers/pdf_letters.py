"""Letters of a PDF in reading order: Arabic ligatures, letter-spaced Chinese and Japanese."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from mcp_tools_proxy.documents.importers.pdf_words import PageCharacters, PageWord

_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]{2}")
_LETTER = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LATIN_OR_DIGIT = re.compile(r"[0-9A-Za-z\u00c0-\u024f]")
_PUNCTUATION = ".,;:!?()[]"
_MIRRORED = str.maketrans("()[]", ")(][")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_LEVEL = 0.5
"""Most difference of baselines in a line, in points."""

_IDEOGRAPH = (
    r"[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
_SPACED = re.compile(rf"[（「『《〈“]?{_IDEOGRAPH}[、。，．：；！？）」』》〉”]?")
_IDEOGRAPHS_APART = re.compile(rf"(?<={_IDEOGRAPH}) (?={_IDEOGRAPH})")
_SPACED_PAIR = re.compile(rf"{_SPACED.pattern}\s{_SPACED.pattern}(?!\S)")

_FEW = 3
"""Spaced characters; two are joined only if their line has no others, like a title."""

_MOST_GAP, _MOST_GAP_OF_TITLE = 1.2, 2.5
"""Gaps in widths of a character; the cells of a table are further apart."""

_MOST_UNEVEN = 0.4


def has_right_to_left(text: str) -> bool:
    """Return whether ``text`` has words in Arabic, Hebrew or similar scripts."""
    return _RIGHT_TO_LEFT.search(text) is not None


def has_ideographs(text: str) -> bool:
    """Return whether ``text`` has Chinese or Japanese characters with white space around."""
    return _SPACED_PAIR.search(text) is not None


def join_ideographs(text: str) -> str:
    """Remove the spaces that OCR writes between Chinese and Japanese characters."""
    return _IDEOGRAPHS_APART.sub("", text)


def order_letters(page: PageCharacters, line: list[PageWord]) -> None:
    """Put the letters and words of a right-to-left line into reading order.

    PDFium reverses each line. That is wrong for a ligature, whose glyph stands for several letters,
    and for letters that the file has in reading order already, as Chromium writes them.
    """
    if not any(_RIGHT_TO_LEFT.search(word.text) for word in line):
        return
    for word in line:
        if word.text == page.text[word.start : word.end]:
            word.text = _in_order(_glyphs(page, word))
    _order_words(line)


def _in_order(glyphs: Sequence[tuple[str, float]]) -> str:
    """Return the text of glyphs, given with their left ends."""
    is_right_to_left = any(_LETTER.search(text) for text, _ in glyphs)
    clusters: list[tuple[str, float]] = []
    for text, left in glyphs:
        if clusters and unicodedata.combining(text[0]):
            clusters[-1] = clusters[-1][0] + text, clusters[-1][1]
        else:
            clusters.append((_ordered(text), left))
    has_others = any(_LATIN_OR_DIGIT.search(text) for text, _ in clusters)
    if not is_right_to_left:
        clusters.sort(key=lambda it: it[1])
    elif not has_others:
        clusters.sort(key=lambda it: -it[1])
    text = "".join(text for text, _ in clusters)
    if is_right_to_left or not has_others:
        return text
    rest = text.lstrip(_PUNCTUATION)  # left of a number, it is at its end
    return rest + text[: len(text) - len(rest)][::-1].translate(_MIRRORED)


def _order_words(line: list[PageWord]) -> None:
    """Order the words of a line that is mostly right-to-left; Latin words run left to right."""
    text = "".join(word.text for word in line)
    level = max(word.y for word in line) - min(word.y for word in line)
    if level > _LEVEL or len(_LETTER.findall(text)) < len(_LATIN.findall(text)):
        return
    ordered = sorted(line, key=lambda word: -word.right)
    start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and not _LETTER.search(ordered[end].text):
            end += 1
        if any(_LATIN.search(word.text) for word in ordered[start:end]):
            ordered[start:end] = reversed(ordered[start:end])
        start = end + 1
    if ordered != line:
        _rewrite(line, ordered)


def _rewrite(line: Sequence[PageWord], ordered: Sequence[PageWord]) -> None:
    """Write the words in another order at the places of the line's words."""
    fields = [(word.text, word.left, word.right) for word in ordered]
    for word, (text, left, right) in zip(line, fields, strict=True):
        word.text, word.left, word.right = text, left, right


def _glyphs(page: PageCharacters, word: PageWord) -> list[tuple[str, float]]:
    """Return the letters of each glyph, which share its origin, and its left end."""
    glyphs: list[tuple[str, float]] = []
    before = None
    for number, letter in enumerate(page.text[word.start : word.end]):
        origin = page.origin(word.start + number)
        if origin == before:
            glyphs[-1] = glyphs[-1][0] + letter, origin[0]
        else:
            glyphs.append((letter, origin[0]))
        before = origin
    return glyphs


def _ordered(glyph: str) -> str:
    letters = [letter for letter in glyph if not unicodedata.combining(letter)]
    if len(glyph) == 1 or not _RIGHT_TO_LEFT.search(glyph):
        return glyph
    if len(letters) == 1:
        return glyph if letters[0] == glyph[0] else glyph[::-1]
    known = _presentation_forms()  # PDFium decomposes these itself, in the right order
    is_decomposed = glyph in known and glyph[::-1] not in known
    return glyph if is_decomposed else glyph[::-1]


@cache
def _presentation_forms() -> frozenset[str]:
    codes = (*range(0xFB1D, 0xFE00), *range(0xFE70, 0xFEFD))
    return frozenset(unicodedata.normalize("NFKC", chr(code)).strip() for code in codes)


def join_spaced_characters(line: Sequence[PageWord]) -> None:
    """Glue Chinese and Japanese characters that are spaced evenly, one by one."""
    start = 0
    while start < len(line):
        end = start
        while end < len(line) and _SPACED.fullmatch(line[end].text):
            end += 1
        if end - start >= 2:
            _join(line[start:end], is_title=end - start == len(line))
        start = max(end, start + 1)


def _join(words: Sequence[PageWord], *, is_title: bool) -> None:
    gaps = [
        (second.left - first.right) / max(1.0, first.right - first.left)
        for first, second in pairwise(words)
    ]
    is_short = len(words) <= _FEW + 1 and is_title
    limit = min(_MOST_GAP_OF_TITLE if is_short else _MOST_GAP, min(gaps) + _MOST_UNEVEN)
    if len(words) < _FEW and not is_title:
        return
    for word, gap in zip(words[1:], gaps, strict=True):
        word.is_glued = word.is_glued or gap <= limit
