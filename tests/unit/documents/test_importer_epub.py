"""EPUB books as documents."""

from collections.abc import Collection, Mapping

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
    chapters: Mapping[str, str],
    *,
    items: str = "",
    properties: Mapping[str, str] | None = None,
    outside: Collection[str] = (),
    metadata: str = METADATA,
    guide: str = "",
    parts: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a book of chapters (XHTML by file name), in that order.

    Chapters ``outside`` are not part of the reading order.
    """
    listed = "".join(
        f'<item id="i{at}" href="{name}" media-type="application/xhtml+xml" '
        f'properties="{(properties or {}).get(name, "")}"/>'
        for at, name in reversed([*enumerate(chapters)])
    )
    spine = "".join(
        f'<itemref idref="i{at}" linear="{"no" if name in outside else "yes"}"/>'
        for at, name in enumerate(chapters)
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata>{metadata}</metadata><manifest>{listed}{items}</manifest>"
        f"<spine>{spine}</spine>{guide}</package>"
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


LINKS = "<h1>Contents</h1><ol><li><a href='{0}'>One</a></li><li><a href='b.xhtml'>Two</a></li></ol>"
LANDMARKS = '<nav epub:type="landmarks"><a href="toc.xhtml" epub:type="toc">Contents</a></nav>'
ONE, TWO = "<h1>One</h1><p>Text.</p>", "<h1>Two</h1>"


@each_row(
    ("data", "shown"),
    [
        (
            book_of(
                {"n.xhtml": LINKS.format("a.xhtml"), "a.xhtml": ONE, "b.xhtml": TWO},
                properties={"n.xhtml": "nav"},
            ),
            "# One\n\nText.\n\n# Two",
        ),
        (
            book_of(
                {"a.xhtml": ONE, "toc.xhtml": LINKS.format("a.xhtml"), "b.xhtml": TWO},
                guide='<guide><reference type="toc" href="toc.xhtml#top"/></guide>',
            ),
            "# One\n\nText.\n\n# Two",
        ),
        (
            book_of(
                {"a.xhtml": ONE, "toc.xhtml": LINKS.format("a.xhtml"), "b.xhtml": TWO},
                items='<item id="nav" href="../nav.xhtml" properties="nav"/>',
                parts={"nav.xhtml": LANDMARKS.replace("toc.xhtml", "text/toc.xhtml").encode()},
            ),
            "# One\n\nText.\n\n# Two",
        ),
        (
            book_of(
                {"a.xhtml": f"<h1>All</h1><a href='#one'>One</a>{ONE}<p>More text than links.</p>"},
                guide='<guide><reference type="toc" href="a.xhtml#toc"/></guide>',
            ),
            "# All\n\nOne\n\n# One\n\nText.\n\nMore text than links.",
        ),
        (
            book_of(
                {"a.xhtml": "<a href='#one'>One<h1>All</h1><a id='one'><p>Text of the chapter."},
                guide='<guide><reference type="toc" href="a.xhtml"/></guide>',
            ),
            "One\n\n# All\n\nText of the chapter.",
        ),
        (
            book_of(
                {"a.xhtml": ONE, "answers.xhtml": "<p>42</p>", "b.xhtml": TWO},
                outside={"answers.xhtml"},
            ),
            "# One\n\nText.\n\n# Two\n\n42",
        ),
    ],
)
def test_tables_of_contents_are_left_out_and_the_reading_order_is_not_interrupted(
    data: bytes, shown: str
) -> None:
    assert imported(data).pages == (shown,)


@each_row(
    ("page", "is_left_out"),
    [
        ("<h1>Pages</h1><p><a href='a.xhtml'>One</a></p><p><a href='b.xhtml'>Two</a></p>", True),
        ("<h1>Pages</h1><p><a href='a.xhtml'>One</a>: read it</p><a href='b.xhtml'>Two</a>", False),
        ("<h1>Pages</h1><a href='a.xhtml'>One</a><a href='b.xhtml'>The second</a>", False),
        ("<h1>Pages</h1><a href='a.xhtml'>One</a>", False),
        ("<h1>Pages</h1><a href='https://e.org/'>One</a><a href='https://e.org/2'>Two</a>", False),
    ],
)
def test_a_page_that_repeats_the_table_of_contents_is_left_out(
    page: str, is_left_out: bool
) -> None:
    nav = "<nav><a href='a.xhtml'>One</a><a href='b.xhtml'>Two</a></nav>"
    chapters = {
        "nav.xhtml": f"<html><body>{nav}</body></html>",
        "list.xhtml": f"<html><body>{page}</body></html>",
        "a.xhtml": "<html><body><p>First.</p></body></html>",
        "b.xhtml": "<html><body><p>Second.</p></body></html>",
    }
    document = imported(book_of(chapters, properties={"nav.xhtml": "nav"}))
    assert ("Pages" not in document.pages[0]) == is_left_out


def test_the_subjects_of_a_book_are_tags() -> None:
    subjects = "".join(
        f"<dc:subject>{it}</dc:subject>" for it in ("Fiction / Sea", " a;  b ", "", "a", "x" * 101)
    )
    document = imported(book_of({"a.xhtml": ONE}, metadata=f"{METADATA}{subjects}"))
    assert document.tags == ("Fiction / Sea", "a", "b")


def test_text_that_a_style_sheet_hides_is_left_out_and_counted() -> None:
    html = (
        '<html><head><link rel="stylesheet" href="../s.css"/></head><body><p class="x">bad</p><p>ok'
    )
    document = imported(book_of({"a.xhtml": html}, parts={"s.css": b".x { display: none }"}))
    assert document.pages == ("ok",)
    assert document.warnings[0].message.startswith("3 letters")


@each_row(
    ("link", "hides"),
    [
        ('<link rel="stylesheet" href="../s.css" media="screen"/>', True),
        ('<link href="../with%20import.css" rel="stylesheet"/>', True),
        ('<link rel="stylesheet" href="../s.css" media="print"/>', False),
        ('<link rel="alternate stylesheet" href="../s.css"/>', False),
        ('<link rel="stylesheet" href="https://a.example/s.css"/>', False),
    ],
)
def test_the_style_sheets_of_a_book_are_read_as_in_browsers(link: str, hides: bool) -> None:
    html = f'<html><head>{link}</head><body><p class="x">planted</p><p>ok</p></body></html>'
    sheets = {"s.css": b".x { color: white }", "with import.css": b"@import url('s.css');"}
    document = imported(book_of({"a.xhtml": html}, parts=sheets))
    assert ("planted" not in document.pages[0]) is hides
    assert "ok" in document.pages[0]


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
