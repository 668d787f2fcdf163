"""Web pages as documents (contract §5)."""

import sys

import pytest

from mcp_tools_proxy.documents.importers import html
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.html import import_html
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="page-7")


def imported(page: str | bytes) -> Document:
    return import_html(page.encode() if isinstance(page, str) else page, ORIGIN)


def test_headings_become_sections_and_the_title_comes_from_the_page() -> None:
    document = imported(
        "<html><head><title>Travel\nrules</title></head><body><h1>Rail</h1><p>Second <b>class</b>."
        "</p><h2>Seats</h2><p>Book one.</p></body></html>"
    )
    assert document.pages == ("# Rail\n\nSecond **class**.\n\n## Seats\n\nBook one.",)
    assert (document.title, list(document.sections)) == ("Travel rules", ["rail", "seats"])


def test_scripts_styles_and_embedded_pictures_are_not_text() -> None:
    document = imported(
        "<style>p {}</style><script>let x = 'leak'</script><p>Text "
        '<img alt="a map" src="data:image/png;base64,AAAA"></p>'
    )
    assert document.pages == ("Text a map",)


def row_of(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{it}</td>' for it in cells)}</tr>"


def table_of(*rows: str) -> str:
    return f"<table>{''.join(rows)}</table>"


def test_a_small_table_in_a_cell_leaves_the_rows_of_the_outer_one() -> None:
    inner = table_of(row_of("a", "b"))
    outer = table_of(row_of("City", "Plan"), row_of("Bonn", f"3 {inner}"))
    assert imported(outer).pages == ("| City | Plan |\n| --- | --- |\n| Bonn | 3 a, b |",)


@each_row(
    "page",
    [
        table_of(row_of("Menu", table_of(row_of("a", "b")))),
        table_of(row_of(table_of(row_of("a", "b"))), row_of("Menu")),
        table_of(row_of("Menu", table_of(row_of("a", "b"))), row_of("x", "y" * 600 + "<table>")),
        table_of(row_of("Menu", "x"), row_of("y", f"<h2>Title</h2>{table_of(row_of('a', 'b'))}")),
    ],
)
def test_a_table_that_arranges_the_page_is_text(page: str) -> None:
    document = imported(page)
    assert "\n\n| a | b |\n| --- | --- |" in f"\n\n{document.pages[0]}"


@each_row(
    "data",
    [
        "<meta charset=windows-1251><p>Привет, командировка</p>".encode("windows-1251"),
        "<p>Привет, командировка</p>".encode(),
        "\ufeff<p>Привет, командировка</p>".encode("utf-16"),
    ],
    ids=["declared", "utf-8", "marked"],
)
def test_the_encoding_is_detected_like_in_browsers(data: bytes) -> None:
    assert imported(data).pages == ("Привет, командировка",)


def test_deeply_nested_tags_are_read_as_text() -> None:
    depth = 20_000
    assert imported("<div>" * depth + "deep" + "</div>" * depth).pages == ("deep",)


def test_entities_declared_in_a_doctype_are_not_expanded() -> None:
    document = imported('<!DOCTYPE html [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><p>x &b; y</p>')
    assert "aaaa" not in document.pages[0].replace('"aaaa"', "")


@each_row("page", ["", "<html><body><script>x()</script></body></html>"])
def test_a_page_without_text_is_refused_as_empty(page: str) -> None:
    with pytest.raises(ImportFailed, match="is empty"):
        imported(page)


def test_a_truncated_page_is_read_to_its_end() -> None:
    assert imported("<html><body><h1>Rail</h1><p>Second cla").pages == ("# Rail\n\nSecond cla",)


def test_a_page_of_too_many_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_ELEMENTS", 10)
    with pytest.raises(ImportFailed, match="has more than 10 elements"):
        imported("<p>" * 11)


def test_without_the_extra_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(ImportFailed, match=r"install mcp-tools-proxy\[formats\]"):
        imported("<p>text")


@each_row(
    ("head", "title"),
    [
        ("<svg><title>icon</title></svg><title>Fees</title>", "Fees"),
        ("<title> </title><meta property='og:title' content='Fees &amp; loans'>", "Fees & loans"),
        ("<title>Untitled-1</title><meta name=DC.Title content=Fees>", "Fees"),
        ("<title>Untitled-1</title><meta property=og:title content=Home>", "Loans"),
        ("<meta name=twitter:title content=Other><meta name=citation_title content=Fees>", "Fees"),
        ("<title>Microsoft Word - fees.doc</title><p class=MsoTitle>The <b>fees</b>", "The fees"),
        ("<h2>Menu</h2>", "Loans"),
        ("<svg><title>icon</title></svg>", "Loans"),
    ],
)
def test_the_title_is_the_name_that_readers_know(head: str, title: str) -> None:
    page = f"<!doctype html><html><head>{head}<h1>Loans</h1><p>Text.".encode()
    document = import_html(page, ORIGIN)
    assert document.title == title
    assert "icon" not in "".join(document.pages)
