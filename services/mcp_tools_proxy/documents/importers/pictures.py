"""Imports pictures with OCR (extra ocr): each frame is a page."""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError
from pypdfium2 import PdfBitmap, PdfDocument, PdfImage, PdfMatrix

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    WarningCode,
    build_document,
    no_progress,
    spell_pages,
    warning,
)
from mcp_tools_proxy.documents.importers.hyphens import join_divided_words
from mcp_tools_proxy.documents.importers.ocr import PageText, TesseractReader
from mcp_tools_proxy.domain.document import Document

MAX_PIXELS = 80_000_000
"""Pixels of a frame, four bytes each: A3 at 600 dots per inch has 70 million. Pillow refuses more
than 179 million itself."""

MAX_FRAMES = 1_000

_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP")
_WITH_FRAMES = ("TIFF", "GIF", "WEBP", "PNG")
_POINTS = 72
_DEFAULT_DPI, _LEAST_DPI, _MOST_DPI = 300, 70, 1200
_PAGE_INCHES = 11.7
"""Height of A4, for pictures that do not state their size."""

_NO_OCR = (
    "is a picture. For OCR, set MCP_PROXY_OCR_LANGUAGES, such as eng; this needs "
    "mcp-tools-proxy[ocr] or the image tag :ocr"
)


def import_picture(
    data: bytes,
    options: ImportOptions,
    progress: Progress = no_progress,
    reader: TesseractReader | None = None,
) -> Document:
    """Build a document from the text that OCR finds on a picture. Raises ImportFailed."""
    if reader is None:
        raise ImportFailed(_NO_OCR)
    found: list[PageText | None] = []
    try:
        with Image.open(BytesIO(data), formats=_FORMATS) as picture:
            for number, frame in enumerate(_frames(picture), start=1):
                found.append(_read(frame, reader))
                progress(number, max(number, getattr(picture, "n_frames", 1)))
    except Image.DecompressionBombError as error:
        raise ImportFailed(_TOO_LARGE) from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise ImportFailed("is not a readable picture: save it again as PNG") from error
    return _document(found, options)


_TOO_LARGE = f"has more than {MAX_PIXELS:,} pixels: save it smaller"


def _frames(picture: Image.Image) -> Iterator[Image.Image]:
    """Yield the frames in shades of grey, upright and on white."""
    number = 0
    while number < MAX_FRAMES:
        if math.prod(picture.size) > MAX_PIXELS:
            raise ImportFailed(_TOO_LARGE)
        frame = ImageOps.exif_transpose(picture)
        if "A" in frame.getbands() or "transparency" in frame.info:
            white = Image.new("RGBA", frame.size, "white")
            frame = Image.alpha_composite(white, frame.convert("RGBA"))
        grey = frame.convert("L")
        grey.info["dpi"] = picture.info.get("dpi")
        yield grey
        number += 1
        if picture.format not in _WITH_FRAMES:
            return
        try:
            picture.seek(number)
        except EOFError:
            return
    raise ImportFailed(f"has more than {MAX_FRAMES} frames: cut it into parts")


def _read(frame: Image.Image, reader: TesseractReader) -> PageText | None:
    """Read a frame as a page of a PDF, which the reader draws at the resolution that OCR needs."""
    scale = _POINTS / _dpi(frame)
    width, height = frame.width * scale, frame.height * scale
    with closing(PdfDocument.new()) as pdf:
        image = PdfImage.new(pdf)
        with closing(PdfBitmap.from_pil(frame)) as bitmap:
            image.set_bitmap(bitmap)
        image.set_matrix(PdfMatrix().scale(width, height))
        with closing(pdf.new_page(width, height)) as page:
            page.insert_obj(image)
            page.gen_content()
            return reader.read(page)


def _dpi(frame: Image.Image) -> float:
    stated = frame.info.get("dpi")
    if isinstance(stated, tuple) and stated:
        value = float(stated[0])
        if _LEAST_DPI < value <= _MOST_DPI and value not in (72, 96):  # what programs write unasked
            return value
    return min(_DEFAULT_DPI, max(_LEAST_DPI, max(frame.size) / _PAGE_INCHES))


def _document(found: list[PageText | None], options: ImportOptions) -> Document:
    texts = [page.text if page else "" for page in found]
    pages = join_divided_words(texts, options.language)
    empty = [number for number, text in enumerate(pages, start=1) if not text.strip()]
    if len(empty) == len(pages):
        raise ImportFailed("has no text that OCR can read: scan it again")
    warnings = []
    if empty:
        message = f"Pages {spell_pages(empty)} of {len(pages)} have no text; OCR found none."
        warnings.append(warning(WarningCode.OCR_WITHOUT_TEXT, message))
    document = build_document(
        options, pages=pages, headings=(), text_format="plain", warnings=warnings
    )
    return replace(document, ocr=tuple(page.confidence if page else None for page in found))
