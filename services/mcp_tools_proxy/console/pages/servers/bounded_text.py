"""Bounds what foreign texts take up of a page, as it is sent: escaped, with nothing hidden."""

from typing import NamedTuple

from markupsafe import escape

from mcp_tools_proxy.wire.text import readable


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
