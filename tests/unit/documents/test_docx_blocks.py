"""Tables, titles, headings and pages of Word files (contract §5)."""

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportOptions
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import paragraph_xml, run_xml, word_file
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="leave-rules")


def imported(body: str, **parts: str) -> Document:
    return import_docx(word_file(body, **parts), ORIGIN)


def cell(content: str, properties: str = "") -> str:
    inner = content if content.startswith("<") else paragraph_xml(content)
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{inner}</w:tc>"


def row(*cells: str, properties: str = "") -> str:
    inner = "".join(it if it.startswith("<w:tc>") else cell(it) for it in cells)
    return f"<w:tr><w:trPr>{properties}</w:trPr>{inner}</w:tr>"


def table(*rows: str) -> str:
    return f"<w:tbl><w:tblPr/>{''.join(rows)}</w:tbl>"


def lines_of(*rows: str) -> list[str]:
    return "\n".join(imported(table(*rows)).pages).split("\n")


DOWN = '<w:vMerge w:val="restart"/>'
UP = "<w:vMerge/>"


def wide(columns: int) -> str:
    return f'<w:gridSpan w:val="{columns}"/>'


def test_merged_cells_are_repeated() -> None:
    assert lines_of(
        row("Region", cell("Sales", wide(2))),
        row(cell("North", DOWN), "2025", "10"),
        row(cell("", UP), "2026", "20"),
    ) == [
        "| Region | Sales | Sales |",
        "| --- | --- | --- |",
        "| North | 2025 | 10 |",
        "| North | 2026 | 20 |",
    ]


def test_a_row_that_starts_late_keeps_its_columns() -> None:
    late = row("5", properties='<w:gridBefore w:val="2"/>')
    assert lines_of(row("a", "b", "c"), late)[2] == "|  |  | 5 |"


def test_header_rows_become_one_header() -> None:
    header = "<w:tblHeader/>"
    assert lines_of(
        row(cell("Region", DOWN), cell("Sales", wide(2)), properties=header),
        row(cell("", UP), "2025", "2026", properties=header),
        row("North", "10", "20"),
    ) == ["| Region | Sales 2025 | Sales 2026 |", "| --- | --- | --- |", "| North | 10 | 20 |"]


def test_names_of_groups_and_columns_become_one_header() -> None:
    group = cell("Sales", wide(2))
    names = row("Region", "Europe", "Asia")
    assert lines_of(row("", group), names, row("North", "10", "20.5 %")) == [
        *(
            "| Region | Sales Europe | Sales Asia |",
            "| --- | --- | --- |",
            "| North | 10 | 20.5 % |",
        )
    ]
    assert lines_of(row("", group), row("North", "5", "6"), row("West", "7", "8"))[2:] == [
        *("| North | 5 | 6 |", "| West | 7 | 8 |")
    ]


def test_a_first_row_over_all_columns_is_a_paragraph() -> None:
    assert lines_of(row(cell("Fees", wide(2))), row("a", "b"), row("1", "2")) == [
        *("Fees", "", "| a | b |", "| --- | --- |", "| 1 | 2 |"),
    ]


def test_a_cell_is_one_line_and_bars_are_escaped() -> None:
    two = paragraph_xml("x | y") + paragraph_xml("<w:r><w:t>1</w:t><w:br/><w:t>2</w:t></w:r>")
    assert lines_of(row("a", "b"), row(two, "c"))[2] == r"| x \| y 1 2 | c |"


def test_paragraphs_beside_each_other_are_rows() -> None:
    def column(*texts: str) -> str:
        return "".join(map(paragraph_xml, texts))

    labels = column("", "Income", "Tax", "Levy")
    values = [column("EUR", "17,542", "388", "0"), column("EUR", "18,001", "", "1", "")]
    assert lines_of(row("", "2006", "2007"), row(labels, *values)) == [
        "|  | 2006 | 2007 |",
        "| --- | --- | --- |",
        "|  | EUR | EUR |",
        "| Income | 17,542 | 18,001 |",
        "| Tax | 388 |  |",
        "| Levy | 0 | 1 |",
    ]
    uneven = column("17,542", "388", "0", "1", "2")
    assert (
        lines_of(row("a", "b"), row(labels, uneven))[2] == "| Income Tax Levy | 17,542 388 0 1 2 |"
    )


def test_a_small_table_in_a_cell_is_one_line() -> None:
    inner = table(row("x", "1"), row("y", "2")) + "<w:p/>"
    outer = [row("Item with a long description", "Sizes"), row("A rather long item", cell(inner))]
    assert lines_of(*outer)[2] == "| A rather long item | x, 1; y, 2 |"


def test_a_table_around_the_text_is_layout() -> None:
    heading = paragraph_xml("Rules", properties='<w:outlineLvl w:val="0"/>')
    inner = table(row("a", "b"), row("1", "2"))
    document = imported(table(row(cell(heading + paragraph_xml("Text.") + inner + "<w:p/>"))))
    assert document.pages == ("# Rules\n\nText.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",)
    assert list(document.sections) == ["rules"]


def test_a_form_repeats_nothing() -> None:
    rows = [row(cell("Surname", wide(5)), cell("Name", wide(7)))]
    rows += [row(cell("Date", wide(at)), cell("Place", wide(12 - at))) for at in (2, 4, 6)]
    assert lines_of(*rows) == [
        *("Surname | Name", "", "Date | Place", "", "Date | Place", "", "Date | Place"),
    ]


def test_deleted_rows_are_left_out() -> None:
    rows = [row("a", "b"), row("c", "d", properties='<w:del w:id="1"/>')]
    rows.append(row("1", "2", properties="<w:hidden/>"))  # hides only the mark at the row's end
    assert lines_of(*rows) == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]


def test_a_number_is_the_text_of_an_empty_cell() -> None:
    numbering = (
        '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/>'
        '<w:lvlText w:val="%1."/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    )
    numbered = paragraph_xml(properties='<w:numPr><w:numId w:val="1"/></w:numPr>')
    rows = table(row("No", "Rule"), row(numbered, "a"), row(numbered, "b"))
    pages = imported(rows, numbering=numbering).pages
    assert pages == ("| No | Rule |\n| --- | --- |\n| 1. | a |\n| 2. | b |",)


def test_merged_cells_cannot_multiply_a_text() -> None:
    long = "x" * 1000
    rows = [row("a", "b", "c"), row(cell(long, wide(2)), "c")]
    assert lines_of(*rows)[2] == f"| {long} | (as left) | c |"
    many = [row(cell("y" * 150, UP + wide(30)), cell("z", UP)) for _ in range(2_000)]
    pages = imported(table(row("a", *["b"] * 30), *many)).pages
    assert sum(map(len, pages)) < 3_000_000


DRAWN = "<w:r><w:lastRenderedPageBreak/></w:r>"
BREAK = '<w:r><w:br w:type="page"/></w:r>'


def test_pages_start_where_word_drew_them() -> None:
    body = (
        paragraph_xml("One ", DRAWN, "two.")
        + paragraph_xml("Three.", BREAK)
        + paragraph_xml(DRAWN, "Four.")
        + paragraph_xml(DRAWN + run_xml("Head"), properties='<w:outlineLvl w:val="0"/>')
    )
    document = imported(body)
    assert [page.strip() for page in document.pages] == ["One", "two.\n\nThree.", "Four.", "# Head"]
    assert document.sections["head"].page_start == 4


@each_row(
    ("end", "start"),
    [
        (BREAK, ""),
        ("", "<w:pageBreakBefore/>"),
        ("<w:sectPr/>", ""),
    ],
)
def test_pages_start_where_the_author_broke_them(end: str, start: str) -> None:
    properties, runs = (end, "") if end.startswith("<w:sect") else ("", end)
    first = paragraph_xml("One.", runs or run_xml(""), properties=properties)
    document = imported(first + paragraph_xml("Two.", properties=start) + "<w:sectPr/>")
    assert [page.strip() for page in document.pages] == ["One.", "Two."]


def test_a_page_within_a_table_repeats_the_header() -> None:
    rows = [row("a", "b"), row("1", "2"), row(paragraph_xml(DRAWN, "3"), "4")]
    assert imported(table(*rows)).pages == (
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n",
        "| a | b |\n| --- | --- |\n| 3 | 4 |",
    )


def test_a_file_without_drawn_pages_has_pages_of_8_kb() -> None:
    document = imported(paragraph_xml("Twenty days. " * 100) * 20)
    assert len(document.pages) > 2
    assert max(len(page.encode()) for page in document.pages) <= PAGE_BYTES


def test_a_long_paragraph_is_cut_between_words() -> None:
    pages = imported(paragraph_xml("Twenty days. " * 2_000)).pages
    assert {page[-1] for page in pages[:-1]} == {" "}


def test_a_word_over_two_pages_is_on_the_first() -> None:
    document = imported(paragraph_xml("The termi", DRAWN, "nation clause.", DRAWN, " End."))
    assert document.pages == ("The termination ", "clause.", " End.")


def test_a_page_longer_than_paper_is_cut() -> None:
    document = imported(paragraph_xml("a", DRAWN, "b") + paragraph_xml("Twenty days. " * 10_000))
    assert len(document.pages) > 10
    assert max(len(page.encode()) for page in document.pages) <= PAGE_BYTES


def core(title: str) -> str:
    return f'<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">{title}</dc:title>'


TITLE_STYLES = (
    '<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="Cover"/>'
    '<w:basedOn w:val="Titel"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Sub"><w:name w:val="Subtitle"/>'
    '<w:basedOn w:val="Titel"/></w:style>'
)


@each_row(
    ("styles", "title"),
    [
        (["Titel"], "Part 1"),
        (["Mine", "Titel"], "Part 1 Part 2"),
        (["Sub", "Mine"], "Part 2"),
        (["Sub"], "Text"),
    ],
)
def test_the_title_has_the_style_title_or_one_based_on_it(styles: list[str], title: str) -> None:
    parts = [
        paragraph_xml(f"Part {number}", properties=f'<w:pStyle w:val="{style}"/>')
        for number, style in enumerate(styles, start=1)
    ]
    heading = paragraph_xml("Text", properties='<w:outlineLvl w:val="0"/>')
    assert imported("".join(parts) + heading, styles=TITLE_STYLES).title == title


@each_row(
    ("properties", "title"),
    [("Travel policy", "Travel policy"), ("Microsoft Word - a.doc", "leave-rules")],
)
def test_a_title_in_the_properties_is_used_unless_a_program_wrote_it(
    properties: str, title: str
) -> None:
    assert imported(paragraph_xml("Text"), core=core(properties)).title == title


def test_headings_have_the_level_of_their_outline() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="a"><w:name w:val="Überschrift 2"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="b"><w:basedOn w:val="a"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="c"><w:basedOn w:val="a"/><w:pPr>'
        '<w:outlineLvl w:val="9"/></w:pPr></w:style>'
    )
    body = "".join(paragraph_xml(it, properties=f'<w:pStyle w:val="{it}"/>') for it in "abc")
    body += paragraph_xml("long " * 100, properties='<w:outlineLvl w:val="0"/>')
    document = imported(body, styles=styles)
    assert document.pages[0].startswith("## a\n\n## b\n\nc\n\nlong")
    assert list(document.sections) == ["a", "b"]
