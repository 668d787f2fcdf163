"""PPTX slide shows as documents."""

from dataclasses import replace

import pytest

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.slides import import_slides
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import zip_of
from tests.support.slide_shows import paragraph_xml, part_xml, pptx_of, shape_xml
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="plan")


def imported(data: bytes, origin: ImportOptions = ORIGIN) -> Document:
    return import_slides(data, origin)


def shape(text: str, *, top: int = 0, left: int = 0, kind: str = "", more: str = "") -> str:
    return shape_xml(paragraph_xml(text), top=top, left=left, kind=kind, more=more)


def hidden_letters(document: Document) -> str:
    (warning,) = document.warnings
    assert warning.code == "hidden_text"
    return warning.message.split()[0]


def test_a_slide_is_a_page_and_its_title_a_section() -> None:
    document = imported(
        pptx_of(
            shape("Body of one", top=500) + shape("First &amp; best", top=900, kind="title"),
            shape("No title here"),
        )
    )
    assert document.pages == ("## First & best\n\nBody of one", "No title here")
    assert document.title == "First & best"
    sections = document.sections.values()
    assert [(it.title, it.page_start, it.page_end) for it in sections] == [
        ("First & best", 1, 1),
        ("Slide 2", 2, 2),
    ]


def test_shapes_are_read_from_top_to_bottom_and_from_left_to_right() -> None:
    group = (
        '<p:grpSp><p:nvGrpSpPr/><p:grpSpPr><a:xfrm><a:off x="0" y="2000"/>'
        '<a:ext cx="2000" cy="200"/><a:chOff x="0" y="0"/><a:chExt cx="1000" cy="100"/></a:xfrm>'
        f"</p:grpSpPr>{shape('four', top=50)}{shape('three')}</p:grpSp>"
    )
    shapes = shape("five", top=3000) + group + shape("two", top=1010, left=2000)
    assert imported(pptx_of(shapes + shape("one", top=1000))).pages == (
        "one\n\ntwo\n\nthree\n\nfour\n\nfive",
    )


@each_row(
    ("space", "page"),
    [
        ("http://schemas.microsoft.com/office/powerpoint/2012/main", "new"),
        ("http://example.com/2012/main", "old"),
    ],
)
def test_only_alternatives_that_powerpoint_knows_are_read(space: str, page: str) -> None:
    shapes = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
        f' xmlns:odd="{space}"><mc:Choice Requires="odd">{shape("new")}</mc:Choice>'
        f"<mc:Fallback>{shape('old')}</mc:Fallback></mc:AlternateContent>"
    )
    assert imported(pptx_of(shapes)).pages == (page,)


def test_paragraphs_of_a_body_are_nested_items() -> None:
    body = shape_xml(
        paragraph_xml("Costs", properties='<a:pPr lvl="0"/>'),
        paragraph_xml("Travel", properties='<a:pPr lvl="1"/>'),
        paragraph_xml("Step", properties="<a:pPr><a:buAutoNum/></a:pPr>"),
        paragraph_xml("Plain", properties="<a:pPr><a:buNone/></a:pPr>"),
        kind="body",
    )
    assert imported(pptx_of(body)).pages == ("- Costs\n  - Travel\n\n1. Step\n\nPlain",)


def test_struck_text_is_marked() -> None:
    runs = "".join(
        paragraph_xml("x", run=f'<a:rPr strike="{it}"/>') for it in ("sngStrike", "noStrike")
    )
    assert imported(pptx_of(shape_xml(runs))).pages == ("~~x~~\n\nx",)


def test_superscripts_and_line_breaks_stay() -> None:
    text = (
        '<a:p><a:r><a:t>Area in m</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>2</a:t></a:r>'
        '<a:br/><a:r><a:t>H</a:t></a:r><a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r>'
        "<a:r><a:t>O</a:t></a:r></a:p>"
    )
    assert imported(pptx_of(shape_xml(text))).pages[0].split("\n") == ["Area in m^2", "H_2O"]


def test_merged_cells_of_a_table_are_repeated() -> None:
    def cell(text: str, attributes: str = "") -> str:
        return f"<a:tc {attributes}><a:txBody>{paragraph_xml(text)}</a:txBody></a:tc>"

    rows = [
        cell("Region") + cell("Year") + cell("Sales"),
        cell("North", 'rowSpan="2"') + cell("2025") + cell("10"),
        cell("", 'vMerge="1"') + cell("Both", 'gridSpan="2"') + cell("", 'hMerge="1"'),
    ]
    table = "".join(f"<a:tr>{row}</a:tr>" for row in rows)
    frame = f"<p:graphicFrame><a:graphic><a:tbl>{table}</a:tbl></a:graphic></p:graphicFrame>"
    assert imported(pptx_of(frame)).pages == (
        "| Region | Year | Sales |\n| --- | --- | --- |\n"
        "| North | 2025 | 10 |\n| North | Both | Both |",
    )


def test_the_values_of_a_chart_are_a_table() -> None:
    def points(tag: str, *values: str) -> str:
        listed = "".join(f'<c:pt idx="{at}"><c:v>{it}</c:v></c:pt>' for at, it in enumerate(values))
        return f"<c:{tag}>{listed}</c:{tag}>"

    series = "".join(
        f"<c:ser>{points('tx', name)}{points('cat', 'East', 'West')}"
        f"{points('val', *values)}</c:ser>"
        for name, values in {"Q1": ("19.2", "21.4"), "Q2": ("1",)}.items()
    )
    frame = '<p:graphicFrame><a:graphic><c:chart r:id="r0"/></a:graphic></p:graphicFrame>'
    show = pptx_of(
        frame,
        related={1: [("chart", "../charts/c.xml")]},
        parts={"ppt/charts/c.xml": part_xml("c:chartSpace", series)},
    )
    assert imported(show).pages == (
        "|  | Q1 | Q2 |\n| --- | --- | --- |\n| East | 19.2 | 1 |\n| West | 21.4 |  |",
    )


NOTED = pptx_of(
    shape("Text"),
    related={1: [("notesSlide", "../notes.xml"), ("comments", "../comments.xml")]},
    parts={
        "ppt/notes.xml": part_xml(
            "p:notes", shape("Say hello", kind="body") + shape("1", kind="sldNum")
        ),
        "ppt/comments.xml": part_xml("p:cmLst", "<p:cm><p:text>Too long</p:text></p:cm>"),
    },
)


@each_row(
    ("with_notes", "page"),
    [(True, "Text\n\n[Notes: Say hello]\n\n[Comment: Too long]"), (False, "Text")],
)
def test_notes_are_marked_or_left_out(with_notes: bool, page: str) -> None:
    assert imported(NOTED, replace(ORIGIN, with_notes=with_notes)).pages == (page,)


def test_a_hidden_slide_is_an_empty_page_so_that_numbers_stay() -> None:
    document = imported(
        pptx_of(shape("One"), shape("Ignore the rules"), shape("Three"), hidden=[2])
    )
    assert document.pages == ("One", "", "Three")
    assert hidden_letters(document) == str(len("Ignoretherules"))


@each_row(
    "xml",
    [
        shape("secret", left=10_001),
        shape("secret", top=-101),
        shape_xml(paragraph_xml("secret"), hidden=True),
        shape_xml(
            paragraph_xml(
                "secret", run='<a:rPr><a:solidFill><a:srgbClr val="FFFFFF"/></a:solidFill></a:rPr>'
            )
        ),
        shape_xml(
            paragraph_xml(
                "secret", run='<a:rPr><a:solidFill><a:srgbClr val="0000aa"/></a:solidFill></a:rPr>'
            ),
            more='<a:solidFill><a:srgbClr val="0000AA"/></a:solidFill>',
        ),
    ],
)
def test_text_that_nobody_can_see_is_left_out_and_counted(xml: str) -> None:
    document = imported(pptx_of(shape("Seen", top=4000) + xml))
    assert document.pages == ("Seen",)
    assert hidden_letters(document) == "6"


WHITE = paragraph_xml(
    "White", run='<a:rPr><a:solidFill><a:srgbClr val="FFFFFF"/></a:solidFill></a:rPr>'
)
PICTURE = (
    '<p:pic><p:nvPicPr><p:cNvPr id="1" name="p" descr="photo.jpg"/></p:nvPicPr><p:spPr><a:xfrm>'
    '<a:off x="0" y="0"/><a:ext cx="9000" cy="4000"/></a:xfrm></p:spPr></p:pic>'
)


@each_row(
    "xml",
    [
        shape_xml(WHITE, more='<a:solidFill><a:srgbClr val="0000AA"/></a:solidFill>'),
        shape_xml(WHITE, more="<a:gradFill/>"),
        PICTURE + shape_xml(WHITE),
    ],
)
def test_white_text_on_a_fill_or_a_picture_is_content(xml: str) -> None:
    assert imported(pptx_of(xml)).pages == ("White",)


@each_row(
    ("data", "reason"),
    [
        (pptx_of(), "is empty"),
        (pptx_of(shape(" ")), "is empty"),
        (pptx_of(shape("x"), hidden=[1]), "no visible text"),
        (pptx_of(shape("x"))[:500], "is not a readable .pptx file"),
        (zip_of({"ppt/presentation.xml": b"<!DOCTYPE x [<!ENTITY a 'b'>]><x/>"}), "document type"),
    ],
)
def test_a_file_without_readable_slides_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        imported(data)
    assert reason in refused.value.reason


def test_slides_are_within_the_sections_of_the_show() -> None:
    titles = ["Start", "Fees", "Loans", " ", "Hidden", "End"]
    slides = [shape(title, kind="title") for title in titles]
    document = imported(
        pptx_of(
            *slides,
            hidden=[5],
            sections=[
                ("Default Section", [1]),
                ("Rules", [2, 3]),
                ("Without slides", []),
                ("Without text", [4]),
                ("Not shown", [5]),
                (" ", [6]),
            ],
        )
    )
    assert document.title == "Start"
    assert [(it.title, it.page_start) for it in document.sections.values()] == [
        ("Start", 1),
        ("Rules", 2),
        ("Fees", 2),
        ("Loans", 3),
        ("End", 6),
    ]
    assert document.sections["rules"].page_end == 5


def test_an_empty_title_gives_no_heading() -> None:
    document = imported(pptx_of(shape("\u200b", kind="title") + shape("Body", top=900)))
    assert document.pages == ("Body",)
    assert [it.title for it in document.sections.values()] == ["Slide 1"]
