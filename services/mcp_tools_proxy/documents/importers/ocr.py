"""Reads the text of pages that are pictures with Tesseract, in the importing process (extra ocr).

The library is in the wheel of tesserocr; what it knows of languages, ``*.traineddata``, is in
packages of Debian. Nothing is started: the limits of the importing process are those of Tesseract.
"""

import math
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pypdfium2 import PdfPage

from mcp_tools_proxy.documents.importers.base import ImportFailed, clean

DATA_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",  # Debian 12 and 13
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)

DPI = 300
MAX_PIXELS = 20_000_000
"""Pixels of a page as it is read, 20 MB; a larger page (A3 has 17 million) is drawn coarser."""

PAGE_TIMEOUT_MS = 60_000
"""For one page; one that takes longer has no text. A dense one takes 2 to 5 s."""

MIN_CONFIDENCE = 30
"""Below this, in per cent, what was read is no text: a photograph yields some letters, too."""

_ORIENTATION = "osd"
_PARTED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")
"""A word that was parted at the end of a line."""


@dataclass(frozen=True, slots=True)
class PageText:
    """What was read on one page, and how sure that is, in per cent."""

    text: str
    confidence: int


class TesseractReader:
    """Reads pages that are pictures in some languages; loaded when the first page is read."""

    def __init__(self, languages: Sequence[str], folders: Sequence[str] = DATA_FOLDERS) -> None:
        self._languages = languages
        self._folders = folders
        self._engine: _Engine | None = None

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free what was loaded."""
        if self._engine is not None:
            self._engine.api.End()

    def read(self, page: PdfPage) -> PageText | None:
        """Return what is on the page; None where no text was found. Raises ImportFailed."""
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
        text = _PARTED.sub("", clean(self.api.GetUTF8Text())).strip()
        confidence = min(100, max(0, self.api.MeanTextConf()))
        return PageText(text, confidence) if text and confidence >= MIN_CONFIDENCE else None


def _data_folder(languages: Sequence[str], folders: Sequence[str]) -> Path:
    """Return the folder that has the data of every language. Raises ImportFailed."""
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
    """Return pixels for each point (1/72 inch) of a page of that size in points."""
    most = math.sqrt(MAX_PIXELS / max(1.0, width * height))
    return min(DPI / 72, most)
