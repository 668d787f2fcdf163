"""Pages that have no text, as the person importing is told of them."""

from collections.abc import Iterator, Sequence

from mcp_tools_proxy.domain.document import Document

MAX_RANGES = 20
"""Ranges of pages that are named; of a book with pictures on every other page that is enough."""


def pages_without_text(document: Document) -> list[int]:
    """Return the numbers of the pages that hold white space at most."""
    return [number for number, text in enumerate(document.pages, start=1) if not text.strip()]


def spell_pages(numbers: Sequence[int]) -> str:
    """Spell ascending page numbers as ranges: ``2-4, 7``."""
    ranges = [
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(numbers)
    ]
    if len(ranges) <= MAX_RANGES:
        return ", ".join(ranges)
    return f"{', '.join(ranges[:MAX_RANGES])} and {len(ranges) - MAX_RANGES} more ranges"


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
