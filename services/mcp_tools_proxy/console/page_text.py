"""Texts for display: hidden characters escaped, long texts truncated, messages as sentences."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import escape

from mcp_tools_proxy.wire.text import HIDDEN_IN_WORDS, readable


def visible_json(value: object, *, indent: int | None = 2) -> str:
    """Return a value as JSON with hidden characters escaped.

    Raises RecursionError if it is nested too deeply.
    """
    return visible(json.dumps(value, ensure_ascii=False, indent=indent))


def exact_json(value: object) -> str:
    """Return a value as JSON in which different characters look different.

    Also escapes what ``visible_json`` shows: blanks other than the space, and emoji selectors.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if text.isascii():
        return text
    return "".join(
        it if it == "\n" or (it.isprintable() and not _INVISIBLE(it)) else json.dumps(it)[1:-1]
        for it in text
    )


_INVISIBLE = re.compile(f"{HIDDEN_IN_WORDS.pattern}|\u2800").fullmatch
"""Matches a hidden character, or Braille without dots."""


def visible(text: str) -> str:
    """Escape the hidden characters of a JSON text."""
    if is_plain(text):
        return text
    return "".join(it if is_plain(it) else json.dumps(it)[1:-1] for it in text)


def is_plain(text: str) -> bool:
    """Return whether pages show, and browsers send back, a text unchanged."""
    return readable(text) == text and "\r" not in text


def is_longer(value: object, max_chars: int) -> bool:
    """Return whether a value exceeds ``max_chars`` as JSON, approximately.

    The work is limited by ``max_chars``: serializing large values would be slow for fields that
    show only their beginning.
    """
    left = max_chars
    values = [value]
    while values and left >= 0:
        it = values.pop()
        left -= len(it) if isinstance(it, str | list | Mapping) else 1
        if left >= 0 and isinstance(it, Mapping):
            values += it
            values += it.values()
        elif left >= 0 and isinstance(it, list):
            values += it
    return left < 0


class BoundedText(NamedTuple):
    """The beginning of a text, and the number of characters omitted."""

    text: str
    left_out: int


def page_cost(text: str) -> int:
    """Return the bytes that a text takes in a page."""
    return len(escape(readable(text)).encode(errors="replace"))


def page_text(text: str, max_cost: int) -> BoundedText:
    """Truncate a text to at most ``max_cost`` bytes of a page."""
    shown = text[:max_cost]
    while shown and (cost := page_cost(shown)) > max_cost:
        shown = shown[: min(len(shown) * max_cost // cost, len(shown) - 1)]
    return BoundedText(shown, len(text) - len(shown))


_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?[,;.!?]?(?=\s|$)")
"""A first word that is not a name: names have other characters, and fields end with a colon."""

_ENDS = (".", "!", "?", "…", ":")


def sentence(message: str) -> str:
    """Return a message as a sentence; a leading name or field path keeps its spelling."""
    text = message.strip()
    if _WORD.match(text):
        text = f"{text[0].upper()}{text[1:]}"
    return text if not text or text.endswith(_ENDS) else f"{text}."
