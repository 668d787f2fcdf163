"""Replaces characters that mean the same for a reader by one of them."""

import unicodedata
from functools import lru_cache

_KNOWN_CHARACTERS = 4_096

_QUOTATION_MARKS = dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛‹›′´`ʼ", "'")
_DASHES = dict.fromkeys("‐‑‒–—―−", "-")
_INVISIBLE = dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", "")
_LEVEL = _QUOTATION_MARKS | _DASHES | _INVISIBLE

_SAME_READING = (
    "<compat>",
    "<wide>",
    "<narrow>",
    "<noBreak>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
)
"""Compatibility forms that read alike. Not <super>, <sub> and <fraction>: 10² is not 102."""


@lru_cache(_KNOWN_CHARACTERS)
def level_character(character: str) -> str:
    """Return what stands for a character that is not ASCII: itself, another one, several, none."""
    known = _LEVEL.get(character)
    if known is not None:
        return known
    decomposed = unicodedata.decomposition(character)
    if decomposed.startswith(_SAME_READING) and " 0020" not in decomposed:
        return "".join(map(_level_part, unicodedata.normalize("NFKC", character)))
    return unicodedata.normalize("NFC", character)


def _level_part(character: str) -> str:
    return character if character.isascii() else _LEVEL.get(character, character)
