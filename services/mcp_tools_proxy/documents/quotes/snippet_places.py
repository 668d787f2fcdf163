"""Finds where a snippet stands on its page."""

from collections.abc import Sequence

from mcp_tools_proxy.domain.document import PageSpan


def span_of_snippet(snippet: str, page: int, text: str) -> PageSpan | None:
    """Return where a snippet's words stand in the text of its page; None if they do not.

    A chunk that came with its document may have other text than its page.
    """
    words = snippet.strip("…").split()
    start = text.find(words[0]) if words else -1
    while start >= 0:
        end = _end_of_words(text, start, words)
        if end is not None:
            return PageSpan(page, start, end)
        start = text.find(words[0], start + 1)
    return None


def _end_of_words(text: str, start: int, words: Sequence[str]) -> int | None:
    """Return where words end that stand from ``start`` on with white space between; else None."""
    end = start
    for word in words:
        while end < len(text) and text[end].isspace():
            end += 1
        if not text.startswith(word, end):
            return None
        end += len(word)
    return end
