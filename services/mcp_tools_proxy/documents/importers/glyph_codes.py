"""Detects PDF text that is codes of glyphs, because its fonts have no character map.

PDFium reports a missing map also for fonts that need none, so the characters are examined, too.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from ctypes import addressof, c_void_p, cast
from itertools import pairwise, repeat
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


def may_have_glyph_codes(textpage: PdfTextPage) -> bool:
    """Return whether a page has characters without a map, or private ones."""
    page, count = textpage.raw, textpage.count_chars()
    if not _PRIVATE.isdisjoint(map(raw.FPDFText_GetUnicode, repeat(page), _sample(count))):
        return True
    return 1 in map(raw.FPDFText_HasUnicodeMapError, repeat(page), range(0, count, _SHORT_WORD))


def _sample(count: int) -> range:
    return range(0, count, 1 + count // _SAMPLED_CHARS)


def is_glyph_codes(textpage: PdfTextPage) -> bool:
    """Return whether a page's text is codes of glyphs instead of characters."""
    total = unmapped = private = 0
    for index in _sample(textpage.count_chars()):
        code = raw.FPDFText_GetUnicode(textpage, index)
        if code in _BLANKS:
            continue
        total += 1
        private += code in _PRIVATE
        unmapped += raw.FPDFText_HasUnicodeMapError(textpage, index) == 1
    if private > total * MOST_UNMAPPED:
        return True
    return unmapped > total * MOST_UNMAPPED and not is_language(textpage.get_text_range())


def glyph_code_objects(textpage: PdfTextPage) -> list[Any]:
    """Return the text objects whose fonts have no character map, on a page with other fonts."""
    page, count = textpage.raw, textpage.count_chars()
    errors = list(map(raw.FPDFText_HasUnicodeMapError, repeat(page), range(count)))
    objects: dict[int, Any] = {}
    fonts: dict[int, int | None] = {}
    indexes: dict[int, list[int]] = defaultdict(list)
    for index in range(count):
        shape = raw.FPDFText_GetTextObject(page, index)
        if not shape:
            continue
        address = addressof(shape.contents)
        if address not in objects:
            objects[address] = shape
            fonts[address] = cast(raw.FPDFTextObj_GetFont(shape), c_void_p).value
        font = fonts[address]
        if font is not None:
            indexes[font].append(index)
    codes = {font for font, places in indexes.items() if _are_codes(page, places, errors)}
    return [shape for address, shape in objects.items() if fonts[address] in codes]


def _are_codes(page: Any, places: Sequence[int], errors: Sequence[int]) -> bool:
    """Return whether the characters of a font are codes of glyphs."""
    unmapped = sum(errors[it] == 1 for it in places)
    if unmapped <= MOST_UNMAPPED * len(places):
        return False
    return _is_codes("".join(chr(raw.FPDFText_GetUnicode(page, it)) for it in places))


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
_PRIVATE = frozenset(range(0xE000, 0xF900))


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
