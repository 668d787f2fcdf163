"""OCR with a fake reader; Tesseract itself is tested in tests/system."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from pypdfium2 import PdfPage

from mcp_tools_proxy.documents.document_file import dump_document, parse_document
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.kinds import import_data
from mcp_tools_proxy.documents.importers.ocr import PageText, TesseractReader
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.domain.document import Document
from tests.support.raw_pdfs import raw_pdf, stream
from tests.support.scans import scan_of, text_pdf
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan")
READ = PageText("What the picture says, read by OCR.", 87)
LINES = ["A line of a picture."]


class Reader:
    """A PageReader that returns the same text for every page, and counts the pages."""

    def __init__(self, found: PageText | None = READ) -> None:
        self.pages = 0
        self._found = found

    def read(self, page: PdfPage) -> PageText | None:
        assert page.get_width() > 0
        self.pages += 1
        return self._found


def imported(pdf: bytes, reader: Reader) -> Document:
    document = import_pdf(pdf, ORIGIN, reader=cast("TesseractReader", reader))
    assert parse_document(Path("d"), dump_document(document)).ocr == document.ocr
    return document


def test_a_scanned_page_gets_its_text_and_confidence() -> None:
    document = imported(scan_of(LINES, LINES, texts=["Own."]), Reader())
    assert (document.pages, document.ocr) == ((READ.text, READ.text, "Own."), (87, 87, None))


def test_pages_with_text_are_not_read_by_ocr() -> None:
    reader = Reader()
    document = imported(bytes(text_pdf(["Some text."], ["7"]).output()), reader)
    assert (document.pages, document.ocr, reader.pages) == (("Some text.", "7"), (), 0)


def test_an_empty_page_is_not_read_by_ocr() -> None:
    reader = Reader()
    assert imported(bytes(text_pdf(["a"], []).output()), reader).ocr == ()
    assert reader.pages == 0


@each_row(("stamp", "is_read"), [("Received 2026-11-03", True), ("word " * 40, False)])
def test_a_picture_next_to_a_few_words_is_read_by_ocr(stamp: str, *, is_read: bool) -> None:
    assert (imported(scan_of(LINES, stamp=stamp), Reader()).ocr == (87,)) is is_read


@each_row("found", [None, PageText("No", 99)])
def test_the_text_of_a_page_is_kept_if_ocr_finds_less(found: PageText | None) -> None:
    document = imported(scan_of(LINES, stamp="Received"), Reader(found))
    assert (document.pages, document.ocr) == (("Received",), ())


NOTE = "<< /Type /Annot /Subtype /FreeText /Rect [50 600 300 640] /Contents (Typed in a box.) >>"


def test_a_page_of_annotations_is_not_read_by_ocr() -> None:
    reader = Reader()
    pdf = raw_pdf("0 0 600 20 re f", NOTE, annotations=[6])
    assert (imported(pdf, reader).pages, reader.pages) == (("Typed in a box.",), 0)


def test_a_scan_keeps_its_text_boxes() -> None:
    picture = stream(
        "", "/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray"
    )
    pdf = raw_pdf(
        "q 600 0 0 800 0 0 cm /X1 Do Q",
        NOTE,
        picture,
        annotations=[6],
        resources="/XObject << /X1 7 0 R >>",
    )
    assert imported(pdf, Reader()).pages == (f"{READ.text}\nTyped in a box.",)


def test_a_scan_without_text_is_refused() -> None:
    with pytest.raises(ImportFailed, match="OCR found none on its pages"):
        imported(scan_of(LINES), Reader(None))


def refused(languages: Sequence[str], folder: Path) -> str:
    with pytest.raises(ImportFailed) as failed, TesseractReader(languages, [str(folder)]) as reader:
        import_pdf(scan_of(LINES), ORIGIN, reader=reader)
    return failed.value.reason


def test_a_language_without_data_names_the_package(tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").touch()
    assert refused(["eng", "chi_sim"], tmp_path) == (
        "has scanned pages, but OCR lacks the data for chi_sim: install Debian's "
        "tesseract-ocr-chi-sim, or name other languages"
    )


def test_damaged_language_data_is_reported(tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").write_bytes(b"no data")
    assert refused(["eng"], tmp_path) == (
        "has scanned pages, but OCR cannot use its data for eng: install it again"
    )


def test_without_the_extra_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    with pytest.raises(ImportFailed) as failed:
        import_data(
            scan_of(LINES),
            ".pdf",
            ImportOptions(tenant_id="t", doc_id="d", stem="scan", ocr_languages=("eng",)),
        )
    assert failed.value.reason == (
        "has scanned pages, but OCR is not installed: install mcp-tools-proxy[ocr], or use the "
        "image tag :ocr"
    )
