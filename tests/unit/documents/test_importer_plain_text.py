"""Plain text files as documents, and the selection of importers (contract §5)."""

import pytest

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.kinds import import_data, import_plain
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="notes", tags=("x",))


def test_form_feeds_separate_pages() -> None:
    assert import_plain(b"one\ftwo\fthree\f", ORIGIN).pages == ("one", "two", "three")


def test_an_empty_page_between_form_feeds_keeps_its_number() -> None:
    assert import_plain(b"one\f\fthree", ORIGIN).pages == ("one", "", "three")


def test_without_form_feeds_page_breaks_are_between_paragraphs() -> None:
    text = ("слово " * 200 + "\n\n") * 20
    pages = import_plain(text.encode(), ORIGIN).pages
    assert "".join(pages) == text
    assert len(pages) > 1
    assert all(page.endswith("\n\n") and len(page.encode()) <= PAGE_BYTES for page in pages)


def test_the_whole_text_is_one_section_named_after_the_file() -> None:
    document = import_plain(b"one\ftwo", ORIGIN)
    (section,) = document.sections.values()
    assert (section.section_id, section.page_start, section.page_end) == ("notes", 1, 2)


def test_the_document_has_the_given_metadata() -> None:
    origin = ImportOptions(
        tenant_id="t", doc_id="d", stem="notes", title=" My\ntitle ", tags=("x",)
    )
    document = import_plain(b"text", origin)
    assert (document.tenant_id, document.doc_id, document.title) == ("t", "d", "My title")
    assert document.tags == ("x",)


@each_row("data", [b"", b" \n", b"\f\f", b"\x00\x01"])
def test_an_empty_text_is_refused(data: bytes) -> None:
    with pytest.raises(ImportFailed):
        import_plain(data, ORIGIN)


@each_row("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_text_with_a_byte_order_mark_is_read(encoding: str) -> None:
    data = "\ufeffстраница 1\r\n\fстраница 2 😀".encode(encoding)
    assert import_plain(data, ORIGIN).pages == ("страница 1\n", "страница 2 😀")


@each_row("data", [b"\xff\xfea", b"\xff\xfe\x00\xd8a\x00", b"\xfe\xff\xdc\x00"])
def test_a_utf16_byte_order_mark_before_other_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_plain(data, ORIGIN)
    assert "UTF-16" in refused.value.reason


@each_row("data", [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"])
def test_a_file_with_only_a_byte_order_mark_is_empty(data: bytes) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_plain(data, ORIGIN)
    assert "empty" in refused.value.reason


@each_row(
    ("suffix", "sections"),
    [
        (".txt", ["notes"]),
        (".MD", ["h"]),
        (".markdown", ["h"]),
        (".html", ["h"]),
        (".HTM", ["h"]),
        (".csv", ["notes"]),
    ],
)
def test_the_suffix_selects_the_importer(suffix: str, sections: list[str]) -> None:
    data = b"<h1>H</h1>" if suffix.lower().startswith(".htm") else b"# H\n"
    assert list(import_data(data, suffix, ORIGIN).sections) == sections


@each_row("suffix", ["", ".log", "txt"])
def test_a_text_with_another_suffix_is_plain_text(suffix: str) -> None:
    assert import_data(b"# text", suffix, ORIGIN).text_format == "plain"
