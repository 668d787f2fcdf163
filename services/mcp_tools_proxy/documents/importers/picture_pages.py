"""Finds the pages of a PDF that are pictures: with no text, or next to none beside a picture."""

from itertools import islice

from pypdfium2 import PdfPage, raw

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
