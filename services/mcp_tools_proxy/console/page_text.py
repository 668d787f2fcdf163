"""Texts as pages show them: hidden characters escaped, long ones cut, messages as sentences."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import escape

from mcp_tools_proxy.wire.text import readable


def visible_json(value: object, *, indent: int | None = 2) -> str:
    """Return a value as JSON; characters that are not seen are escaped, within its texts.

    Raises RecursionError for a value that is nested too deeply.
    """
    return visible(json.dumps(value, ensure_ascii=False, indent=indent))


def visible(text: str) -> str:
    """Return JSON text with escapes for the characters that are not seen."""
    if is_plain(text):
        return text
    return "".join(it if is_plain(it) else json.dumps(it)[1:-1] for it in text)


def is_plain(text: str) -> bool:
    """Return whether a page shows a text, and a browser sends it back, as it is."""
    return readable(text) == text and "\r" not in text


def is_longer(value: object, max_chars: int) -> bool:
    """Return whether a value would be longer than that as JSON, for about as much work.

    Writing it would take as long as it is, for each field of a page that shows its beginning.
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
    """The beginning of a text, and how many characters of it are not shown."""

    text: str
    left_out: int


def page_cost(text: str) -> int:
    """Return how many bytes of a page a text takes up."""
    return len(escape(readable(text)).encode(errors="replace"))


def page_text(text: str, max_cost: int) -> BoundedText:
    """Cut a text so that it takes up at most ``max_cost`` bytes of a page."""
    shown = text[:max_cost]
    while shown and (cost := page_cost(shown)) > max_cost:
        shown = shown[: min(len(shown) * max_cost // cost, len(shown) - 1)]
    return BoundedText(shown, len(text) - len(shown))


_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?[,;.!?]?(?=\s|$)")
"""A first word that is no name: names have other characters, and a field's ends with a colon."""

_ENDS = (".", "!", "?", "…", ":")


def sentence(message: str) -> str:
    """Return a message as a sentence; a name or the place of a mistake stays as it is written."""
    text = message.strip()
    if _WORD.match(text):
        text = f"{text[0].upper()}{text[1:]}"
    return text if not text or text.endswith(_ENDS) else f"{text}."
