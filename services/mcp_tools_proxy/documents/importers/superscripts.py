"""Tells exponents from ordinals, abbreviations and marks of footnotes, for PDF and markup alike."""

import re
import unicodedata
from enum import Enum


class SuperscriptKind(Enum):
    """The meaning of a superscript by the text around it; markup and PDF differ in UNKNOWN ones."""

    PLAIN = 0
    EXPONENT = 1
    NOTE = 2
    UNKNOWN = 3


_NOTE = re.compile(r"\d{1,3}(?:[,;–-] ?\d{1,3})*[,;]?|[a-z](?:[,;] ?[a-z])*")
_EXPONENT = re.compile(r"[-+−–]?\d[\d.,/]*[-+−–]?|[-+−–]|[a-z]")
_LETTERS = re.compile(r"[^\W\d_]+$")
_NUMBER = re.compile(r"(?<![\d.,])(?<![^\W\d_][-–])\d{1,2}$")
_MATHEMATICAL = re.compile(r"[\(\[{|][^()\[\]{}|]*[\)\]}|]$")
_ISOTOPE = re.compile(
    r"(?:H|He|Li|B|C|N|O|F|Na|Si|P|S|Cl|Ar|K|Ca|Fe|Co|Ga|Kr|Sr|Y|Mo|Tc|Xe|Cs|Lu|Pb|Po|Rn|Ra|Th|U"
    r"|Pu)(?![^\W_])"
)
_LARGE_ISOTOPE = re.compile(r"[A-Z][a-z]?(?![a-z])")
_CHARGE = re.compile(r"\d?[-+−–]")
_ELEMENT = re.compile(r"[A-Z][a-z]?")
_COMPOUND = re.compile(r"[^\W\d_][\w)]+_\d+$")
"""A chemical formula such as SO_4; a raised number after it is a footnote mark."""
_INDEXED = re.compile(r"[_^]\(?\w+$")
_PRODUCT = re.compile(r"[=+−*/×·<>≤≥(\d]\s?[A-Za-z\u0370-\u03ff]{2}$|[\u0370-\u03ff]\w$")
"""Two variables after a sign, such as those of E = mc^2."""
_CONSONANTS = re.compile(r"[b-df-hj-np-tv-xz]{2}")
_VARIABLE = re.compile(r"[A-Za-z\u0370-\u03ff]$")
_PRIMED = re.compile(r"(?<![^\W_])[A-Za-z]['’′]$")
_IN_EQUATION = re.compile(r"\s?[=+×·*/<>≤≥]|\s[-−–]\s?\w")
_BEFORE_BASE = re.compile(r"[=+×·*/<>≤≥−(]\s?\w+$")
_USUAL_BASE = re.compile(r"(?<![\w.,])(?:2|10)$")
_MOST_BASE = 3
"""Letters of a base in an equation: AB^2 + BC^2 = AC^2."""

_ALWAYS_ORDINAL = frozenset({"th", "st", "nd", "rd"})
_ORDINAL = re.compile(
    r"er|ers|[eè]re|[eè]res|re|res|e|es|[eè]me|[eè]mes|è|o|a|os|as|º|ª|nde?s?|de|s?te|bis|ter|quater"
    r"|[dnrtvm][ao]s?"
)
_ROMAN = re.compile(r"(?<![^\W_])(?:[IVXM]|[IVXLCDM]{2,})$")
"""Of one letter, those of centuries and heads of state; C^e and L^a are powers."""
_LONG_NUMBER = re.compile(r"(?:\d{3}|\d[.,]\d+)$")
_PLACE = re.compile(
    r"(?<![^\W_])(?:pages?|pp?\.|tables?|figures?|figs?\.|notes?|lines?|chapters?|sections?|of|the|and)\s\d+$",
    re.IGNORECASE,
)
_FEMININE = re.compile(
    r"(?<![^\W_])(?:las?|[dn]?as?|[àe]s?|una|uma|y|de|en|em|(?:a|de|ne|da|su)lla)\s\d+$",
    re.IGNORECASE,
)
_BEFORE_NOUN = re.compile(r"\s[^\W\d_]|,?\s\d|[.,]?\s[yeou]\s")
_NOTE_LETTER = re.compile(r"[a-h]")
_POWER = re.compile(r"(?<![\w.,])(?<![^\W_]-)(?!(?:1[5-9]|20)\d\d$)\d[\d.,]*$")
"""A number, but not a year, which has no powers."""
_SECOND = re.compile(r"(?<![^\W_])II$")
_NUMBERED = re.compile(r"\d$")
_ABBREVIATED = re.compile(
    r"""(?<![^\W_])(?:
      [Nn](?:os?|ro|º)
    | M(?:e|es|me|mes|lle|lles|r|rs|gr|grs)
    | D(?:r|rs|re|ra|ras)
    | S(?:t|ts|te|tes|r|res|ra|ras|ta)
    | C(?:ie|ies|o)
    | V(?:ve|ves)
    | [JP]r | P(?:te|tes)
    | [rvf]o
    )""",
    re.VERBOSE,
)
"""A letter and its raised ending: No, Mme, Dr, St, Cie."""
_DOTTED = re.compile(r"(?:\d|(?<![^\W_])[NnMDS])\.$")
_TRADE_MARKS = frozenset({"TM", "SM", "®", "©", "™", "℠"})
_REGISTERED = frozenset({"MC", "MD", "R"})

_UNIT = re.compile(
    r"[cmkdnpµμu]?m|ft|in|yd|mi|m?s|min|hr?|[km]?g|lb|[md]?[lL]|[KJWVAN]|k?Pa|[kMG]?Hz|mol|px|em|ha|dB"
    r"|eV|cd|rad|sr|bar|atm|st|feet|foot|inch|inches|miles?|yards?|sec|мм?|[ск]м"
    r"|мили|метров|[千厘毫]?米|公里|[kMGTmµμ](?:Wh?|V|J|eV)|Wh|Å"
    r"|(?i:(?:kilo|centi|milli|deci|hecto|micro|nano)?m[eèé]t(?:er|re|ro|ri)s?)"
)
_FUNCTION = re.compile(r"(?:sin|cos|tan)h?|cot|sech?|csc|log|ln|exp|det|tg|ctg")


def superscript_kind(text: str, before: str, after: str) -> SuperscriptKind:
    """Return the meaning of a superscript; ``before`` is "" if it follows no text directly."""
    is_note = _NOTE.fullmatch(text) is not None
    if not before:
        if text.isdigit() and (_LARGE_ISOTOPE if len(text) > 1 else _ISOTOPE).match(after):
            return SuperscriptKind.EXPONENT
        return SuperscriptKind.NOTE if is_note else SuperscriptKind.PLAIN
    if _is_plain(text, before, after):
        return SuperscriptKind.PLAIN
    if _is_exponent(text, before, after):
        return SuperscriptKind.EXPONENT
    return SuperscriptKind.NOTE if is_note else SuperscriptKind.UNKNOWN


def _is_plain(text: str, before: str, after: str) -> bool:
    """Return whether it is an ordinal (1st, XIXe), an abbreviation (No, Mme) or a trade mark."""
    lowered = text.lower().strip(".")
    letters = _LETTERS.search(before)
    if lowered in _ALWAYS_ORDINAL or text in _TRADE_MARKS:
        return True
    if text in _REGISTERED:
        return letters is not None and len(letters[0]) > 1
    if text == "a" and before[-1].isdigit():
        return _is_feminine(before, after)
    roman = _ROMAN.search(before)
    if _ORDINAL.fullmatch(lowered) and (
        (_NUMBERED.search(before) and (len(lowered) > 1 or lowered in text))
        or (roman is not None and (len(roman[0]) > 1 or lowered in text))
        or (_DOTTED.search(before) and lowered in {"a", "o", "as", "os", "º", "ª"})
    ):
        return True
    if lowered == "d" and _SECOND.search(before):
        return True
    is_one = letters is not None and len(letters[0]) == 1
    return bool(is_one and _ABBREVIATED.fullmatch(before[-2:].lstrip()[-1:] + lowered))


def _is_feminine(before: str, after: str) -> bool:
    """Return whether a raised a makes an ordinal (12ª edición) of a number: it can be a note."""
    if _LONG_NUMBER.search(before) or _PLACE.search(before):
        return False
    return bool(_BEFORE_NOUN.match(after) or _FEMININE.search(before))


def _is_exponent(text: str, before: str, after: str) -> bool:
    letters = _LETTERS.search(before)
    if letters is not None:
        return _is_exponent_of_word(text, letters[0], before, after)
    if before[-1].isdigit():
        if _COMPOUND.search(before):
            return _CHARGE.fullmatch(text) is not None
        if _NOTE_LETTER.fullmatch(text) and _INDEXED.search(before) is None:
            return not may_be_note(before, after)
        return (
            text[0] in "+-−–"
            or _NUMBER.search(before) is not None
            or _INDEXED.search(before) is not None
            or _IN_EQUATION.match(after) is not None
            or _BEFORE_BASE.search(before) is not None
        )
    if before[-1] in ")]}|":
        return _is_mathematical(before)
    return unicodedata.category(before[-1]) == "Sm" or _PRIMED.search(before) is not None


def _is_exponent_of_word(text: str, word: str, before: str, after: str) -> bool:
    if _CHARGE.fullmatch(text) and _ELEMENT.fullmatch(word):
        return True
    if text in {"2", "3", "n"} and (
        _PRODUCT.search(before)
        or _CONSONANTS.fullmatch(word)
        or (len(word) <= _MOST_BASE and (_IN_EQUATION.match(after) or _BEFORE_BASE.search(before)))
    ):
        return True
    if _INDEXED.search(before):
        return True
    if len(word) == 1 and _VARIABLE.match(word):
        return True
    is_usual = _UNIT.fullmatch(word) or _FUNCTION.fullmatch(word)
    return bool(is_usual and _EXPONENT.fullmatch(text))


def _is_mathematical(before: str) -> bool:
    """Return whether the bracket that ends there holds a formula, not words."""
    found = _MATHEMATICAL.search(before)
    return found is not None and re.search(r"[^\W\d_]{3}|^\[[\d,;–-]+\]|\d{3}\)", found[0]) is None


def may_be_note(base: str, after: str) -> bool:
    """Return whether a raised number after a number can be the mark of a listed footnote."""
    return (
        base[-1:].isdigit()
        and _USUAL_BASE.search(base) is None
        and _IN_EQUATION.match(after) is None
        and _BEFORE_BASE.search(base) is None
    )


def is_power(text: str, base: str) -> bool:
    """Return whether a raised number follows a number: an exponent if no note has it."""
    return text.isdigit() and _POWER.search(base) is not None


def footnote_mark(text: str, before: str, after: str) -> str:
    """Return the mark of a footnote in brackets, separated from the words beside it."""
    start = " " if before and not before[-1].isspace() else ""
    end = " " if after[:1].isalnum() else ""
    mark = text.rstrip(",;")
    return f"{start}{mark if mark.startswith('[') else f'[{mark}]'}{end}"
