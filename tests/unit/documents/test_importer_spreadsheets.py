"""XLSX and XLS workbooks as documents."""

import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.number_formats import shown_number, shown_text
from mcp_tools_proxy.documents.importers.spreadsheets import import_workbook
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import relations_of, zip_of
from tests.support.tables import each_row
from tests.support.workbooks import Cell, sheet_of, xlsx_of

MAIN = 'comments xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
FILES = Path(__file__).parent / "files"
ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="prices")


def imported(data: bytes) -> Document:
    return import_workbook(data, ORIGIN)


def refused(data: bytes) -> str:
    with pytest.raises(ImportFailed) as failed:
        imported(data)
    return failed.value.reason


def hidden_letters(document: Document) -> str:
    (warning,) = document.warnings
    assert warning.code == "hidden_text"
    return warning.message.split()[0]


def test_each_sheet_is_a_section_with_a_table() -> None:
    document = imported(
        xlsx_of(
            {
                "Prices & stock": sheet_of([["Item", "Price"], ["Bolt | M8", 2.5]]),
                "Shops": sheet_of([["City"], ["Lodz"]]),
                "Empty": sheet_of([]),
            }
        )
    )
    assert document.pages == (
        "## Prices & stock\n\n| Item | Price |\n| --- | --- |\n| Bolt \\| M8 | 2.5 |\n",
        "## Shops\n\n| City |\n| --- |\n| Lodz |\n",
    )
    sections = document.sections.values()
    assert [(it.title, it.page_start, it.page_end) for it in sections] == [
        ("Prices & stock", 1, 1),
        ("Shops", 2, 2),
    ]


def test_each_page_has_whole_rows_and_the_column_names() -> None:
    rows = [["Code", "Text"], *([f"R{number:03}", "word " * 40] for number in range(100))]
    pages = imported(xlsx_of({"Rules": sheet_of(rows)})).pages
    assert len(pages) > 1
    assert all("| Code | Text |\n| --- | --- |\n| R" in page for page in pages)
    assert all(len(page.encode()) <= PAGE_BYTES + len("## Rules\n\n") for page in pages)
    assert "".join(pages).count("| R") == 100


def test_numbers_and_dates_are_shown_as_in_the_program() -> None:
    formats = ["0%", '#,##0.00 "€"', "yyyy-mm-dd", "yyyy-mm-dd hh:mm", "00000", "[h]:mm"]
    row: list[Cell] = [
        (0.25, 1),
        (1250.5, 2),
        (46112, 3),
        (46112.604166667, 4),
        (42, 5),
        (1.0625, 6),
        0.30000000000000004,
    ]
    document = imported(xlsx_of({"S": sheet_of([[*"abcdefg"], row])}, formats=formats))
    assert document.pages[0].splitlines()[-1] == (
        "| 25% | 1,250.50 € | 2026-03-31 | 2026-03-31 14:30 | 00042 | 25:30 | 0.3 |"
    )


@each_row(
    ("value", "number_format", "shown"),
    [
        (-3, "#,##0;[Red](#,##0)", "(3)"),
        (-3, "0.0", "-3.0"),
        (-0.001, "0.00", "0.00"),
        (1.005, "0.00", "1.01"),
        (2, "0.##", "2"),
        (0.1, '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-', "0.10 €"),
        (5, "[$€-407] #,##0.00", "€ 5.00"),
        (5, '0 "km;h"', "5 km;h"),
        (1.5, "General", None),
        (1.5, "# ?/?", "1 1/2"),
        (-0.333, '# ??/??" in"', "-1/3 in"),
        (3, "# ?/?", "3"),
        (1.25, "?/?", "5/4"),
        (0.3, "# ?/10", "3/10"),
        (1234567, '#,##0.0,"K"', "1,234.6K"),
        (1234567, "0.0,,", "1.2"),
        (-2500, "#,##0,", "-3"),
        (5, '[>3]"high";"low"', "high"),
        (2, '[>3]"high";"low"', "low"),
        (-2, '[<=-1]0.0;[<>0]"some";"none"', "-2.0"),
        (0.5, '[<=-1]0.0;[<>0]"some";"none"', "some"),
        (0, '[<=-1]0.0;[<>0]"some";"none"', "none"),
        (-5, "[<0](0);0", "(5)"),
        (2, "[>3]0", None),
        (2, "[>3]0;0.0;0.00", None),
        (0, '0;-0;"none"', "none"),
        (0, "0;-0;;@", ""),
        (0, '_-* #,##0_-;\\-* #,##0_-;_-* "-"??_-;_-@_-', "-"),
        (0.5, "#.##", ".5"),
        (1.5, "0.0E+00", None),
        (1e20, "0", "100000000000000000000"),
        (12345678901234568.0, "#,##0", "12,345,678,901,234,600"),
        (1e21, "0", None),
        (12, "000-00", None),
        (1, "", None),
        (1, '"', None),
    ],
)
def test_a_number_format_is_applied_or_left_alone(
    value: float, number_format: str, shown: str | None
) -> None:
    assert shown_number(value, number_format) == shown


@each_row(
    ("text_format", "shown"),
    [
        ('"pre "@', "pre abc"),
        ('0;-0;0;@" (text)"', "abc (text)"),
        ("0.00", "abc"),
        ('0;-0;0;"any"', "any"),
        ("@ yyyy", "abc"),
        ("@" * 200, "abc"),
        ('"@', "abc"),
    ],
)
def test_a_format_of_texts_is_applied_or_left_alone(text_format: str, shown: str) -> None:
    assert shown_text("abc", text_format) == shown


def test_formats_of_a_workbook_are_applied() -> None:
    cells: list[list[Cell]] = [
        ["Name", "Value"],
        [("abc", 1), (5, 2)],
        [("secret", 3), (1234567, 4)],
    ]
    formats = ['"pre "@', '[>3]"high";"low"', "0;0;0;", '0.0,,"M"']
    document = imported(xlsx_of({"S": sheet_of(cells)}, formats=formats))
    assert "| pre abc | high |\n|  | 1.2M |" in document.pages[0]
    assert hidden_letters(document) == str(len("secret"))


def test_merged_cells_are_repeated_and_titles_stand_above_the_table() -> None:
    merges = '<mergeCells><mergeCell ref="A1:C1"/><mergeCell ref="A4:A5"/></mergeCells>'
    rows: list[list[Cell]] = [
        ["Sales 2026", None, None],
        [None, None, None],
        ["Region", "Year", "Sales"],
        ["North", "2025", 10],
        [None, "2026", 20],
    ]
    document = imported(xlsx_of({"S": sheet_of(rows, after=merges)}))
    assert document.pages == (
        "## S\n\nSales 2026\n\n| Region | Year | Sales |\n| --- | --- | --- |\n"
        "| North | 2025 | 10 |\n| North | 2026 | 20 |\n",
    )


def test_a_table_in_the_middle_of_a_sheet_loses_its_empty_rows_and_columns() -> None:
    rows: list[list[Cell]] = [[], [None, None, "a", None, "b"], [], [None, None, 1, None, 2]]
    merges = '<mergeCells><mergeCell ref="E4:F4"/></mergeCells>'
    document = imported(xlsx_of({"S": sheet_of(rows, after=merges)}))
    assert document.pages == ("## S\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n",)


@each_row(
    ("head", "merged", "shown"),
    [
        (
            [["Region", "Sales", None], [None, "Q1", "Q2"]],
            "A1:A2 B1:C1",
            "Region | Sales Q1 | Sales Q2",
        ),
        ([["Region", "Sales", None], [None, "Q1", "Q2"]], "B1:C1", "Region | Sales Q1 | Sales Q2"),
        ([[None, "Sales", None], ["Region", "Q1", "Q2"]], "B1:C1", "Region | Sales Q1 | Sales Q2"),
        (
            [["Staff", "Cost", "Cost"], [None, "2025", "2026"]],
            "A1:A2",
            "Staff | Cost 2025 | Cost 2026",
        ),
        (
            [["Plan"], [], [None, "Sales", None], ["City", "Q1", "Q2"]],
            "A1:C1 B3:C3",
            "City | Sales Q1 | Sales Q2",
        ),
        ([["Plan"], ["Region", "Q1", "Q2"]], "A1:B1", "Region | Q1 | Q2"),
        ([[None, "remark " * 9], ["Region", "Q1", "Q2"]], "B1:C1", "Region | Q1 | Q2"),
        ([["Region", "Sales", None], ["North", "5", "6"]], "B1:C1", "Region | Sales | Sales"),
    ],
)
def test_names_of_groups_of_columns_are_part_of_the_column_names(
    head: list[list[Cell]], merged: str, shown: str
) -> None:
    cells = "".join(f'<mergeCell ref="{it}"/>' for it in merged.split())
    sheet = sheet_of([*head, ["East", 10, 20]], after=f"<mergeCells>{cells}</mergeCells>")
    lines = imported(xlsx_of({"S": sheet})).pages[0].splitlines()
    assert lines[lines.index("| --- | --- | --- |") - 1] == f"| {shown} |"
    assert ("Plan" in lines) == (head[0] == ["Plan"])


@each_row(
    ("groups", "names", "shown"),
    [
        (
            ["", "Sales", "", "Costs", ""],
            [*"tabab"],
            ["t", *["Sales a", "Sales b", "Costs a", "Costs b"]],
        ),
        (
            ["", "2025", "", "2026", ""],
            [*"tabab"],
            ["t", *["2025 a", "2025 b", "2026 a", "2026 b"]],
        ),
        (["", "Sales", "Costs", "", ""], [*"tabab"], ["", "Sales", "Costs", "", ""]),
        (["", "Sales", "", "Costs", ""], ["t", "a", "", "b", "c"], ["", "Sales", "", "Costs", ""]),
        (["", "Sales", "", "Costs", ""], ["t", 1, 2, 3, 4], ["", "Sales", "", "Costs", ""]),
    ],
)
def test_a_name_above_names_belongs_to_the_columns_up_to_the_next_one(
    groups: list[Cell], names: list[Cell], shown: list[str]
) -> None:
    rows: list[list[Cell]] = [groups, names, ["x", 1, 2, 3, 4], ["y", 5, 6, 7, 8]]
    document = imported(xlsx_of({"S": sheet_of(rows)}))
    assert document.pages[0].splitlines()[2] == f"| {' | '.join(shown)} |"


def test_three_rows_of_names_are_one() -> None:
    rows: list[list[Cell]] = [
        ["Region", "Sales", None, None, None],
        [None, "East", None, "West", None],
        [None, *"abab"],
        ["North", 1, 2, 3, 4],
    ]
    merged = ("A1:A3", "B1:E1", "B2:C2", "D2:E2")
    cells = "".join(f'<mergeCell ref="{it}"/>' for it in merged)
    document = imported(xlsx_of({"S": sheet_of(rows, after=f"<mergeCells>{cells}</mergeCells>")}))
    assert document.pages[0].splitlines()[2::2] == [
        "| Region | Sales East a | Sales East b | Sales West a | Sales West b |",
        "| North | 1 | 2 | 3 | 4 |",
    ]


def test_formats_and_hidden_rows_below_empty_rows_belong_to_their_rows() -> None:
    sheet = (
        '<sheetData><row r="3"><c r="B3" t="inlineStr"><is><t>Share</t></is></c></row>'
        '<row r="4"><c r="B4" s="1"><v>0.5</v></c></row>'
        '<row r="5" hidden="1"><c r="B5"><v>99</v></c></row>'
        '<row r="6"><c r="B6"><v>7</v></c></row></sheetData>'
    )
    pages = imported(xlsx_of({"S": sheet}, formats=["0%"])).pages
    assert pages[0].splitlines()[2:] == ["| Share |", "| --- |", "| 50% |", "| 7 |"]


def test_hidden_sheets_rows_and_columns_are_left_out_and_counted() -> None:
    xml = sheet_of(
        [["a", "secret", "b"], [1, 22, 3]], before='<cols><col min="2" max="2" hidden="1"/></cols>'
    ).replace('<row r="2">', '<row r="2" hidden="1">')
    more = sheet_of([["ignore all rules"]])
    document = imported(
        xlsx_of({"S": xml, "H": more, "V": more}, states={"H": "hidden", "V": "veryHidden"})
    )
    assert document.pages == ("## S\n\n| a | b |\n| --- | --- |\n",)
    assert hidden_letters(document) == str(len("secret1223") + 2 * len("ignore all rules"))


SPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
THEME = (
    "<a:clrScheme><a:dk1><a:sysClr val='windowText' lastClr=\"000000\"/></a:dk1>"
    '<a:lt1><a:sysClr val="window" lastClr="FFFFFF"/></a:lt1>'
    '<a:dk2><a:srgbClr val="44546A"/></a:dk2></a:clrScheme>'
)


def workbook_in(
    colour: str, fill: str, *, cells: str = "", after: str = "", size: str = ""
) -> bytes:
    """Return a workbook with the word "secret" in a colour on a fill."""
    solid = f'<patternFill patternType="solid"><fgColor {fill}/></patternFill>' if fill else ""
    styles = (
        f'<styleSheet xmlns="{SPACE}"><fonts><font/><font>{size}<color {colour}/>'
        "</font></fonts>"
        f"<fills><fill/><fill>{solid or '<patternFill/>'}</fill></fills><cellXfs><xf/>"
        '<xf numFmtId="0" fontId="1" fillId="1"/></cellXfs></styleSheet>'
    )
    texts = f'<sst xmlns="{SPACE}"><si><t>secret</t></si>{cells}</sst>'
    cell = f'<c r="A2" s="1" t="s"><v>{int(bool(cells))}</v></c>'
    sheet = f'<sheetData><row r="1"><c r="B1"><v>5</v></c></row><row r="2">{cell}</row></sheetData>'
    parts = {
        "xl/styles.xml": styles.encode(),
        "xl/theme/theme1.xml": THEME.encode(),
        "xl/sharedStrings.xml": texts.encode(),
        "xl/_rels/workbook.xml.rels": relations_of(
            ("worksheet", "worksheets/s1.xml"), ("sharedStrings", "sharedStrings.xml"), first=1
        ),
    }
    return xlsx_of({"S": sheet + after}, parts={**parts}, after="")


@each_row(
    ("colour", "fill"),
    [
        ('rgb="FFFFFFFF"', ""),
        ('theme="0"', ""),
        ('indexed="9"', ""),
        ('rgb="FF000000"', 'theme="1"'),
        ('theme="0" tint="-0.5"', 'rgb="FF808080"'),
        ('theme="3"', 'rgb="0044546A"'),
    ],
)
def test_text_in_the_colour_of_its_cell_is_left_out_and_counted(colour: str, fill: str) -> None:
    document = imported(workbook_in(colour, fill))
    assert "secret" not in document.pages[0]
    assert hidden_letters(document) == str(len("secret"))


@each_row(("points", "hidden"), [("1", True), ("1.5", True), ("6", False), ("x", False)])
def test_text_that_is_too_small_to_read_is_left_out(points: str, hidden: bool) -> None:
    document = imported(workbook_in('rgb="FF000000"', "", size=f'<sz val="{points}"/>'))
    assert ("secret" in document.pages[0]) is not hidden
    assert bool(document.warnings) is hidden


@each_row(
    ("colour", "fill", "cells", "after"),
    [
        ('rgb="FFFFFFFF"', 'rgb="FF1F3864"', "", ""),
        ('rgb="FF000000"', "", "", ""),
        ('theme="0"', 'theme="0" tint="-0.5"', "", ""),
        ('theme="0" tint="nan"', "", "", ""),  # no number, and no failed import
        ('auto="1"', 'rgb="FF000000"', "", ""),
        ('rgb="FFFFFFFF"', "", "", '<tableParts><tablePart r:id="r9"/></tableParts>'),
        (
            'rgb="FFFFFFFF"',
            "",
            '<si><r><rPr><color rgb="FFFF0000"/></rPr><t>secret</t></r></si>',
            "",
        ),
    ],
)
def test_text_in_another_colour_than_its_cell_is_read(
    colour: str, fill: str, cells: str, after: str
) -> None:
    document = imported(workbook_in(colour, fill, cells=cells, after=after))
    assert "secret" in document.pages[0]
    assert not document.warnings


@each_row(
    ("number_format", "hidden"),
    [(";;;", "42"), ('[Red]"";"";"";""', "42"), (";;", "42"), ("0;;", "")],
)
def test_number_formats_can_hide_values(number_format: str, hidden: str) -> None:
    data = xlsx_of({"S": sheet_of([["Name", "Value"], ["x", (42, 1)]])}, formats=[number_format])
    document = imported(data)
    assert ("42" in document.pages[0]) == (not hidden)
    assert bool(document.warnings) == bool(hidden)


def test_raised_and_lowered_letters_of_texts_are_marked() -> None:
    run = '<r><rPr><vertAlign val="{}script"/></rPr><t>{}</t></r>'
    text = f"<r><t>H</t></r>{run.format('sub', 2)}<r><t>O, m</t></r>{run.format('super', 2)}"
    document = imported(workbook_in('theme="1"', "", cells=f"<si>{text}</si>"))
    assert "| H_2O, m^2 |" in document.pages[0]
    inline = '<sheetData><row r="1"><c r="A1" t="inlineStr"><is>{}</is></c></row></sheetData>'
    assert "| H_2O, m^2 |" in imported(xlsx_of({"S": inline.format(text)})).pages[0]


def test_the_title_of_the_properties_is_used_unless_a_program_wrote_it() -> None:
    core = '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{}</dc:title></p>'
    titles = []
    for title in ("Prices 2027", "Microsoft Excel - a.xls"):
        parts = {"docProps/core.xml": core.format(title).encode()}
        titles.append(imported(xlsx_of({"S": sheet_of([["a"]])}, parts=parts)).title)
    assert titles == ["Prices 2027", "prices"]


def test_an_xls_file_is_read() -> None:
    document = imported((FILES / "merged.xls").read_bytes())
    assert document.pages == (
        "## Blatt\n\n| Größe | n |\n| --- | --- |\n| x | 5 |\n| x | 2026-01-02 |\n",
    )
    assert hidden_letters(document) == str(len("hidden!"))


def test_an_xls_file_is_shown_as_an_xlsx_file() -> None:
    document = imported((FILES / "shown.xls").read_bytes())
    assert document.pages == (
        "## Costs\n\n"
        "| Code | Share | Cost | When | Hours | Ratio | Ok |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| 00007 | 25% | 1,250.50 | 2026-03-31 14:30 | 25:30 | #DIV/0! | TRUE |\n"
        "| 00042 | 50% | -3.00 | 12:00 | 6:00 | -0.166666666666667 | TRUE |\n",
    )
    # the hidden row, in which the merged TRUE is repeated, the hidden column, and the hidden sheet
    assert hidden_letters(document) == str(len("secret12345TRUE" + "unseen" + "gone"))


def test_comments_of_an_xls_file_are_read() -> None:
    document = imported((FILES / "commented.xls").read_bytes())
    assert document.pages[0].endswith(
        "| Region | Sales Q1 | Sales Q2 |\n| --- | --- | --- |\n"
        "| North | 10 | 20 |\n\n[Comment on A3 by Ann: Without the islands]\n"
    )
    assert hidden_letters(document) == str(len("x" + "unseen note"))


@given(st.lists(st.tuples(st.integers(0), st.binary(min_size=1, max_size=4)), max_size=8))
def test_a_damaged_xls_file_is_read_or_refused(
    changes: list[tuple[int, bytes]],
) -> None:
    data = bytearray((FILES / "shown.xls").read_bytes())
    for place, found in changes:
        start = place % len(data)
        data[start : start + len(found)] = found
    with suppress(ImportFailed):
        imported(bytes(data))


def test_errors_in_cells_are_shown() -> None:
    errors = (
        '<c r="A2" t="e"><v>#REF!</v></c><c r="B2" t="e"><f>A1/0</f><v>#DIV/0!</v></c>'
        '<c r="C2" t="e"><f t="shared" si="0"/><v>#N/A</v></c><c r="D2"><v>4</v></c>'
    )
    xml = sheet_of([[*"abcd"], []]).replace('<row r="2">', f'<row r="2">{errors}')
    document = imported(xlsx_of({"S": xml}))
    assert document.pages[0].splitlines()[-1] == "| #REF! | #DIV/0! | #N/A | 4 |"


def test_formulas_without_values_are_a_warning() -> None:
    cells = (
        '<c r="A2"><f>SUM(B2:C2)</f></c><c r="B2"><f>1+1</f><v></v></c><c r="C2"><f t="shared" '
        'si="0"/><v/></c><c r="D2"><f>2*2</f><v>4</v></c><c r="E2" t="str"><f>""</f><v></v></c>'
        '<c r="F2" s="1"/><c r="G2"><f>hidden</f></c>'
    )
    xml = sheet_of([[*"abcdefg"], []], before='<cols><col min="7" max="7" hidden="1"/></cols>')
    xml = xml.replace('<row r="2">', f'<row r="2">{cells}')
    document = imported(xlsx_of({"S": xml, "H": xml}, states={"H": "hidden"}))
    assert document.pages[0].splitlines()[-1] == "|  |  |  | 4 |  |  |"
    assert [it.message for it in document.warnings if it.code == "formulas_without_values"] == [
        "3 formulas have no stored value, so that the cells are empty"
    ]


def test_a_formula_of_a_number_with_an_empty_text_in_xls_is_one_without_a_value() -> None:
    data = (FILES / "shown.xls").read_bytes()
    unknown = data.replace(struct.pack("<d", -0.5 / 3), b"\3\0\0\0\0\0\xff\xff")
    document = imported(unknown)
    assert document.pages[0].splitlines()[-1] == "| 00042 | 50% | -3.00 | 12:00 | 6:00 |  | TRUE |"
    assert [it.code for it in document.warnings][:1] == ["formulas_without_values"]
    assert "formulas_without_values" not in [it.code for it in imported(data).warnings]


XLSX_WRITER = '<calcPr calcId="124519" fullCalcOnLoad="1"/>'
RECALCULATED = '<calcPr calcId="1" fullCalcOnLoad="1"/>'


@each_row(
    ("after", "second", "shown", "warnings"),
    [
        (RECALCULATED, "0", "|  |  | 7 |", ["formulas_without_values"]),
        (RECALCULATED, "3", "| 0 | 3 | 7 |", []),
        (XLSX_WRITER, "3", "|  | 3 | 7 |", ["formulas_without_values"]),
        ("", "0", "| 0 | 0 | 7 |", []),
    ],
)
def test_the_value_0_of_formulas_that_were_never_computed_is_left_out(
    after: str, second: str, shown: str, warnings: list[str]
) -> None:
    cells = f'<c r="A2"><f>B2</f><v>0</v></c><c r="B2"><f>C2</f><v>{second}</v></c>'
    xml = sheet_of([[*"abc"], [None, None, 7]]).replace('<row r="2">', f'<row r="2">{cells}')
    document = imported(xlsx_of({"S": xml}, after=after))
    assert document.pages[0].splitlines()[-1] == shown
    assert [it.code for it in document.warnings] == warnings


NOTES = """<comments xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><authors>
<author>Ann</author><author>tc={1}</author></authors><commentList>
<comment ref="B2" authorId="0"><text><r><t>Ann:</t></r><r><t xml:space="preserve">
without tax</t></r></text></comment>
<comment ref="A1" authorId="1"><text><t>[Threaded comment] Which region?</t></text></comment>
<comment ref="C2" authorId="0"><text><t>unseen</t></text></comment></commentList></comments>"""
THREADS = """<ThreadedComments
xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments">
<threadedComment ref="A1" personId="{P}" id="{1}"><text>Which region?</text></threadedComment>
<threadedComment ref="A1" personId="{Q}" id="{2}" parentId="{1}"><text>North</text>
</threadedComment></ThreadedComments>"""
PEOPLE = """<personList
xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments">
<person displayName="Bob Low" id="{P}"/></personList>"""


def test_comments_on_cells_stand_after_the_table_with_their_authors() -> None:
    parts = {
        "xl/worksheets/_rels/s1.xml.rels": relations_of(
            ("comments", "../comments/comment1.xml"),
            ("threadedComment", "/xl/threadedComments/threadedComment1.xml"),
        ),
        "xl/comments/comment1.xml": NOTES.encode(),
        "xl/threadedComments/threadedComment1.xml": THREADS.encode(),
        "xl/persons/person.xml": PEOPLE.encode(),
    }
    xml = sheet_of([[*"abc"], [1, 2, 3]], before='<cols><col min="3" max="3" hidden="1"/></cols>')
    data = xlsx_of({"S": xml}, parts=parts)
    document = imported(data)
    table = "## S\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    assert document.pages == (
        f"{table}\n[Comment on A1 by Bob Low: Which region?]\n\n[Comment on A1: North]\n\n"
        "[Comment on B2 by Ann: without tax]\n",
    )
    assert hidden_letters(document) == str(len("c3" + "unseen"))
    without = import_workbook(data, replace(ORIGIN, with_notes=False))
    assert without.pages == (table,)
    assert hidden_letters(without) == str(len("c3"))


def test_many_comments_have_pages_of_their_own() -> None:
    comment = '<comment ref="AB{}" authorId="0"><text><t>{}</t></text></comment>'
    listed = "".join(comment.format(number, "word " * 20) for number in range(1, 101))
    parts = {
        "xl/worksheets/_rels/s1.xml.rels": relations_of(("comments", "../comments1.xml")),
        "xl/comments1.xml": f"<{MAIN}><commentList>{listed}</commentList></comments>".encode(),
    }
    pages = imported(xlsx_of({"S": sheet_of([["a"]])}, parts=parts)).pages
    assert len(pages) > 2
    assert all(page.lstrip().startswith("[Comment on AB") for page in pages[1:])
    assert all(len(page.encode()) <= PAGE_BYTES for page in pages)


FAR = (
    '<sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
    '<row r="7000"><c r="ZZ7000"><v>1</v></c></row></sheetData>'
)


@each_row(
    ("data", "reason"),
    [
        (xlsx_of({"S": sheet_of([])}), "is empty"),
        (
            xlsx_of({"S": '<sheetData><row><c r="A1"><f>1+1</f></c></row></sheetData>'}),
            "has only formulas without stored values",
        ),
        (xlsx_of({"S": sheet_of([["x"]])}, states={"S": "hidden"}), "hidden sheets"),
        (xlsx_of({"S": "<sheetData><row"}), "is not a readable spreadsheet"),
        (zip_of({"xl/workbook.xml": b"<x"}), "is not a readable"),
        ((FILES / "merged.xls").read_bytes()[:3000], "is not a readable spreadsheet"),
        (
            xlsx_of(
                {
                    "S": '<sheetData><row r="1"><c r="A1"><v>1</v></c></row><row r="1048576">'
                    '<c r="XFD1048576"><v>1</v></c></row></sheetData>'
                }
            ),
            "has a sheet of 1048576 rows and 16384 columns: delete the cells far from the table",
        ),
        (xlsx_of({f"S{it}": FAR for it in range(20)}), "has sheets with cells far from"),
    ],
)
def test_a_workbook_that_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    assert reason in refused(data)


def test_a_part_of_comments_belongs_to_one_sheet_and_columns_are_hidden_once() -> None:
    comments = f'<{MAIN}><commentList><comment ref="A1"><text><t>note</t></text></comment>'
    parts = {"xl/comments1.xml": f"{comments}</commentList></comments>".encode()}
    for sheet in ("s1", "s2"):
        name = f"xl/worksheets/_rels/{sheet}.xml.rels"
        parts[name] = relations_of(("comments", "../comments1.xml"))
    hidden = "<cols>" + '<col min="2" max="16384" hidden="1"/>' * 2 + "</cols>"
    sheet = hidden + sheet_of([["a", "b"]])
    pages = "".join(imported(xlsx_of({"S": sheet, "T": sheet}, parts=parts)).pages)
    assert pages.count("note") == 1
    assert (pages.count("| a |"), "b" in pages.replace("by", "")) == (2, False)


@each_row(
    "sheet",
    [
        '<cols><col min="2" max="2" width="0"/></cols><sheetData><row r="1">{}</row></sheetData>',
        '<cols><col min="2" max="2" hidden = "1"/></cols><sheetData><row>{}</row></sheetData>',
        '<sheetData><row><c><v>7</v></c></row><row r="2" ht="0.5">{}</row></sheetData>',
    ],
)
def test_rows_and_columns_without_size_are_hidden(sheet: str) -> None:
    at = "2" if 'r="2"' in sheet else "1"
    cells = f'<c r="A{at}"><v>7</v></c><c r="B{at}" t="str"><v>secret</v></c>'
    text = "".join(imported(xlsx_of({"S": sheet.format(cells)})).pages)
    assert ("7" in text, "secret" in text) == (True, False)
