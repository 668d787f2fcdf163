"""Tables of PDF pages whose cells wrap over several lines (contract §5)."""

from collections.abc import Iterator, Sequence
from time import process_time

import pytest
from fpdf import FPDF
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan-7")

PARTS = [
    ["Item", "Description", "Remarks"],
    [
        "Pump",
        "Centrifugal pump for\nclean water with a\nstainless housing",
        "Order with spare\nseals",
    ],
    ["Valve", "Ball valve", "In stock"],
    ["Gauge", "", "Calibrated by the\nsupplier each year"],
    ["Hose", "Rubber hose of ten\nmetres length", "Check for cracks\nbefore each use"],
]
RISKS = [
    ["No.", "Risk", "Cost", "Measure"],
    [
        "1.1",
        "Power outage in the\nnightly backup",
        "1,200",
        "Battery for the rack and\na second generator",
    ],
    ["1.2", "Key staff leave", "800", "Document all tasks"],
    [
        "1.3",
        "Loss of data in the\narchive after a failed\nrestore",
        "90",
        "Test the restore twice\na year",
    ],
]
PROSE = "The list names all parts that were ordered for the station, with what was agreed on."

Text = tuple[float, float, str]
"""Left, baseline from above, text."""


def rows_at(
    rows: Sequence[Sequence[str]],
    *,
    padding: float,
    is_middle: bool,
    places: Sequence[float] = (20, 65, 110, 155),
) -> Iterator[list[Text]]:
    """Yield the lines of each row, cell by cell; they are 4.5 mm apart."""
    y = 50.0
    for row in rows:
        cells = [cell.split("\n") for cell in row]
        height = max(map(len, cells))
        yield [
            (places[column], y + 4.5 * (line + (height - len(cell)) / 2 * is_middle), text)
            for column, cell in enumerate(cells)
            for line, text in enumerate(cell)
            if text
        ]
        y += 4.5 * height + padding


def new_page() -> FPDF:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=10)
    return pdf


def lines_of(pdf: FPDF) -> list[str]:
    return import_pdf(bytes(pdf.output()), ORIGIN).pages[0].splitlines()


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    texts = [[cell.replace("\n", " ") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [texts[0], ["---"] * len(rows[0]), *texts[1:]]]


@pytest.mark.parametrize("rows", [PARTS, RISKS])
@each_row(
    ("padding", "is_middle", "has_lines"),
    [
        (2.0, False, False),
        (2.0, True, False),
        (0.0, False, False),
        (3.0, False, True),
        (3.0, True, True),
    ],
)
def test_wrapped_cells_written_one_after_the_other_are_whole(
    rows: list[list[str]], *, padding: float, is_middle: bool, has_lines: bool
) -> None:
    pdf = new_page()
    pdf.text(20, 40, PROSE)
    for texts in rows_at(rows, padding=padding, is_middle=is_middle):
        for x, y, text in texts:
            pdf.text(x, y, text)
        if has_lines:
            bottom = max(y for _, y, _ in texts) + 2.5
            pdf.line(18, bottom, 195, bottom)
    pdf.text(20, 140, PROSE)
    assert lines_of(pdf) == [PROSE, *table(rows), PROSE]


@pytest.mark.parametrize("rows", [PARTS, RISKS])
@each_row(("padding", "has_lines"), [(2.0, False), (0.0, False), (3.0, True)])
def test_wrapped_cells_written_line_by_line_are_whole(
    rows: list[list[str]], *, padding: float, has_lines: bool
) -> None:
    pdf = new_page()
    for texts in rows_at(rows, padding=padding, is_middle=False):
        for x, y, text in sorted(texts, key=lambda it: (it[1], it[0])):
            pdf.text(x, y, text)
        if has_lines:
            bottom = max(y for _, y, _ in texts) + 2.5
            pdf.line(18, bottom, 195, bottom)
    assert lines_of(pdf) == table(rows)


def test_lines_of_a_wrapped_heading_are_one_name() -> None:
    heading = [
        "Item\nof the\nlist",
        "Description of\nthe item and its\nmost important\ndata",
        "Remarks",
    ]
    pdf = new_page()
    for texts in rows_at([heading, *PARTS[1:]], padding=2, is_middle=True):
        for x, y, text in texts:
            pdf.text(x, y, text)
    assert lines_of(pdf) == table([heading, *PARTS[1:]])


def test_a_title_in_larger_type_is_above_the_table() -> None:
    pdf = new_page()
    pdf.set_font_size(14)
    pdf.text(20, 45, "Spares")
    pdf.set_font_size(10)
    for texts in rows_at(PARTS, padding=2, is_middle=False):
        for x, y, text in texts:
            pdf.text(x, y, text)
    assert lines_of(pdf) == ["Spares", *table(PARTS)]


def test_names_as_close_as_words_are_above_their_columns() -> None:
    rows = [
        ["Pos", "Name", "Number", "Price", "Note"],
        ["1", "Plate, drilled and\npainted", "7", "1.90", "Packed in tens or\nin smaller boxes"],
        ["2", "Bracket", "12", "0.25", "None"],
        ["3", "Widget with a long\nname", "100", "3.50", "Blue or green"],
    ]
    pdf, places = new_page(), (20, 30, 65, 65 + 25.4 / 72 * 39.3, 110)
    for texts in rows_at(rows, padding=2, is_middle=True, places=places):
        for x, y, text in texts:
            pdf.text(x, y, text)
    assert lines_of(pdf) == table(rows)


def test_wrapped_cells_below_fewer_names_stay_text() -> None:
    pdf = new_page()
    for texts in rows_at([["Item", "", "Text"], *PARTS[1:]], padding=2, is_middle=False):
        for x, y, text in texts:
            pdf.text(x, y, text)
    assert "| Item |" not in lines_of(pdf)[0]


def test_wrapped_cells_after_long_lines_are_whole() -> None:
    rows = [
        ["No.", "Risk", "Measure"],
        [
            "R1",
            "Many of the people who live there know",
            "Later on the pumps were sold to\na museum",
        ],
        ["R2", "In the north new wells came into\nuse after the costs were known", "None"],
        [
            "R3",
            "The works of the town were built in",
            "It was a success for all of those\nwho took part",
        ],
    ]
    pdf = new_page()
    for texts in rows_at(rows, padding=1, is_middle=False, places=(20, 30, 110)):
        for x, y, text in texts:
            pdf.text(x, y, text)
    assert lines_of(pdf) == table(rows)


def test_rows_with_space_between_groups_are_not_joined() -> None:
    rows = [
        ["Country", "Capital", "Kind"],
        ["Japan\nChina", "Tokyo\nBeijing", "Island\nMainland"],
        ["Peru\nChile", "Lima\nSantiago", "Coast\nCoast"],
        ["Ghana\nKenya", "Accra\nNairobi", "Coast\nInland"],
    ]
    pdf = new_page()
    for texts in rows_at(rows, padding=4, is_middle=False):
        for x, y, text in sorted(texts, key=lambda it: (it[1], it[0])):
            pdf.text(x, y, text)
    text = "\n".join(lines_of(pdf))
    assert "Japan China" not in text
    assert "Tokyo Beijing" not in text


def prose(words: Sequence[str], *, columns: int, stories: int) -> FPDF:
    """Draw stories, each in columns of lines with the same gap between them."""
    pdf, y = new_page(), 30.0
    width = 170 / columns
    for story in range(stories):
        lines = [f"{words[(story + at) % len(words)]} of the" for at in range(4)]
        for column in range(columns):
            for at, line in enumerate(lines):
                pdf.text(
                    20 + column * width, y + 4.5 * at, f"{line} {words[-1]} in"[: int(width / 2)]
                )
        y += 4.5 * len(lines) + 5
    return pdf


@given(
    st.lists(
        st.sampled_from(["water", "Wells", "a", "councillors", "No", "long"]),
        min_size=4,
        max_size=8,
    ),
    st.integers(2, 3),
    st.integers(1, 6),
)
def test_columns_of_prose_stay_text(words: list[str], columns: int, stories: int) -> None:
    texts = [f"{' '.join(words * 3)} and the {word}"[:28] for word in words]
    assert "|" not in "\n".join(lines_of(prose(texts, columns=columns, stories=stories)))


def test_many_lines_in_columns_take_linear_time() -> None:
    def seconds(count: int) -> float:
        pdf = new_page()
        for number in range(count):
            for column in range(6):
                pdf.text(5 + 33 * column, 5 + 280 / count * number, f"no {number} way")
        data = bytes(pdf.output())
        start = process_time()
        import_pdf(data, ORIGIN)
        return process_time() - start

    seconds(20)
    assert seconds(800) < 60 * seconds(100)
