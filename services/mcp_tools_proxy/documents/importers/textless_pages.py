"""Finds pages without text, and formats their numbers for the person importing."""

from collections.abc import Iterator, Sequence

from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.wire.problem_texts import join_first

MAX_RANGES = 20
"""Ranges of pages listed; a book with a picture on every other page would fill screens."""


def pages_without_text(document: Document) -> list[int]:
    """Return the numbers of the pages that hold nothing but white space."""
    return [number for number, text in enumerate(document.pages, start=1) if not text.strip()]


def spell_pages(numbers: Sequence[int]) -> str:
    """Format ascending page numbers as ranges: ``2-4, 7``."""
    ranges = [
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(numbers)
    ]
    return join_first(ranges, limit=MAX_RANGES, separator=", ", more=" and {} more ranges")


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = number
        elif number != last + 1:
            yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last
