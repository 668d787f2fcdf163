"""Text normalization for comparisons, with a map back to the original text.

White space becomes one space, or nothing next to scripts without spaces (Chinese, Japanese …).
Quotation marks, dashes and ligatures get one form; accents are composed. Hyphens within words are
removed and recorded, because a hyphen at the end of a line may not belong to the word. Superscripts
become ``^3``, subscripts ``_3``, or ``3`` after the end of a formula. ½ becomes 1/2.
"""

import re
import sys
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from enum import Enum, auto
from functools import lru_cache

from mcp_tools_proxy.documents.mapped_text import MappedText, TextEditor
from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import normalize

_KNOWN_CHARACTERS = 4_096

_QUOTATION_MARKS = dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛‹›′´`ʼ", "'")
_DASH_CHARACTERS = dict.fromkeys("‐‑‒–—―−", "-")
_INVISIBLE = dict.fromkeys(
    "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\u061c"
    "\ufeff",
    "",
)
_FRACTION_LINES = dict.fromkeys("⁄∕", "/")
_LEVEL = _QUOTATION_MARKS | _DASH_CHARACTERS | _INVISIBLE | _FRACTION_LINES
_SAME_READING = (
    "<compat>",
    "<wide>",
    "<narrow>",
    "<noBreak>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
    "<fraction>",
)
"""Compatibility forms with the same reading; without <super> and <sub>: 10² is not 102."""

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁱⁿᵃᵇᶜᵈᵉᵏᵐᵖᵗᵘᵛʲˣʸᶻ"
_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₕₖₗₘₙₚₛₜ"
_SCRIPTS = frozenset(_SUPERSCRIPTS + _SUBSCRIPTS)
_SIMPLE_SCRIPT = re.compile(r"-?\w+")

_BASES = (r"[A-Z)\]]", "[A-Z][a-z]", r"\b[a-z]")
"""Ends of formulas and variables, whose subscript digits can be written without ``_``: H2O, x1."""

_BEFORE_SUBSCRIPT = re.compile("|".join(f"(?<={base})" for base in _BASES))


@lru_cache(_KNOWN_CHARACTERS)
def level_character(character: str) -> str:
    """Return the replacement of a non-ASCII character: zero or more characters."""
    known = _LEVEL.get(character)
    if known is not None:
        return known
    decomposed = unicodedata.decomposition(character)
    if decomposed.startswith(_SAME_READING) and " 0020" not in decomposed:
        return "".join(map(_level_part, unicodedata.normalize("NFKC", character)))
    return unicodedata.normalize("NFC", character)


def _level_part(character: str) -> str:
    return character if character.isascii() else _LEVEL.get(character, character)


NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f\U00020000-\U0003ffff"
)
"""Regex class for the letters and punctuation of Thai, Lao, Burmese, Khmer, Chinese and Japanese,
which have no spaces between words."""

_SOFT_HYPHEN = "\xad"
_HYPHENS = "-‐‑\xad"
_DASHES = rf"\-{_HYPHENS[1:]}‒–—―−"

_MOST = 1_000
"""White space or hyphens in one match: a run of 32 MB held the GIL for 0.5 s."""

_FRACTIONS = "¼-¾⅐-⅞↉"
_WHOLE = r"(?<![\d/⁄∕.,])"
"""Before the whole part of a mixed number; 1/4 1/2 3/4 are several numbers."""

_ALTERNATIVES = (
    rf"(?P<mixed>(?:(?<={_WHOLE}\d\s)|(?<={_WHOLE}\d\d\s))(?<!\t)[^\S\t]{{0,{_MOST}}}"
    rf"(?=\d{{1,2}}[/⁄∕]\d{{1,2}}(?![\d/])|[{_FRACTIONS}]))",
    rf"(?P<hyphen>(?<=[{_DASHES}])(?<=\w.)\s{{0,{_MOST}}}(?=\w))",
    f"(?<={_SOFT_HYPHEN})",
    rf"(?<=\s)\s{{0,{_MOST}}}(?=[{NO_SPACES}])",
    rf"(?<=[{NO_SPACES}]\s)\s{{0,{_MOST}}}",
    rf"(?P<subscript>(?:{'|'.join(f'(?<={base}_)' for base in _BASES)})(?=\d))",
    rf"(?P<space>(?<= )\s{{1,{_MOST}}}|(?<=[^\S ])\s{{0,{_MOST}}}|(?<=\s ))",
)

_RUN = f"(?P<run>(?<=-)-{{{_MOST}}}(?=-))"
"""Hyphens that join no words: left unchanged, and skipped without scanning the whole run."""


def _compile(characters: str, *alternatives: str) -> re.Pattern[str]:
    """Compile the pattern of replaced text; ``characters`` are additional first characters.

    Alternatives with different first characters made a search six times slower.
    """
    others = "|".join((*_ALTERNATIVES, *alternatives, _RUN))
    return re.compile(rf"[\s_{_DASHES}{characters}](?:{others})", re.DOTALL)


_PLAIN = _compile("")

_PIECE_CHARS = 50_000
_CHANGES_BETWEEN_PAUSES = 1_000


class Hyphen(Enum):
    """A hyphen or dash between two letters or digits."""

    IN_LINE = auto()
    AT_LINE_END = auto()
    """A hyphen that may not belong to the word, or a soft hyphen."""
    DASH = auto()
    MIXED = auto()
    """The space of 1 1/2, or its place in 1½: neither has ½ as a part."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelText(MappedText):
    """A normalized text with its removed hyphens and the map to the original.

    ``hyphens`` are the positions in ``text`` of hyphens within words, and of both ends of the space
    in a mixed number, in order; ``kinds`` are their ``Hyphen`` values.
    """

    hyphens: "array[int]"
    kinds: bytes

    @property
    def size_bytes(self) -> int:
        """Size of the text and the arrays in memory."""
        parts = (self.text, self.levels, self.places, self.hyphens, self.kinds)
        return sum(map(sys.getsizeof, parts))

    def hyphen_at(self, place: int) -> Hyphen | None:
        """Return the hyphen removed at a position in ``text``, or None."""
        at = bisect_left(self.hyphens, place)
        if at == len(self.hyphens) or self.hyphens[at] != place:
            return None
        return Hyphen(self.kinds[at])

    def hyphens_between(self, start: int, end: int) -> "array[int]":
        """Return the positions of hyphens after ``start`` and before ``end``."""
        return self.hyphens[bisect_right(self.hyphens, start) : bisect_left(self.hyphens, end)]


def level_text(text: str) -> LevelText:
    """Normalize a text. Slow (0.5 s per MB): call in a worker thread; pauses for others."""
    editor = TextEditor(text)
    hyphens, kinds = array("I"), bytearray()
    space_end = -1
    changes = _pattern_of(text).finditer(text)
    for found in paced(changes, every=_CHANGES_BETWEEN_PAUSES):
        if found.lastgroup == "run":
            continue
        start, end = found.span()
        if found.lastgroup == "marks" and start > editor.done:
            start -= 1
        new = _replacement(found.lastgroup, text[start:end], text[max(start - 1, 0) : start])
        if found.lastgroup == "space":
            new = "" if start == space_end else new  # one run of white space
            space_end = end
        elif new[:1] == "_" and new[1].isdigit() and _BEFORE_SUBSCRIPT.match(text, start):
            new = new[1:]
        level = editor.replace(start, end, new)
        if found.lastgroup == "hyphen":
            hyphens.append(level)
            before = text[max(start - _LIST_MARK_CHARS, 0) : start]
            kinds.append(_hyphen(found[0], before, text[end]).value)
        elif found.lastgroup in {"changed", "mixed"} and new[:1] == " ":
            hyphens.extend((level, level + 1))
            kinds.extend([Hyphen.MIXED.value] * 2)
    mapped = editor.finish()
    return LevelText(mapped.text, mapped.levels, mapped.places, hyphens, bytes(kinds))


def _pattern_of(text: str) -> re.Pattern[str]:
    if text.isascii():
        return _PLAIN
    seen: set[str] = set()
    for at in range(0, len(text), _PIECE_CHARS):  # in one piece it held the GIL for 20 ms per MB
        seen.update(text[at : at + _PIECE_CHARS])
    several = sorted(seen - _ASCII)
    changed = re.escape("".join(it for it in several if level_character(it) != it))
    marks = re.escape("".join(it for it in several if _joins_others(it)))
    alternatives = []
    if seen & _SCRIPTS:
        changed_scripts = (f"(?<=[{it}])(?:/?[{it}])*" for it in (_SUPERSCRIPTS, _SUBSCRIPTS))
        alternatives.append(f"(?P<script>{'|'.join(changed_scripts)})")
    if marks:
        alternatives.append(f"(?P<marks>(?<=[{marks}])[{marks}]*)")
    if changed:
        alternatives.append(f"(?P<changed>(?<=[{changed}]))")
    scripts = "".join(seen & _SCRIPTS)
    return _compile(changed + marks + scripts, *alternatives)


_ASCII = frozenset(map(chr, range(128)))


def _joins_others(character: str) -> bool:
    """Return whether a character can compose with the preceding one."""
    return unicodedata.combining(character) > 0 or "\u1160" <= character <= "\u11ff"


_LIST_MARK = re.compile(r"(?:\n|^)[^\S\n]*[(\[§]?(?:\d{1,3}|[^\W\d_])\Z")
_LIST_MARK_CHARS = 12


def _hyphen(found: str, before: str, after: str) -> Hyphen:
    neighbours = before[-1] + after
    if found[0] == _SOFT_HYPHEN:
        return Hyphen.AT_LINE_END
    if after.isalpha() and found[1:] and "\n" not in found and _LIST_MARK.search(before):
        return Hyphen.DASH  # 6- The fee
    if neighbours.isdigit():  # 10–20 counts as one number, so a quote of 10 alone would cut it
        return Hyphen.IN_LINE
    if found[0] not in _HYPHENS:
        return Hyphen.DASH
    return Hyphen.AT_LINE_END if "\n" in found and neighbours.isalpha() else Hyphen.IN_LINE


def _replacement(group: str | None, found: str, before: str) -> str:
    match group:
        case "changed":
            is_mixed = before.isdigit() and re.fullmatch(f"[{_FRACTIONS}]", found)
            return f" {level_character(found)}" if is_mixed else level_character(found)
        case "space" | "mixed":
            return " "
        case "marks":
            return normalize("NFC", found)
        case "script":
            return scripted("^" if found[0] in _SUPERSCRIPTS else "_", normalize("NFKC", found))
    return ""


def scripted(mark: str, content: str) -> str:
    """Return a superscript (``^``) or subscript (``_``) in the form of imported documents."""
    content = content.replace("−", "-")
    return mark + (content if _SIMPLE_SCRIPT.fullmatch(content) else f"({content})")
