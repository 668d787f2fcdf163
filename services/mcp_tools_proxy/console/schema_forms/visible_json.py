"""JSON text in which every character is seen: pages show hidden ones as escapes, as JSON does."""

import json
from collections.abc import Mapping

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
