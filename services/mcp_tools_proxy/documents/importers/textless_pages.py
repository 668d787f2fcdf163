"""Finds pages without text and pages that are pictures, and formats their numbers."""

from collections.abc import Iterator, Sequence
from itertools import islice

from pypdfium2 import PdfPage, raw

from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.wire.problem_texts import join_first

FEW_LETTERS = 100
"""A stamp, a page number, a running title: with fewer letters beside a picture a page is read."""

MIN_SHARE = 0.5
"""Share of the page that pictures cover, where it has some letters."""

_MOST_OBJECTS = 1_000


def is_picture(page: PdfPage, text: str) -> bool:
    """Return whether a page's text is to be read from how the page looks."""
    letters = sum(map(str.isalnum, text))
    if not letters:
        return bool(raw.FPDFPage_CountObjects(page.raw))
    return letters < FEW_LETTERS and _picture_share(page) >= MIN_SHARE


def _picture_share(page: PdfPage) -> float:
    """Return the share of a page that its largest picture covers."""
    width, height = map(float, page.get_size())
    pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    areas = (_area(it.get_bounds()) for it in islice(pictures, _MOST_OBJECTS))
    return max(areas, default=0.0) / max(1.0, width * height)


def _area(bounds: tuple[float, float, float, float]) -> float:
    left, bottom, right, top = bounds
    return max(0.0, right - left) * max(0.0, top - bottom)


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
