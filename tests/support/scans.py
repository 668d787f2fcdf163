"""Builds scans: PDFs whose pages are pictures of text."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from io import BytesIO
from typing import Literal

from fpdf import FPDF
from pypdfium2 import PdfDocument

DPI = 150


def text_pdf(*pages: Sequence[str]) -> FPDF:
    """Return a PDF with pages of lines in large print, half the usual height."""
    pdf = FPDF(unit="pt", format=(595, 300))
    pdf.set_font("helvetica", size=16)
    for lines in pages:
        pdf.add_page()
        for number, line in enumerate(lines, start=1):
            pdf.text(40, 30 * number, line)
    return pdf


def scan_of(
    *pages: Sequence[str], texts: Sequence[str] = (), stamp: str = "", turned: int = 0
) -> bytes:
    """Return a PDF of pictures, rotated by degrees, then of pages of text.

    Each picture has a stamp that is text.
    """
    pdf = FPDF(unit="pt")
    pdf.set_font("helvetica", size=12)
    pictures: dict[tuple[str, ...], tuple[BytesIO, tuple[int, int]]] = {}
    for lines in map(tuple, pages):
        if lines not in pictures:
            pictures[lines] = _picture_of(lines, turned)
        picture, size = pictures[lines]
        pdf.add_page(format=size)
        pdf.image(picture, x=0, y=0, w=size[0])
        if stamp:
            pdf.text(20, size[1] - 20, stamp)
    for text in texts:
        pdf.add_page()
        pdf.cell(text=text)
    return bytes(pdf.output())


def searchable_scan(
    lines: Sequence[str], invisible: Mapping[tuple[float, float], str] | None = None
) -> bytes:
    """Return a picture of lines with their text as an invisible layer, and other invisible text."""
    pdf = FPDF(unit="pt")
    pdf.set_font("helvetica", size=16)
    picture, size = _picture_of(lines, 0)
    pdf.add_page(format=size)
    pdf.image(picture, x=0, y=0, w=size[0])
    places = {(40.0, 30.0 * number): line for number, line in enumerate(lines, start=1)}
    with pdf.local_context(text_mode="INVISIBLE"):
        for (x, y), text in {**places, **(invisible or {})}.items():
            pdf.text(x, y, text)
    return bytes(pdf.output())


def scan_of_table(rows: Sequence[Sequence[str]], *, border: Literal[0, 1]) -> bytes:
    """Return a picture of a table, with lines or without."""
    table = FPDF(unit="pt")
    table.set_font("helvetica", size=14)
    table.add_page()
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            table.set_xy(60 + 100 * column, 60 + 24 * number)
            table.cell(100, 24, cell, border=border)
    picture, size = _drawn(table, 0)
    pdf = FPDF(unit="pt")
    pdf.add_page(format=size)
    pdf.image(picture, x=0, y=0, w=size[0])
    return bytes(pdf.output())


def _picture_of(lines: Sequence[str], turned: int) -> tuple[BytesIO, tuple[int, int]]:
    return _drawn(text_pdf(lines), turned)


def _drawn(source: FPDF, turned: int) -> tuple[BytesIO, tuple[int, int]]:
    """Return a PNG of a page, and its width and height in points."""
    with closing(PdfDocument(bytes(source.output()))) as pdf:
        drawn = pdf[0].render(scale=DPI / 72, grayscale=True, rotation=turned).to_pil()
        packed = BytesIO()
        drawn.save(packed, "PNG")
    packed.seek(0)
    return packed, (drawn.width * 72 // DPI, drawn.height * 72 // DPI)
