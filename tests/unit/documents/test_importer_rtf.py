"""RTF files as documents."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.rtf import import_rtf
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="letter")
FONTS = (
    r"{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}{\f2\fcharset128 MS Mincho;}"
    r"{\f3\fcharset2 Symbol;}}{\colortbl;\red255\green255\blue255;\red0\green0\blue0;}"
)


def imported(body: str, origin: ImportOptions = ORIGIN) -> Document:
    data = r"{\rtf1\ansi\ansicpg1252\deff0" + FONTS + body + "}"
    return import_rtf(data.encode("latin-1"), origin)


def test_headings_by_outline_level_are_sections_and_the_title_is_read() -> None:
    document = imported(
        r"{\info{\title Leave {policy}}{\author Ann}}{\stylesheet{\s1 heading 1;}}"
        r"\pard\outlinelevel0 Start\par\pard Text\par\pard\outlinelevel1 Costs\par"
    )
    assert document.pages == ("# Start\n\nText\n\n## Costs",)
    assert document.title == "Leave policy"
    assert [it.title for it in document.sections.values()] == ["Start", "Costs"]


def test_headings_by_style_are_sections() -> None:
    document = imported(
        r"{\stylesheet{\s1\b Heading 1;}{\s2\outlinelevel1 Clause;}}"
        r"\pard\plain\s1 Start\par\pard\plain\s0 Text\par\pard\plain\s2 Costs\par"
    )
    assert document.pages == ("# Start\n\nText\n\n## Costs",)


def test_a_wide_cell_of_a_table_is_repeated() -> None:
    head = r"\trowd\cellx1000\cellx2000\cellx3000\pard\intbl A\cell B\cell C\cell\row"
    wide = r"\trowd\cellx2002\cellx2998\pard\intbl both\cell one\cell\row"
    assert imported(head + wide).pages == (
        "| A | B | C |\n| --- | --- | --- |\n| both | both | one |",
    )


@each_row(
    ("start", "merged", "value"),
    [(r"\clvmgf", r"\clvmrg", "few"), ("", "", "20"), (r"\trhdr", r"\trhdr", "few")],
)
def test_names_of_groups_of_columns_are_part_of_the_column_names(
    start: str, merged: str, value: str
) -> None:
    names = (
        rf"\trowd{start}\cellx1000\clmgf\cellx2000\clmrg\cellx3000 City\cell Sales\cell\cell\row"
        rf"\trowd{merged}\cellx1000\cellx2000\cellx3000 \cell Q1\cell Q2\cell\row"
    )
    row = rf"\trowd\cellx1000\cellx2000\cellx3000 Lodz\cell {value}\cell {value}\cell\row"
    assert imported(rf"\pard\intbl {names}{row}").pages == (
        f"| City | Sales Q1 | Sales Q2 |\n| --- | --- | --- |\n| Lodz | {value} | {value} |",
    )


@each_row(
    ("body", "shown"),
    [
        (r"Gr\'fc\'dfe", "Grüße"),
        (r"{\f1\'ef\'f0\'e8\'e2\'e5\'f2} Ann", "привет Ann"),
        (r"\f2\'83\'65\'83X", "テス"),
        (r"\u1055?\u1088\'3f\uc2\u1080\'3f\'3f!", "При!"),
        (r"\uc0\u-10179\u-8704", "😀"),
        (r"a\~b \emdash  c\_d e\-f \{g\}", "a b — c-d ef {g}"),
        (r"5 m{\super 2} of H{\sub 2}O", "5 m^2 of H_2O"),
        (r"{\field{\*\fldinst HYPERLINK x}{\fldrslt here}} {\*\unknown no}", "here"),
        (r"{\listtext\f3\'b7\tab}item", "- item"),
        (r"{\pict\pngblip 89504e47}{\object{\objdata 00}}{\pict\bin3 }}}}text", "text"),
        (r"old{\deleted gone} new", "old new"),
        (r"old{\revised\revdttm-2074015744 new}", "oldnew"),
    ],
)
def test_the_text_is_what_a_reader_sees(body: str, shown: str) -> None:
    assert imported(body).pages == (shown,)


def test_merged_cells_of_a_table_are_repeated() -> None:
    row = r"\trowd\cellx1\cellx2\cellx3\pard\intbl Region\cell Year\cell Sales\cell\row"
    tall = r"\trowd\clvmgf\cellx1\cellx2\cellx3 North\cell 2025\cell 10\par \cell\row"
    wide = r"\trowd\clvmrg\cellx1\clmgf\cellx2\clmrg\cellx3 \cell Both\cell\cell\row"
    assert imported(f"Above\\par{row}{tall}{wide}\\pard Below\\par").pages == (
        "Above\n\n| Region | Year | Sales |\n| --- | --- | --- |\n| North | 2025 | 10 |\n"
        "| North | Both | Both |\n\nBelow",
    )


def test_notes_margins_and_text_boxes_are_read() -> None:
    body = (
        r"{\header\pard HR-77\par}{\footer Page \chpgn}Text{\footnote\pard See annex.}"
        r"{\shp{\*\shpinst{\sp{\sn x}{\sv 1}}{\shptxt\pard In a box\par}}{\shprslt no}}"
        r"{\*\atnauthor Ann}{\*\annotation Check it}\par"
    )
    page = imported(body).pages[0]
    assert page.split("\n\n") == [
        "[Header: HR-77]",
        "Text [1] [Comment: Check it]",
        "In a box",
        "[1] See annex.",
    ]
    assert "Check it" not in imported(body, replace(ORIGIN, with_notes=False)).pages[0]


BOX = (
    r"{\shp{\*\shpinst\shpleft9{\sp{\sn fHidden}{\sv 0}}{\shptxt \pard\plain %s\par}}{\shprslt %s}}"
)
OLD_BOX = r"{\*\do\dobxpage\dptxbx{\dptxbxtext\pard %s\par}\dpx9}"


@each_row(
    ("body", "shown"),
    [
        (rf"Before{BOX % ('One', '')} and after.\par Next", "Before and after.\n\nOne\n\nNext"),
        (rf"{OLD_BOX % 'One'}Before\par Next", "Before\n\nOne\n\nNext"),
        (rf"Before{BOX % ('One', OLD_BOX % 'One')}\par", "Before\n\nOne"),
        (r"\pard " + BOX % (r"One\par Two", "") + r"\par Next", "One\n\nTwo\n\nNext"),
        (rf"{{\shpgrp{{\*\shpinst {BOX % ('One', '')}{BOX % ('Two', '')}}}}}x", "x\n\nOne\n\nTwo"),
        (BOX % (r"\trowd\cellx1\cellx2\intbl One\cell Two\cell\row\pard", ""), "One\n\nTwo"),
        (
            rf"\trowd\cellx1\cellx2\pard\intbl A{BOX % ('One', '')}\par b\cell B\cell\row",
            "| A One b | B |\n| --- | --- |",
        ),
        (rf"{{\header {BOX % ('One', '')}}}Text", "[Header: One]\n\nText"),
        (
            r"{\header\trowd\cellx1\cellx2\intbl One\cell Two\cell\row}Text",
            "[Header: One · Two]\n\nText",
        ),
        (r"a{\shp{\*\shpinst{\sp{\sn gtextUNICODE}{\sv One}}}} b", "a One b"),
        (rf"Kept{{\deleted {BOX % ('One', '')}}}", "Kept"),
        (rf"{{\*\background {BOX % ('One', '')}}}Kept", "Kept"),
    ],
)
def test_text_boxes_follow_their_paragraph(body: str, shown: str) -> None:
    assert imported(body).pages == (shown,)


def test_the_text_of_hidden_boxes_is_left_out_and_counted() -> None:
    box = BOX.replace("sv 0", "sv 1") % ("secret", "")
    document = imported(rf"Seen{box}\par Next{BOX % ('One', '')}")
    assert document.pages == ("Seen\n\nNext\n\nOne",)
    assert document.warnings[0].message.startswith("6 letters")


FIELD = r"{\field{\*\fldinst  PAGE }{\fldrslt 3}}"
PAGES = r"{\field{\*\fldinst NUMPAGES}{\fldrslt 9}}"


@each_row(
    ("footer", "shown"),
    [
        (FIELD, ""),
        (rf"\pard\cf1 Page {FIELD} of {PAGES}\par", ""),
        (rf"HR-77 \endash  Seite {FIELD}\par R&D", "[Footer: HR-77 · R&D]"),
        ("2027", ""),
        (r"{\field{\*\fldinst TITLE}{\fldrslt Leave}}", "[Footer: Leave]"),
    ],
)
def test_page_numbers_in_margins_are_left_out(footer: str, shown: str) -> None:
    page = imported(rf"{{\footer {footer}}}Text 3 {FIELD}\par").pages[0]
    assert page == "\n\n".join(filter(None, ("Text 3 3", shown)))


@each_row("body", [r"{\v secret}", r"\v secret\v0 ", r"{\cf1 secret}"])
def test_hidden_text_is_left_out_and_counted(body: str) -> None:
    document = imported(f"Seen {body}here")
    assert document.pages == ("Seen here",)
    assert document.warnings[0].message.startswith("6 letters")


@each_row(
    "shading", [r"\cbpat2", r"\shading10000\cfpat2\cbpat1", r"\shading6000", r"\shading9000\cbpat1"]
)
def test_white_text_on_a_shaded_paragraph_is_read(shading: str) -> None:
    document = imported(rf"\pard\plain{shading} {{\cf1 Title}}\par\pard{{\cf1 secret}}\par")
    assert document.pages == ("Title",)
    assert document.warnings[0].message.startswith("6 letters")


def test_text_in_the_colour_of_its_shading_is_hidden() -> None:
    document = imported(r"\pard\shading10000\cfpat2{\cf2 secret} seen\par")
    assert document.pages == ("seen",)


def test_form_fields_show_their_values() -> None:
    field = r"{\field{\*\fldinst{ FORM%s}{\*\formfield%s}}{\fldrslt %s}}"
    cities = r"\fftype2\ffres25\ffdefres1{\*\ffl Bonn}{\*\ffl Kiel}"
    body = (
        field % ("CHECKBOX", r"\fftype1\ffres1\ffdefres0", "")
        + field % ("CHECKBOX", r"\fftype1\ffres25\ffdefres0", "")
        + field % ("DROPDOWN", cities, "")
        + field % ("TEXT", r"\fftype0", " Ann")
        + r"{\field{\*\fldinst{ FORMCHECKBOX }}{\fldrslt  unknown}}\par"
    )
    assert imported(rf"\pard {body}").pages == ("[x][ ]Kiel Ann unknown",)


def test_tables_in_cells_add_no_columns() -> None:
    inner = r"\itap2 in\nestcell ner\nestcell{\*\nesttableprops\trowd\cellx900\cellx1900\nestrow}"
    body = (
        r"\trowd\cellx1000\cellx2000\pard\intbl A\cell B\cell\row"
        r"\trowd\cellx1000\cellx2000\pard\intbl one\cell " + inner * 2 + r"\cell\cell\row"
    )
    assert imported(body).pages == ("| A | B |\n| --- | --- |\n| one | in, ner; in, ner |",)


def test_a_web_page_in_rtf_is_read_as_a_web_page() -> None:
    body = (
        r"\fromhtml1 {\*\htmltag64 <p>}\htmlrtf {\b \htmlrtf0 Twenty \htmlrtf }\htmlrtf0 "
        r"{\*\htmltag84 <b>}days{\*\htmltag92 </b>}{\*\htmltag72 </p>}"
    )
    assert imported(body).pages == ("Twenty **days**",)


@each_row("body", ["", r"{\v}", r"\par\par", "}}}}", "{{{{"])
def test_a_file_without_text_is_refused(body: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        imported(body)
    assert refused.value.reason.startswith("is empty: ")


WORDS = st.sampled_from(
    [
        *(r"\par ", "{", "}", r"\cell ", r"\row ", r"\trowd ", r"\cellx9 ", r"\clvmrg "),
        *(r"\footnote ", r"\u-1 ", r"\'ff", r"\*", r"\bin9", r"\f2 ", r"\super ", r"\v "),
        *(r"\cf9 ", "text", "\\", r"{\shp{\*\shpinst ", r"{\shptxt ", r"{\sp{\sn ", r"\shprslt "),
    ]
)


@given(st.lists(WORDS).map("".join))
def test_any_order_of_words_is_read_or_empty(body: str) -> None:
    try:
        imported(body)
    except ImportFailed as error:
        assert error.reason.startswith("is empty: ")  # noqa: PT017
