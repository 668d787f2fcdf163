"""Detects PDF text that is codes of glyphs, because its fonts have no character map.

PDFium reports a missing map also for fonts that need none, so the characters are examined, too.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from ctypes import c_void_p, cast
from itertools import pairwise
from typing import Any

from pypdfium2 import PdfTextPage, raw

MOST_UNMAPPED = 0.3
"""Maximum share of characters without a map in text."""

_SAMPLED_CHARS = 300
_FEW_PAIRS = 12
_LEAST_COMMON = 0.3
"""Minimum share of common pairs of letters. European languages have 0.45 to 0.7; letters that are
all moved in the alphabet, as in most of these pages, have 0.05 to 0.2."""

_PAIRS = """
    th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co
    me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ie ei ge un au el sc la ta qu os ad do da
    et us tr il ct em no ss di pr po ca ke ns ka ni na vo va ve ov sk ol mi ci pe lo so ut ue
    """
_COMMON_PAIRS = frozenset(_PAIRS.split())

_MOST_SCRIPTS = 3
_SCRIPTS = """
    CJK HIRAGANA KATAKANA HALFWIDTH FULLWIDTH HANGUL CYRILLIC GREEK ARABIC HEBREW ARMENIAN GEORGIAN
    DEVANAGARI BENGALI TAMIL TELUGU KANNADA MALAYALAM GUJARATI GURMUKHI THAI LAO KHMER MYANMAR
    TIBETAN SINHALA ETHIOPIC MATHEMATICAL
    """
_KNOWN_SCRIPTS = frozenset(_SCRIPTS.split())


def is_glyph_codes(textpage: PdfTextPage) -> bool:
    """Return whether a page's text is codes of glyphs instead of characters."""
    count = textpage.count_chars()
    total = unmapped = private = 0
    for index in range(0, count, 1 + count // _SAMPLED_CHARS):
        code = raw.FPDFText_GetUnicode(textpage, index)
        if code in _BLANKS:
            continue
        total += 1
        private += 0xE000 <= code <= 0xF8FF
        unmapped += raw.FPDFText_HasUnicodeMapError(textpage, index) == 1
    if private > total * MOST_UNMAPPED:
        return True
    return unmapped > total * MOST_UNMAPPED and not is_language(textpage.get_text_range())


def glyph_code_objects(textpage: PdfTextPage) -> list[Any]:
    """Return the text objects whose fonts have no character map, on a page with other fonts."""
    count = textpage.count_chars()
    has_error = raw.FPDFText_HasUnicodeMapError
    if not any(has_error(textpage, index) == 1 for index in range(0, count, _SHORT_WORD)):
        return []
    objects: dict[int, dict[int, Any]] = {}
    texts: dict[int, str] = {}
    unmapped: Counter[int] = Counter()
    for index in range(count):
        shape = raw.FPDFText_GetTextObject(textpage, index)
        font = cast(raw.FPDFTextObj_GetFont(shape), c_void_p).value if shape else None
        if font is None:
            continue
        objects.setdefault(font, {})[cast(shape, c_void_p).value or 0] = shape
        texts[font] = texts.get(font, "") + chr(raw.FPDFText_GetUnicode(textpage, index))
        unmapped[font] += has_error(textpage, index) == 1
    return [
        shape
        for font, text in texts.items()
        if unmapped[font] > MOST_UNMAPPED * len(text) and _is_codes(text)
        for shape in objects[font].values()
    ]


_SHORT_WORD = 3
_MOVE = 29
"""Distance of the codes of most TrueType fonts from ASCII."""


def _is_codes(text: str) -> bool:
    """Return whether the text of a font is codes; a few words are compared with moved ones."""
    pairs = list(_pairs(text))
    if len(pairs) >= _FEW_PAIRS:
        return not is_language(text)
    if " " in text:
        return False
    moved = "".join(chr(ord(it) + _MOVE) for it in text if ord(it) + _MOVE < 0x7F)
    common, moved_common = (
        sum(pair in _COMMON_PAIRS for pair in it) for it in (pairs, _pairs(moved))
    )
    digits = sum(map(str.isdecimal, moved))
    return moved_common > _TIMES * common or (digits > 1 and 2 * digits > len(text))


_TIMES = 2

_BLANKS = frozenset({0, 9, 10, 13, 32, 160})


def is_language(text: str) -> bool:
    """Return whether text is written in a language, as far as its characters show."""
    scripts = Counter(_script(it) for it in text if not it.isspace() and it not in "\ufffe\x02")
    letters = sum(scripts.values()) - scripts[""]
    unknown = scripts.pop("?", 0)
    if unknown > MOST_UNMAPPED * (letters or 1):
        return False
    scripts.pop("", None)
    if sum(count > letters * 0.05 for count in scripts.values()) > _MOST_SCRIPTS:
        return False
    if scripts["LATIN"] <= letters / 2:
        return True
    pairs = list(_pairs(text))
    if len(pairs) < _FEW_PAIRS:
        return True
    return sum(pair in _COMMON_PAIRS for pair in pairs) >= len(pairs) * _LEAST_COMMON


def _script(character: str) -> str:
    """Return the script of a letter, "?" if it is none of a text, "" for other characters."""
    if character.isascii():
        return "LATIN" if character.isalpha() else "" if character.isprintable() else "?"
    category = unicodedata.category(character)
    if category in {"Co", "Cn", "Cc", "Cs"} or character == "\ufffd":
        return "?"
    if category[0] != "L":
        return ""
    if (
        character < "\u0180"
        or "\u1e00" <= character <= "\u1eff"
        or "\ufb00" <= character <= "\ufb06"
    ):
        return "LATIN"
    script = unicodedata.name(character, "").partition(" ")[0]
    return script if script in _KNOWN_SCRIPTS else "?"


def _pairs(text: str) -> Iterator[str]:
    for first, second in pairwise(text.lower()):
        if first.isalpha() and second.isalpha():
            yield first + second
