"""Reads scanned pages with Tesseract, inside the import process (extra ocr).

The wheel of tesserocr contains the library; the language data, ``*.traineddata``, is in Debian
packages. Tesseract runs in this process, so the limits of the import apply.
"""

import math
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

from pypdfium2 import PdfPage

from mcp_tools_proxy.documents.importers.base import ImportFailed, clean
from mcp_tools_proxy.documents.importers.hyphens import DIVISION
from mcp_tools_proxy.documents.importers.ocr_tables import (
    OcrTable,
    find_tables,
    parse_words,
    text_with_tables,
)
from mcp_tools_proxy.documents.importers.pdf_ideographs import join_ideographs
from mcp_tools_proxy.domain.fast_dataclass import dataclass

DATA_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",  # Debian 12 and 13
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)

DPI = 300
MAX_PIXELS = 20_000_000
"""Pixels of a rendered page, 20 MB; larger pages (A3 has 17 million) get a lower resolution."""

PAGE_TIMEOUT_MS = 60_000
"""Limit per page; a page that takes longer has no text. A dense page takes 2 to 5 s."""

MARGIN = 20
"""Pixels around a table that is read again."""

MIN_CONFIDENCE = 30
"""Minimum confidence in per cent: a photograph yields some letters, too."""

_ORIENTATION = "osd"
_DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")
"""The hyphen of a word divided at the end of a line."""


@dataclass(frozen=True, slots=True)
class PageText:
    """OCR text of a page, and its confidence in per cent."""

    text: str
    confidence: int


class TesseractReader:
    """Reads scanned pages in some languages; loads Tesseract for the first page."""

    def __init__(self, languages: Sequence[str], folders: Sequence[str] = DATA_FOLDERS) -> None:
        self._languages = languages
        self._folders = folders
        self._engine: _Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the loaded engine."""
        if self._engine is not None:
            self._engine.api.End()

    def read(self, page: PdfPage) -> PageText | None:
        """Return the text of a page, or None. Raises ImportFailed."""
        if self._engine is None:
            self._engine = _Engine(self._languages, self._folders)
        return self._engine.read(page)


class _Engine:
    """Tesseract with its data. Raises ImportFailed."""

    def __init__(self, languages: Sequence[str], folders: Sequence[str]) -> None:
        try:
            from tesserocr import PSM, PyTessBaseAPI  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ImportFailed(
                "has scanned pages, but OCR is not installed: install mcp-tools-proxy[ocr], or "
                "use the image tag :ocr"
            ) from error
        folder = _data_folder(languages, folders)
        turns = (folder / f"{_ORIENTATION}.traineddata").exists()
        mode = PSM.AUTO_OSD if turns else PSM.AUTO
        try:
            self.api = PyTessBaseAPI(path=f"{folder}/", lang="+".join(languages), psm=mode)
        except RuntimeError as error:
            raise ImportFailed(
                f"has scanned pages, but OCR cannot use its data for {', '.join(languages)}: "
                "install it again"
            ) from error

    def read(self, page: PdfPage) -> PageText | None:
        scale = _scale(*page.get_size())
        with closing(page.render(scale=scale, grayscale=True)) as bitmap:
            pixels = bytes(bitmap.buffer)
            self.api.SetImageBytes(pixels, bitmap.width, bitmap.height, 1, bitmap.stride)
        self.api.SetSourceResolution(max(70, round(scale * 72)))
        if not self.api.Recognize(PAGE_TIMEOUT_MS):
            return None
        confidence = min(100, max(0, self.api.MeanTextConf()))
        text = join_ideographs(_DIVIDED.sub(DIVISION, clean(self._text()))).strip()
        return PageText(text, confidence) if text and confidence >= MIN_CONFIDENCE else None

    def _text(self) -> str:
        """Return the recognised text; tables are read again, row by row."""
        from tesserocr import Orientation  # noqa: PLC0415 - an extra

        text: str = self.api.GetUTF8Text()
        words = parse_words(self.api.GetTSVText(0))
        tables = find_tables(words)
        if not tables or self.api.GetIterator().Orientation()[0] != Orientation.PAGE_UP:
            return text
        return text_with_tables(words, [(it, self._read_again(it)) for it in tables])

    def _read_again(self, table: OcrTable) -> OcrTable:
        """Read a table as one block: Tesseract leaves out single digits far from other words."""
        from tesserocr import PSM  # noqa: PLC0415 - an extra

        left, top = max(0, table.left - MARGIN), max(0, table.top - MARGIN)
        mode = self.api.GetPageSegMode()
        self.api.SetPageSegMode(PSM.SINGLE_BLOCK)
        self.api.SetRectangle(left, top, table.right + MARGIN - left, table.bottom + MARGIN - top)
        is_read = self.api.Recognize(PAGE_TIMEOUT_MS)
        found = find_tables(parse_words(self.api.GetTSVText(0))) if is_read else []
        self.api.SetPageSegMode(mode)
        return found[0] if len(found) == 1 and found[0].size >= table.size else table


def _data_folder(languages: Sequence[str], folders: Sequence[str]) -> Path:
    missing = list(languages)
    for folder in map(Path, folders):
        lacking = [it for it in languages if not (folder / f"{it}.traineddata").exists()]
        if not lacking:
            return folder
        missing = min(missing, lacking, key=len)
    packages = " ".join(f"tesseract-ocr-{it.lower().replace('_', '-')}" for it in missing)
    raise ImportFailed(
        f"has scanned pages, but OCR lacks the data for {', '.join(missing)}: install Debian's "
        f"{packages}, or name other languages"
    )


def _scale(width: float, height: float) -> float:
    """Return the pixels per point (1/72 inch) for a page size in points."""
    most = math.sqrt(MAX_PIXELS / max(1.0, width * height))
    return min(DPI / 72, most)
