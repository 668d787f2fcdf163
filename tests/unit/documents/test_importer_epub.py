"""EPUB books as documents."""

from collections.abc import Mapping

import pytest

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.epub import import_epub
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import zip_of
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="book")
CONTAINER = (
    b'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    b'<rootfile full-path="text/book.opf"/></rootfiles></container>'
)
TITLE = "<dc:title>The gate</dc:title><dc:language>en-GB</dc:language>"
METADATA = f"{TITLE}<dc:date>2026-03-31T10:00</dc:date>"


def book_of(
    chapters: Mapping[str, str], *, items: str = "", parts: Mapping[str, bytes] | None = None
) -> bytes:
    """Return a book of chapters (XHTML by file name), in that order."""
    listed = "".join(
        f'<item id="i{at}" href="{name}" media-type="application/xhtml+xml"/>'
        for at, name in reversed([*enumerate(chapters)])
    )
    spine = "".join(f'<itemref idref="i{at}"/>' for at, _ in enumerate(chapters))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata>{METADATA}</metadata><manifest>{listed}{items}</manifest>"
        f"<spine>{spine}</spine></package>"
    )
    return zip_of(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "text/book.opf": package.encode(),
            **{f"text/{name}": html.encode() for name, html in chapters.items()},
            **(parts or {}),
        }
    )


def imported(data: bytes) -> Document:
    return import_epub(data, ORIGIN)


def test_chapters_are_sections_in_reading_order() -> None:
    document = imported(
        book_of(
            {
                "b.xhtml": "<?xml version='1.0'?><!DOCTYPE html><html><body><h1>One</h1>"
                "<p>First &amp; <a href='a.xhtml#x'>next</a>.</p></body></html>",
                "a.xhtml": "<html><body><h1>Two</h1><p>See <a href='https://e.org/'>it</a>.</p>",
            }
        )
    )
    assert document.pages == ("# One\n\nFirst & next.\n\n# Two\n\nSee [it](https://e.org/).",)
    assert [it.title for it in document.sections.values()] == ["One", "Two"]
    assert (document.title, document.language, document.date) == ("The gate", "en-GB", "2026-03-31")


NCX = (
    "<!DOCTYPE ncx PUBLIC '-//NISO//DTD ncx 2005-1//EN' 'x.dtd'><ncx><navMap><navPoint><navLabel>"
    "<text>The &amp; start</text></navLabel><content src='a%20b.xhtml#x'/></navPoint></navMap>"
)
NAV = "<html><nav><ol><li><a href='../text/a%20b.xhtml'>The &amp; <i>start</i></a></li></ol></nav>"


@each_row(
    ("item", "part", "content"),
    [
        ('href="toc.ncx" media-type="application/x-dtbncx+xml"', "text/toc.ncx", NCX),
        (
            'href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"',
            "text/nav.xhtml",
            NAV,
        ),
    ],
)
def test_a_chapter_without_headings_has_its_title_in_the_contents(
    item: str, part: str, content: str
) -> None:
    chapters = {"a b.xhtml": "<html><body><p>Once.</p></body></html>"}
    data = book_of(chapters, items=f'<item id="toc" {item}/>', parts={part: content.encode()})
    assert imported(data).pages == ("# The & start\n\nOnce.",)


def test_text_that_a_style_sheet_hides_is_left_out_and_counted() -> None:
    html = (
        '<html><head><link rel="stylesheet" href="../s.css"/></head><body><p class="x">bad</p><p>ok'
    )
    document = imported(book_of({"a.xhtml": html}, parts={"s.css": b".x { display: none }"}))
    assert document.pages == ("ok",)
    assert document.warnings[0].message.startswith("3 letters")


ENCRYPTED = (
    '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData>'
    '<e:EncryptionMethod Algorithm="{}"/></e:EncryptedData></encryption>'
)


def test_a_book_with_obfuscated_fonts_is_read() -> None:
    fonts = ENCRYPTED.format("http://www.idpf.org/2008/embedding").encode()
    data = book_of({"a.xhtml": "<p>text"}, parts={"META-INF/encryption.xml": fonts})
    assert imported(data).pages == ("text",)


@each_row(
    ("data", "reason"),
    [
        (
            book_of(
                {"a.xhtml": "<p>x"},
                parts={"META-INF/encryption.xml": ENCRYPTED.format("aes").encode()},
            ),
            "DRM",
        ),
        (book_of({}), "is empty"),
        (zip_of({"mimetype": b"application/epub+zip"}), "no list of chapters"),
        (book_of({"a.xhtml": "<p>x"})[:300], "is not a readable .epub file"),
        (
            book_of({"a.xhtml": "<p>x"}, parts={"text/book.opf": b"<!DOCTYPE x><x/>"}),
            "document type",
        ),
    ],
)
def test_a_book_that_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        imported(data)
    assert reason in refused.value.reason
