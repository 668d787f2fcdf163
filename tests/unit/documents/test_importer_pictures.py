"""Pictures as documents, read by a stand-in for Tesseract."""

from collections.abc import Iterator
from io import BytesIO

import pytest
from PIL import Image
from pypdfium2 import PdfPage

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.ocr import PageText, TesseractReader
from mcp_tools_proxy.documents.importers.pictures import MAX_FRAMES, MAX_PIXELS, import_picture
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan", ocr_languages=("eng",))


class _SizeReader(TesseractReader):
    """Reads the size in points and the brightness of the middle; dark pages have no text."""

    def __init__(self) -> None:
        super().__init__(["eng"])

    def read(self, page: PdfPage) -> PageText | None:
        width, height = page.get_size()
        bitmap = page.render(scale=0.1, grayscale=True)
        middle = bitmap.buffer[bitmap.stride * (bitmap.height // 2) + bitmap.width // 2]
        text = f"{width:.0f} x {height:.0f}, {middle}"
        return PageText(text, 90) if middle > 50 else None


def saved(picture: Image.Image, kind: str, *more: Image.Image, **options: object) -> bytes:
    file = BytesIO()
    several = {"save_all": True, "append_images": more} if more else {}
    picture.save(file, kind, **several, **options)
    return file.getvalue()


def imported(data: bytes) -> Document:
    return import_picture(data, ORIGIN, reader=_SizeReader())


def ratio(document: Document) -> float:
    width, height = map(int, document.pages[0].partition(",")[0].split(" x "))
    return width / height


GREY = Image.new("L", (600, 300), 100)


@each_row("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"])
def test_a_picture_is_a_page_with_its_size_and_confidence(kind: str) -> None:
    document = imported(saved(GREY, kind, dpi=(150, 150)))
    assert ratio(document) == pytest.approx(2, rel=0.01)
    assert document.ocr == (90,)


def test_the_stated_resolution_gives_the_size() -> None:
    assert imported(saved(GREY, "TIFF", dpi=(150, 150))).pages == ("288 x 144, 100",)


def test_each_frame_is_a_page_and_pages_without_text_are_a_warning() -> None:
    black = Image.new("L", (600, 300), 0)
    document = imported(saved(GREY, "TIFF", black, GREY))
    assert [bool(page) for page in document.pages] == [True, False, True]
    assert document.ocr == (90, None, 90)
    (warning,) = document.warnings
    assert (warning.code, "2 of 3" in warning.message) == ("ocr_without_text", True)


def test_a_transparent_picture_stands_on_white() -> None:
    clear = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    assert imported(saved(clear, "PNG")).pages[0].endswith(", 255")


def test_a_photograph_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert ratio(imported(saved(GREY, "JPEG", exif=exif))) == pytest.approx(0.5, rel=0.01)


@each_row(
    ("data", "reason"),
    [
        (saved(GREY, "PNG")[:60], "is not a readable picture"),
        (saved(GREY, "JPEG")[:200], "is not a readable picture"),
        (saved(Image.new("L", (600, 300), 0), "PNG"), "has no text that OCR can read"),
        (saved(Image.new("1", (10_000, MAX_PIXELS // 10_000 + 1)), "PNG"), "save it smaller"),
        (saved(Image.new("1", (20_000, 20_000)), "PNG"), "save it smaller"),
    ],
)
def test_a_picture_that_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        imported(data)
    assert reason in refused.value.reason


def test_the_number_of_frames_is_limited() -> None:
    small = Image.new("1", (2, 2), 1)

    def frames() -> Iterator[Image.Image]:
        for _ in range(MAX_FRAMES):
            yield small

    with pytest.raises(ImportFailed) as refused:
        imported(saved(small, "TIFF", *frames()))
    assert "frames" in refused.value.reason


def test_without_ocr_the_refusal_says_how_to_turn_it_on() -> None:
    with pytest.raises(ImportFailed) as refused:
        import_picture(saved(GREY, "PNG"), ORIGIN)
    assert "MCP_PROXY_OCR_LANGUAGES" in refused.value.reason
