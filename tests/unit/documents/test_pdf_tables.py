"""Tables of PDF pages (contract §5)."""

from collections.abc import Sequence
from pathlib import Path
from time import process_time

import pytest
from fpdf import FPDF
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from tests.support.raw_pdfs import raw_pdf, text_at
from tests.support.tables import each_row

SAMPLES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, without content of others."""

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan-7")


def new_page() -> FPDF:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=10)
    return pdf


def text_of(pdf: FPDF) -> str:
    return import_pdf(bytes(pdf.output()), ORIGIN).pages[0]


def aligned(rows: Sequence[Sequence[str]], places: Sequence[float]) -> FPDF:
    """Draw rows of texts without lines."""
    pdf = new_page()
    for number, row in enumerate(rows):
        for x, cell in zip(places, row, strict=True):
            if cell:
                pdf.text(x, 40 + 6 * number, cell)
    return pdf


def test_empty_cells_keep_their_column() -> None:
    document = import_pdf((SAMPLES / "19-table-empty-cells.pdf").read_bytes(), ORIGIN)
    assert document.pages[0].splitlines() == [
        "| Plan | Q1 | Q2 | Q3 |",
        "| --- | --- | --- | --- |",
        "| North | 10 |  | 30 |",
        "| South |  | 22 |  |",
        "| West | 5 | 6 | 7 |",
    ]


def test_a_caption_separates_two_tables() -> None:
    first = [["City", "Pupils", "Schools"], ["Bonn", "310", "4"], ["Ulm", "120", "2"]]
    second = [["Dish", "Price", "Sold"], ["Soup", "4", "30"], ["Stew", "6", "20"]]
    caption = ["Table 7. Food of the canteen", "", ""]
    lines = text_of(aligned([*first, caption, *second], [20, 90, 130])).splitlines()
    assert lines[4:7] == [caption[0], "| Dish | Price | Sold |", "| --- | --- | --- |"]


def test_an_aligned_table_is_between_the_text_around_it() -> None:
    pdf = aligned([["Fruit", "Price"], *[[f"Kind {n}", f"{n}.50"] for n in range(4)]], [20, 90])
    pdf.text(20, 30, "These are the prices of the year.")
    pdf.text(20, 90, "They are valid until March.")
    text = text_of(pdf)
    assert "| Fruit | Price |\n| --- | --- |\n| Kind 0 | 0.50 |" in text
    assert "\nThey are valid until March." in text


def test_a_table_without_column_names_has_an_empty_header() -> None:
    rows = [[f"Kind {n}", f"{n}.50", f"{n}%"] for n in range(4)]
    assert text_of(aligned(rows, [20, 90, 130])).splitlines()[:3] == [
        "|  |  |  |",
        "| --- | --- | --- |",
        "| Kind 0 | 0.50 | 0% |",
    ]


def test_names_of_narrow_columns_are_a_header() -> None:
    rows = [["Region", "Q1", "Q2", "Q3"], ["North", "1", "", "3"], ["South", "", "2", ""]]
    assert text_of(aligned([*rows, ["West", "5", "6", "7"]], [20, 34, 41, 48])).splitlines() == [
        "| Region | Q1 | Q2 | Q3 |",
        "| --- | --- | --- | --- |",
        "| North | 1 |  | 3 |",
        "| South |  | 2 |  |",
        "| West | 5 | 6 | 7 |",
    ]


def drawn_by_a_browser(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return the text of a page with a table whose widest cells are 3 points apart."""
    pdf = new_page()
    pdf.text(20, 34, "The council sets the fees each year. They are published here.")
    widths = [max(map(pdf.get_string_width, column)) for column in zip(*rows, strict=True)]
    for line, row in enumerate(rows):
        x = 20.0
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            shift = width - pdf.get_string_width(cell) if number in right else 0
            if cell:
                pdf.text(x + shift, 40 + 6 * line, cell)
            x += width + 3 * 25.4 / 72
    pdf.text(
        20, 40 + 6 * len(rows), "They apply from the first day of the next month to all loans."
    )
    return text_of(pdf)


@each_row(
    ("rows", "right", "table"),
    [
        (
            [["Item", "Net", "Gross"], ["Pen", "1", "1.19"], ["Ink", "", "4.76"]],
            [],
            [
                "| Item | Net | Gross |",
                "| --- | --- | --- |",
                "| Pen | 1 | 1.19 |",
                "| Ink |  | 4.76 |",
            ],
        ),
        (
            [["Region", "Riders", "Share"], ["Ulm", "1,204", "2 %"], ["Bonn", "", "8 %"]],
            [1, 2],
            [
                "| Region | Riders | Share |",
                "| --- | --- | --- |",
                "| Ulm | 1,204 | 2 % |",
                "| Bonn |  | 8 % |",
            ],
        ),
        (
            [["Ann", "12", "4"], ["Ben", "7", "311"], ["Cleopatra", "110", "9"]],
            [],
            ["|  |  |  |", "| --- | --- | --- |", "| Ann | 12 | 4 |", "| Ben | 7 | 311 |"],
        ),
    ],
)
def test_columns_that_are_hardly_further_apart_than_words_are_a_table(
    rows: list[list[str]], right: list[int], table: list[str]
) -> None:
    lines = drawn_by_a_browser(rows, right=right).splitlines()
    assert lines[0] == "The council sets the fees each year. They are published here."
    assert lines[1 : 1 + len(table)] == table
    assert lines[-1] == "They apply from the first day of the next month to all loans."


def test_a_heading_over_several_narrow_columns_is_repeated() -> None:
    pdf = new_page()
    for x, y, text in (
        *((20, 43, "Medium"), (39, 40, "Loan"), (34, 46, "Kind"), (43, 46, "Adult")),
        *((20, 52, "Book"), (34, 52, "28"), (43, 52, "21")),
        *((20, 58, "DVD"), (34, 58, "7")),
    ):
        middle = 34 + (43 + pdf.get_string_width("Adult") - 34) / 2
        pdf.text(middle - pdf.get_string_width("Loan") / 2 if text == "Loan" else x, y, text)
    assert text_of(pdf).splitlines() == [
        "| Medium | Loan Kind | Loan Adult |",
        "| --- | --- | --- |",
        "| Book | 28 | 21 |",
        "| DVD | 7 |  |",
    ]


@each_row(
    "rows",
    [
        [["the well known author of", "and in 2019 the second"], ["two books on rivers", "one"]],
        [["Monday", "open"], ["Tuesday", "closed"], ["Friday", "open"]],
        [["1.", "Open the lid 2"], ["2.", "Fill it 3"], ["3.", "Close it 4"]],
    ],
)
def test_narrow_columns_in_doubt_stay_text(rows: list[list[str]]) -> None:
    assert "|" not in drawn_by_a_browser(rows)


def test_a_browser_table_with_wide_and_narrow_gaps_has_one_column_for_each_name() -> None:
    rows = [["Name", "Desk", "Hours"], ["Ben Abbot", "31", "1820"], ["Ida May", "", "1777"]]
    assert drawn_by_a_browser([*rows, ["Max Orr", "7", ""]]).splitlines()[1:6] == [
        "| Name | Desk | Hours |",
        "| --- | --- | --- |",
        "| Ben Abbot | 31 | 1820 |",
        "| Ida May |  | 1777 |",
        "| Max Orr | 7 |  |",
    ]


@each_row(
    "rows",
    [
        [
            ["Club", "W", "D", "L", "Pts"],
            ["Otters", "4", "1", "0", "13"],
            ["Grey Owls", "1", "0", "3", "3"],
        ],
        [["Day", "Low", "High"], ["Mon", "-2", "5"], ["Fri", "3", ""], ["Sat", "1", "8"]],
    ],
)
def test_columns_as_close_as_words_are_apart(rows: list[list[str]]) -> None:
    table = [f"| {' | '.join(row)} |" for row in rows]
    lines = drawn_by_a_browser(rows).splitlines()
    assert [lines[1], *lines[3:-1]] == table


def test_cells_hardly_further_apart_than_words_are_not_joined() -> None:
    rows = [
        ["", "Mon", "Tue", "Wed", "Thu"],
        ["Early", "Ann", "Ben", "", "Ida"],
        ["Late", "", "Max", "Ann", "Ben"],
        ["Night", "Ida", "", "Max", ""],
    ]
    table = [f"| {' | '.join(row)} |" for row in rows]
    lines = text_of(aligned(rows, [20, 33, 42, 51, 61])).splitlines()
    assert [lines[0], *lines[2:]] == table


@pytest.mark.parametrize("align", ["L", "R"])
@pytest.mark.parametrize("first", ["Stop", ""])
def test_centred_names_are_above_their_columns(align: str, first: str) -> None:
    pdf = new_page()
    rows = [["Mill Street", "104", "9"], ["Harbour", "", "12"], ["Old Town", "87", "8"]]
    for row in [[first, "Riders", "Bikes"], *rows]:
        for number, cell in enumerate(row):
            pdf.cell(50, 6, cell, align="C" if row[1] == "Riders" else align if number else "L")
        pdf.ln()
    assert text_of(pdf).splitlines() == [
        f"| {first} | Riders | Bikes |",
        "| --- | --- | --- |",
        "| Mill Street | 104 | 9 |",
        "| Harbour |  | 12 |",
        "| Old Town | 87 | 8 |",
    ]


@each_row(
    "rows",
    [
        [["Year", "Sales", "Cost"], ["2031", "104", "87"], ["2032", "", "91"], ["2033", "110", ""]],
        [["No", "Boys", "Girls"], ["1", "14", "13"], ["2", "11", "16"], ["3", "12", "17"]],
        [["", "", ""], ["2031", "Ulm", "104"], ["2032", "", "205"], ["2033", "Bonn", "311"]],
        [["2031", "2032", "2033"], ["12", "14", "17"], ["8", "16", "9"], ["1", "3", ""]],
        [["Sign", "Place", "Since"], ["A", "Mill Street", "1968"], ["B", "Harbour", "1971"]],
    ],
)
def test_years_and_numbers_are_cells_of_tables(rows: list[list[str]]) -> None:
    drawn = rows if rows[0][0] else rows[1:]
    table = [f"| {' | '.join(row)} |" for row in rows]
    expected = [table[0], "| --- | --- | --- |", *table[1:]]
    assert text_of(aligned(drawn, [20, 60, 100])).splitlines() == expected


@given(
    st.lists(
        st.sampled_from(["the", "of", "rivers", "12", "stations", "2031", "cost", "lengthening"]),
        min_size=40,
        max_size=80,
    )
)
def test_justified_text_in_narrow_columns_stays_text(words: list[str]) -> None:
    pdf = new_page()
    pdf.multi_cell(45, 5, " ".join(words), align="J")
    text = text_of(pdf)
    assert "|" not in text
    assert text.split() == words


def test_many_rows_that_are_not_a_table_take_linear_time() -> None:
    places = {(20.0 + 40 * x, 4_300.0 - 7 * y): "12" for y in range(600) for x in range(10)}
    data = raw_pdf(text_at(places, size=5), page="/MediaBox [0 0 600 4400]")

    start = process_time()
    text = import_pdf(data, ORIGIN).pages[0]

    assert process_time() - start < 20  # it took minutes
    assert text.count("12") == len(places)


def test_merged_cells_and_lines_of_a_ruled_table_are_in_their_columns() -> None:
    pdf = new_page()
    with pdf.table(col_widths=(40, 30, 30), width=100, first_row_as_headings=False) as table:
        row = table.row()
        row.cell("Region", rowspan=2)
        row.cell("Sales", colspan=2)
        table.row(["2026", "2027"])
        table.row(["North and the rest of the long list", "10", ""])
        table.row(["South|East", "", "22"])
    assert text_of(pdf).splitlines() == [
        "| Region | Sales 2026 | Sales 2027 |",
        "| --- | --- | --- |",
        "| North and the rest of the long list | 10 |  |",
        "| South\\|East |  | 22 |",
    ]


def test_rows_without_lines_between_them_are_not_mixed() -> None:
    pdf = new_page()
    for number, row in enumerate([("Item", "Price"), ("Apples", "1.20"), ("Pears", "2.40")]):
        pdf.text(22, 44 + 6 * number, row[0])
        pdf.text(62, 44 + 6 * number, row[1])
    for x in (20, 60, 100):
        pdf.line(x, 39, x, 58)
    for y in (39, 46, 58):
        pdf.line(20, y, 100, y)
    assert text_of(pdf).splitlines() == [
        "| Item | Price |",
        "| --- | --- |",
        "| Apples | 1.20 |",
        "| Pears | 2.40 |",
    ]


@pytest.mark.parametrize("shaded", [1, 2])
def test_shaded_rows_are_the_rows_of_a_table(shaded: int) -> None:
    rows = [
        (["Code", "Description", "Limit"], 8),
        (["R1", "A long text that wraps\nover several lines\nof its cell", "30 EUR"], 16),
        (["R2", "Short", "40 EUR"], 8),
        (["R3", "Another text that is\nlonger", ""], 12),
        (["R4", "None", "5 EUR"], 8),
    ]
    pdf, y = new_page(), 40
    pdf.text(20, 34, "The limits of the year are these.")
    for number, (row, height) in enumerate(rows):
        pdf.set_fill_color(230 if number % 2 else 200)
        if number % shaded == 0:
            pdf.rect(18, y, 80, height, style="F")
        for x, cell in zip((20, 32, 74), row, strict=True):
            for line, text in enumerate(cell.split("\n")):
                pdf.text(x, y + 5 + 4 * line, text)
        y += height
    assert text_of(pdf).splitlines()[1:] == [
        "| Code | Description | Limit |",
        "| --- | --- | --- |",
        "| R1 | A long text that wraps over several lines of its cell | 30 EUR |",
        "| R2 | Short | 40 EUR |",
        "| R3 | Another text that is longer |  |",
        "| R4 | None | 5 EUR |",
    ]


@pytest.mark.parametrize("is_shaded", [False, True])
def test_cells_of_rows_between_lines_may_have_several_lines(is_shaded: bool) -> None:
    pdf = new_page()
    rows = [
        (20, ["Case", "Reason", "Fee", "Paid"]),
        (30, ["81", "", "40.00", ""]),
        (42, ["82", "Lost card", "", "3.00"]),
        (52, ["83", "Late book", "2.00", "2.00"]),
    ]
    pdf.text(40, 27, "A film was brought back late and its")
    pdf.text(40, 33, "box was broken")
    pdf.set_fill_color(230)
    for y, row in rows:
        bottom = y + (8 if y == 30 else 4)
        for x, width, cell in zip((20, 40, 130, 160), (20, 90, 30, 30), row, strict=True):
            if is_shaded and y in (20, 42):
                pdf.rect(x, y - 6, width, bottom - y + 6, style="F")
            elif not is_shaded and y != 52:
                pdf.line(x, bottom, x + width, bottom)
            if cell:
                pdf.text(x + 1, y, cell)
    pdf.text(20, 80, "The fees are due within a month.")
    assert text_of(pdf).splitlines() == [
        "| Case | Reason | Fee | Paid |",
        "| --- | --- | --- | --- |",
        "| 81 | A film was brought back late and its box was broken | 40.00 |  |",
        "| 82 | Lost card |  | 3.00 |",
        "| 83 | Late book | 2.00 | 2.00 |",
        "The fees are due within a month.",
    ]


def test_prose_and_groups_of_rows_between_lines_stay_text() -> None:
    pdf = new_page()
    for y in (20, 40, 60, 80):
        pdf.line(20, y, 190, y)
        for shift, texts in ((7, ("North of the river", "Mills")), (12, ("South of it", "Farms"))):
            for x, text in zip((21, 120), texts, strict=True):
                pdf.text(x, y + shift, text)
    assert "|" not in text_of(pdf)


def test_shaded_prose_stays_text() -> None:
    pdf = new_page()
    texts = [
        "Each of these paragraphs is in",
        "a shaded box of its own, and",
        "none of them is a table, as",
    ]
    for number, text in enumerate(texts * 2):
        pdf.set_fill_color(220 if number % 2 else 240)
        pdf.rect(18, 40 + 8 * number, 80, 8, style="F")
        pdf.text(20, 45 + 8 * number, text)
    assert "|" not in text_of(pdf)


def test_columns_of_prose_stay_text() -> None:
    pdf = new_page()
    for x, words in (
        (20, "the left column tells a story"),
        (110, "the right one has another tale"),
    ):
        for number in range(8):
            pdf.text(x, 40 + 6 * number, f"{words} {number}")
    text = text_of(pdf)
    assert "|" not in text
    assert text.index("story 7") < text.index("tale 0")


def test_lists_and_contents_stay_text() -> None:
    rows = [[f"{n}.", f"The rule number {n} of the house"] for n in range(1, 6)]
    assert "|" not in text_of(aligned(rows, [20, 40]))
    contents = [[f"{n} Chapter of the book", f"{n * 3}"] for n in range(1, 6)]
    assert "|" not in text_of(aligned(contents, [20, 150]))


@given(
    st.lists(
        st.tuples(
            st.integers(1, 18), st.integers(1, 9), st.sampled_from(["ab", "12", "c-d", "4.5%"])
        ),
        min_size=1,
        max_size=40,
        unique_by=lambda it: it[:2],
    )
)
def test_no_word_is_lost_or_repeated(places: list[tuple[int, int, str]]) -> None:
    pdf = new_page()
    for column, row, word in places:
        pdf.text(10 * column, 30 + 7 * row, word)
    words = text_of(pdf).replace("|", " ").replace("---", " ").split()
    assert sorted(words) == sorted(word for _, _, word in places)
