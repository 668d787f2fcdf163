r"""Characters that a person does not see and a model reads, by what they are used for.

A description with tag characters (U+E0000 …) or zero-width characters looks harmless in a terminal,
an editor and a review, and tells a model something else.
"""

import re
from enum import StrEnum


class HiddenKind(StrEnum):
    """What a hidden character is."""

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
"""U+FE0E and U+FE0F choose how the emoji before them looks; a second one hides a byte."""

_KINDS = (
    (HiddenKind.BIDI_CONTROL, re.compile(f"[{_BIDI}]")),
    (HiddenKind.TAG_CHARACTER, re.compile(f"[{_TAG}]")),
    (HiddenKind.ZERO_WIDTH, re.compile(f"[{_ZERO_WIDTH}]|{_SELECTOR}")),
    (HiddenKind.FORMAT_CHARACTER, re.compile(f"[{_FORMAT}]")),
)

HIDDEN = re.compile(f"[{_BIDI}{_TAG}{_ZERO_WIDTH}{_FORMAT}]|{_SELECTOR}")
"""Matches each hidden character; a tab and the ends of lines are none."""

HIDDEN_IN_WORDS = re.compile(f"[{_BIDI}{_TAG}{_ZERO_WIDTH}{_FORMAT}\ufe0e\ufe0f]+")
"""Matches a run of hidden characters, also the selectors of an emoji, which no word needs."""


def hidden_kind(text: str, start: int, end: int) -> HiddenKind:
    """Return the kind of a run that ``HIDDEN`` matched in ``text``.

    The run alone does not tell: a selector is hidden by the character before it.
    """
    return next(kind for kind, pattern in _KINDS if pattern.search(text, start, end))


def hidden_kinds(text: str) -> tuple[HiddenKind, ...]:
    """Return the kinds of hidden characters that ``text`` holds, each once."""
    if HIDDEN.search(text) is None:
        return ()
    return tuple(kind for kind, pattern in _KINDS if pattern.search(text))
