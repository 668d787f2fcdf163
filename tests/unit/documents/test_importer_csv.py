"""Tables as documents (contract §5)."""

import pytest

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.converted import import_csv
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="prices")


def imported(table: str | bytes) -> Document:
    return import_csv(table.encode() if isinstance(table, str) else table, ORIGIN)


def refused(table: str | bytes) -> str:
    with pytest.raises(ImportFailed) as failed:
        imported(table)
    return failed.value.reason


@each_row("mark", [",", ";", "\t", "|"])
def test_rows_become_a_table_with_any_separator(mark: str) -> None:
    rows = [["part", "price"], ["bolt", "3"], ["nut", "4"]]
    document = imported("\r\n".join(mark.join(row) for row in rows))
    assert document.pages == ("| part | price |\n| --- | --- |\n| bolt | 3 |\n| nut | 4 |",)
    assert document.title == "prices"


@each_row("line", ["sep=;", '"sep=;"'])
def test_a_line_that_names_the_separator_is_not_a_row(line: str) -> None:
    document = imported(f"{line}\r\npart;price, net\r\nbolt;3,50\r\n")
    assert document.pages == ("| part | price, net |\n| --- | --- |\n| bolt | 3,50 |",)


def test_cells_keep_commas_bars_and_line_breaks() -> None:
    document = imported('part,note\nbolt,"a, b | c\nd"\n')
    assert document.pages[0].endswith("| bolt | a, b \\| c d |")


def test_one_column_is_a_table() -> None:
    assert imported("name\nAnn\nBo\n").pages == ("| name |\n| --- |\n| Ann |\n| Bo |",)


def test_a_row_longer_than_the_first_keeps_its_cells() -> None:
    assert "| bolt | 3 | new |" in imported("part,price\nbolt,3,new\n").pages[0]


def test_empty_rows_are_skipped() -> None:
    assert imported("part\n\n  \nbolt\n").pages == ("| part |\n| --- |\n| bolt |",)


def test_each_page_of_a_large_table_starts_with_the_header() -> None:
    rows = [f"bolt {number},{number * 3}" for number in range(5_000)]
    pages = imported("\n".join(["part,price", *rows])).pages
    assert {page.partition("\n")[0] for page in pages} == {"| part | price |"}
    assert all(len(page.encode()) <= PAGE_BYTES for page in pages)
    assert sum(page.count("| bolt ") for page in pages) == len(rows)
    assert len(pages) < 30


def test_pages_have_rows_even_if_the_header_has_many_columns() -> None:
    header = ",".join(f"column {number}" for number in range(2_000))
    pages = imported("\n".join([header, "a,b", "c,d"])).pages
    assert any("| c | d |" in page for page in pages)


@each_row("table", ["", "\n\n", " \n,,\n"])
def test_a_table_without_text_is_refused_as_empty(table: str) -> None:
    assert refused(table) == "is empty"


def test_an_unterminated_cell_is_refused_with_its_line() -> None:
    table = 'part,price\nbolt,"' + "x" * 200_000
    assert refused(table) == (
        "is not a readable .csv file: line 2: field larger than field limit (131072)"
    )


def test_text_that_is_not_unicode_is_refused() -> None:
    assert "is not UTF-8 text" in refused("имя,цена\n".encode("windows-1251"))
