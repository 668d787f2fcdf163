"""Tables as documents (contract §5)."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.csv_table import import_csv
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


def test_lines_above_the_header_can_have_separators() -> None:
    document = imported("Prices 2027\nBy Ann; Bo\npart;price;unit\nbolt;3;kg\nnut;4;kg\n")
    assert document.pages[0].startswith("Prices 2027\n\nBy Ann; Bo\n\n| part | price | unit |")


def test_sentences_with_commas_are_one_column() -> None:
    document = imported("text\nHello, world\nOne sentence\nOne, two, three\n")
    assert document.pages == (
        "| text |\n| --- |\n| Hello, world |\n| One sentence |\n| One, two, three |",
    )


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
    assert refused(table).startswith("is empty: ")


def test_an_unterminated_cell_is_refused_with_its_line() -> None:
    table = 'part,price\nbolt,"' + "x" * 200_000
    assert refused(table) == (
        "is not a readable .csv file: correct the quotes from line 2 on "
        "(field larger than field limit (131072))"
    )


def test_a_quote_that_is_not_closed_is_named_where_it_opens() -> None:
    rows = [f"bolt {number},{number}" for number in range(20_000)]
    rows[3:5] = ['"washer', 'large",2', 'nut,"3']
    assert "correct the quotes from line 8 on" in refused("\n".join(["sep=,", "part,price", *rows]))


def test_a_file_saved_by_excel_in_russia_is_a_table() -> None:
    table = "Товар;Цена\nРубашка большая;12,50\nБрюки короткие;8,00\n"
    assert imported(table.encode("windows-1251")).pages == (
        "| Товар | Цена |\n| --- | --- |\n| Рубашка большая | 12,50 |\n| Брюки короткие | 8,00 |",
    )


def test_lines_above_the_header_are_text_and_the_first_is_the_title() -> None:
    document = imported("Prices 2027;;\n;;\npart;price;\nbolt;3;\n")
    assert document.title == "Prices 2027"
    assert document.pages == ("Prices 2027\n\n| part | price |\n| --- | --- |\n| bolt | 3 |",)


def test_a_row_longer_than_the_header_does_not_shift_others() -> None:
    document = imported("part;price\nbolt;3;new\nnut\n")
    assert document.pages[0].split("\n") == [
        "| part | price |  |",
        "| --- | --- | --- |",
        "| bolt | 3 | new |",
        "| nut |  |  |",
    ]


@each_row(
    ("table", "row"),
    [
        ("name;a;b\nx;1,5;2,5\ny;3,5;4,5\n", "| x | 1,5 | 2,5 |"),
        ("name\tnote\nx\ta, b, c\ny\td, e\n", "| x | a, b, c |"),
        ('name|note\nx|"a|b"\n', "| x | a\\|b |"),
        ('name,note\nx,"say \\"yes\\", then"\n', '| x | say "yes", then |'),
        ('name;note\nx;"two\nlines; here"\n', "| x | two lines; here |"),
    ],
    ids=["decimal commas", "tabs", "bars", "backslashes", "line break"],
)
def test_the_separator_is_the_one_that_makes_even_rows(table: str, row: str) -> None:
    assert row in imported(table).pages[0].split("\n")


def test_a_page_never_cuts_a_row() -> None:
    path = Path(__file__).parents[2] / "data/documents/24-long-cells.csv"
    rows = path.read_text(encoding="utf-8") + "".join(
        f"R{number},Rule number {number},{'The clerk files it. ' * 30}Limit {number}0 euros.\n"
        for number in range(5, 60)
    )
    pages = imported(rows).pages
    assert len(pages) > 3
    for page in pages:
        header, rule, *lines = page.rstrip("\n").split("\n")
        assert (header, rule) == ("| code | name | rule |", "| --- | --- | --- |")
        assert all(line.startswith("| R") and line.endswith(" euros. |") for line in lines)
        assert len(page.encode()) <= PAGE_BYTES


def test_a_header_too_large_for_a_page_is_not_repeated() -> None:
    header = ",".join(f"column {number}" for number in range(2_000))
    pages = imported("\n".join([header, *["a,b"] * 500])).pages
    assert sum("column 7 " in page for page in pages) == 1


def test_one_long_row_does_not_lengthen_the_others() -> None:
    rows = "\n".join([",".join(["c"] * 20_000), *["a,b"] * 500])
    assert sum(map(len, imported(rows).pages)) < 10 * len(rows)


@given(
    rows=st.lists(st.lists(st.text(max_size=6), min_size=1, max_size=4), min_size=1, max_size=9),
    mark=st.sampled_from(",;\t|"),
)
def test_any_rows_become_a_table_of_equal_width_or_are_refused(
    rows: list[list[str]], mark: str
) -> None:
    text = StringIO(newline="")
    csv.writer(text, delimiter=mark).writerows(rows)
    try:
        pages = imported(text.getvalue().encode("utf-8", "ignore")).pages
    except ImportFailed:
        return
    lines = [line for page in pages for line in page.split("\n") if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
