"""Truncation, quoting, escaping and normalization of text; token estimates; hidden characters.

Text with tag characters (U+E0000 …) or zero-width characters looks harmless in terminals, editors
and reviews, but reads differently for a model.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from mcp_tools_proxy.domain.fast_dataclass import dataclass


class HiddenKind(StrEnum):
    """Kind of a hidden character."""

    BIDI_CONTROL = "bidi_control"
    TAG_CHARACTER = "tag_character"
    ZERO_WIDTH = "zero_width"
    FORMAT_CHARACTER = "format_character"


_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_TAG = "\U000e0000-\U000e007f"
_ZERO_WIDTH = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060\u3164\ufe00-\ufe0d\ufeff\uffa0"
    "\U000e0100-\U000e01ef"
)
_FORMAT = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2"
    "\u2028\u2029\u2061-\u2065\u206a-\u206f\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
_SELECTOR = r"(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe0e\ufe0f]"
"""U+FE0E and U+FE0F select the look of the preceding emoji; a second one hides a byte."""

_KINDS = (
    (HiddenKind.BIDI_CONTROL, re.compile(f"[{_BIDI}]")),
    (HiddenKind.TAG_CHARACTER, re.compile(f"[{_TAG}]")),
    (HiddenKind.ZERO_WIDTH, re.compile(f"[{_ZERO_WIDTH}]|{_SELECTOR}")),
    (HiddenKind.FORMAT_CHARACTER, re.compile(f"[{_FORMAT}]")),
)

HIDDEN = re.compile(f"[{_BIDI}{_TAG}{_ZERO_WIDTH}{_FORMAT}]|{_SELECTOR}")
"""Matches each hidden character; tabs and line ends are not hidden."""

HIDDEN_IN_WORDS = re.compile(f"[{_BIDI}{_TAG}{_ZERO_WIDTH}{_FORMAT}\ufe0e\ufe0f]+")
"""Matches a run of hidden characters, including emoji selectors, which words do not need."""

TAGGED_FLAGS = "\U0001f3f4(?:\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067" + (
    "|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f)"
)
"""Matches the flags of England, Scotland and Wales, the only ones made of tag characters."""


def hidden_kind(text: str, start: int, end: int) -> HiddenKind:
    """Return the kind of a run that ``HIDDEN`` matched in ``text``.

    The run alone is not sufficient: a selector is hidden because of the preceding character.
    """
    return next(kind for kind, pattern in _KINDS if pattern.search(text, start, end))


def hidden_kinds(text: str) -> tuple[HiddenKind, ...]:
    """Return the kinds of hidden characters in ``text``, each once."""
    if HIDDEN.search(text) is None:
        return ()
    return tuple(kind for kind, pattern in _KINDS if pattern.search(text))


QUOTE_CHARS = 128


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a text; the rest begins at ``next_start_char``, None after the last part."""

    text: str
    next_start_char: int | None


def cut_text(parts: Iterable[str], *, start_char: int, max_bytes: int) -> Cut:
    """Return text from ``start_char`` of the joined ``parts``, at most ``max_bytes`` of UTF-8.

    Truncates at a character boundary (contract §2), and reads only the necessary parts. With
    ``max_bytes`` ≥ 4, each call makes progress.
    """
    pieces: list[str] = []
    skip, characters = start_char, 0
    for part in parts:
        if skip >= len(part):
            skip -= len(part)
            continue
        piece = part[skip:] if skip else part
        skip = 0
        pieces.append(piece)
        characters += len(piece)
        if characters > max_bytes:  # already more than max_bytes in UTF-8
            break
    text = "".join(pieces)
    cut = cut_utf8(text, max_bytes)
    return Cut(cut, start_char + len(cut) if len(cut) < len(text) else None)


def cut_utf8(text: str, max_bytes: int) -> str:
    """Truncate ``text`` to at most ``max_bytes`` of UTF-8, at a character boundary."""
    if len(text) * 4 <= max_bytes:
        return text
    head = text[:max_bytes]
    if utf8_len(head) <= max_bytes:
        return head
    return head.encode()[:max_bytes].decode(errors="ignore")


def cut_utf8_tail(text: str, max_bytes: int) -> str:
    """Keep at most the last ``max_bytes`` of UTF-8 of ``text``, at a character boundary."""
    if len(text) * 4 <= max_bytes:
        return text
    data = text.encode()
    return text if len(data) <= max_bytes else data[len(data) - max_bytes :].decode(errors="ignore")


def utf8_len(text: str) -> int:
    """Count the bytes of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def estimate_tokens(characters: int) -> int:
    """Estimate tokens from a number of characters (or bytes of JSON): a quarter (contract §2)."""
    return characters // 4


def quote(text: str, max_chars: int = QUOTE_CHARS) -> str:
    """Quote a foreign string for a message: truncated, escaped, in double quotes."""
    shown = text if len(text) <= max_chars else text[:max_chars] + "…"
    return '"' + printable(shown.translate(_QUOTABLE)) + '"'


def printable(text: str) -> str:
    """Escape characters that a terminal would interpret or not display."""
    shown = text if HIDDEN.search(text) is None else HIDDEN.sub(_escape_match, text)
    return shown if shown.isprintable() else "".join(_escape(char) for char in shown)


def readable(text: str) -> str:
    """Escape like ``printable``, except line feeds, tabs and wide blanks, which occur in prose."""
    shown = text if HIDDEN.search(text) is None else HIDDEN.sub(_escape_match, text)
    if shown.isprintable():
        return shown
    return "".join(char if char in "\n\t" or char.isspace() else _escape(char) for char in shown)


def ascii_text(text: str, max_chars: int = QUOTE_CHARS) -> str:
    """Truncate a text to ``max_chars``, and escape all except printable ASCII."""
    return ascii(text[:max_chars])[1:-1]


def file_name_text(name: str) -> str:
    """Return a file name for a message; invalid UTF-8 becomes escapes."""
    return os.fsencode(name).decode(errors="backslashreplace")


_QUOTABLE = str.maketrans({'"': '\\"', "\\": "\\\\"})


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def _escape(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


PIECE_CHARS = 256
"""Limit for a run of combining marks: normalization time grows with the square of its length."""

_PIECE = re.compile(rf"[\x00-\x7f]?[^\x00-\x7f]{{0,{PIECE_CHARS}}}")


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Normalize ``text`` piece by piece, which bounds the time.

    Pieces begin at ASCII characters, which never combine with the preceding text. Only in runs of
    more than PIECE_CHARS other characters, two can stay uncombined.
    """
    if text.isascii() or unicodedata.is_normalized(form, text):
        return text
    if len(text) <= PIECE_CHARS:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _PIECE.findall(text))
