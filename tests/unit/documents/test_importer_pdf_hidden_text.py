"""Text of PDF pages that readers do not see (contract §5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions, WarningCode
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from tests.support.raw_pdfs import raw_pdf, stream, text_at
from tests.support.scans import searchable_scan
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="d")
VISIBLE = text_at({(50, 700): "Sales grew."})
SECRET = text_at({(50, 600): "obey me"})
LAYERS = "/OCProperties << /OCGs [6 0 R] /D << /Order [6 0 R] /{} [6 0 R] /BaseState /{} >> >>"


def text_of(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and the message about hidden text."""
    document = import_pdf(data, ORIGIN)
    found = [it.message for it in document.warnings if it.code == WarningCode.HIDDEN_TEXT]
    return "\n".join(document.pages), "".join(found)


@each_row(
    "hidden",
    [
        f"1 1 1 rg {SECRET}",
        f"1 g {SECRET}",
        f"0.99 0.99 0.98 rg {SECRET}",
        f"0.1 0.2 0.5 rg 40 590 200 30 re f {SECRET}",
        f"0 g 40 590 200 30 re f {SECRET}",
        f"0 0 0 rg {SECRET} 0.8 0.8 0.8 rg 40 590 200 30 re f",
        f"3 Tr {SECRET}",
        f"7 Tr {SECRET}",
        f"1 Tr 1 1 1 RG {SECRET}",
        "BT /F1 1 Tf 50 600 Td (obey me) Tj ET",
        "BT /F1 10 Tf 0.05 0 0 0.05 50 600 Tm (obey me) Tj ET",
        "BT /F1 0.5 Tf 50 600 Td (obey me) Tj ET",
        f"0 0 1 1 re W n {SECRET}",
        f"0 0 600 800 re W n 300 300 200 100 re W n {SECRET}",
        f"0 0 9 9 re 590 790 9 9 re W n {SECRET}",
        f"40 590 90 30 re 30 580 110 50 re W* n {SECRET}",
        text_at({(700, 600): "obey me"}),
        text_at({(50, -90): "obey me"}),
        text_at({(-300, 600): "obey me"}),
    ],
)
def test_hidden_text_is_left_out_and_counted(hidden: str) -> None:
    assert text_of(raw_pdf(f"{VISIBLE} q {hidden} Q")) == (
        "Sales grew.",
        "6 letters of hidden text were left out",
    )


@each_row(
    "content",
    [
        f"0 0 0.6 rg 40 590 200 30 re f 1 g {SECRET}",
        f"0 g 40 590 200 30 re f 1 1 1 rg {SECRET}",
        f"0.8 g {SECRET}",
        f"1 0 0 rg 40 590 200 30 re f 0 0 1 rg {SECRET}",
        f"1 g 40 590 200 30 re f 0 g {SECRET}",
        f"{SECRET} 0.9 g 300 300 200 30 re f",
        f"0 0 600 800 re W n 50 590 25 30 re W n {SECRET}",
        f"90 500 m 200 605 l 90 700 l 20 605 l h W n {SECRET}",
        f"1 Tr 0 G 1 g {SECRET}",
        f"2 Tr 0 G 1 g {SECRET}",
        "BT /F1 3 Tf 50 600 Td (obey me) Tj ET",
        "BT /F1 1 Tf 12 0 0 12 50 600 Tm (obey me) Tj ET",
        text_at({(570, 600): "obey me"}),
    ],
)
def test_visible_text_is_content(content: str) -> None:
    assert text_of(raw_pdf(f"{VISIBLE} q {content} Q")) == ("Sales grew.\nobey me", "")


def test_text_off_the_crop_box_is_left_out() -> None:
    page = "/MediaBox [0 0 600 800] /CropBox [0 650 600 800]"
    assert text_of(raw_pdf(f"{VISIBLE} {SECRET}", page=page))[0] == "Sales grew."


@each_row("box", ["0 0 1000000 0.5", "0 0 40 900000", "0 0 20000 20000", "0 0 0 0", "9 9 1 1"])
def test_pages_of_any_size_are_examined(box: str) -> None:
    document = import_pdf(
        raw_pdf(f"{text_at({(0, 0): 'Sales.'})} 1 g {SECRET}", page=f"/MediaBox [{box}]"), ORIGIN
    )
    assert document.pages == ("Sales.",)


def test_contradicting_page_boxes_hide_nothing() -> None:
    page = "/MediaBox [0 0 600 800] /CropBox [700 900 800 1000]"
    assert text_of(raw_pdf(VISIBLE, page=page)) == ("Sales grew.", "")


@each_row(
    ("entry", "state", "text"),
    [("OFF", "ON", "Sales grew."), ("ON", "OFF", "Sales grew.\nobey me")],
)
def test_a_layer_that_is_off_is_left_out(entry: str, state: str, text: str) -> None:
    data = raw_pdf(
        f"{VISIBLE} /OC /L1 BDC {SECRET} EMC",
        "<< /Type /OCG /Name (draft) >>",
        catalog=LAYERS.format(entry, state),
        resources="/Font << /F1 5 0 R >> /Properties << /L1 6 0 R >>",
    )
    assert text_of(data)[0] == text


def test_a_form_object_in_a_layer_that_is_off_is_left_out() -> None:
    entries = "/Type /XObject /Subtype /Form /BBox [0 0 600 800] /OC 6 0 R"
    data = raw_pdf(
        f"{VISIBLE} /X1 Do",
        "<< /Type /OCG /Name (draft) >>",
        stream(SECRET, f"{entries} /Resources << /Font << /F1 5 0 R >> >>"),
        catalog=LAYERS.format("OFF", "ON"),
        resources="/Font << /F1 5 0 R >> /XObject << /X1 7 0 R >>",
    )
    assert text_of(data)[0] == "Sales grew."


@each_row(
    ("box", "around", "text"),
    [
        ("0 0 600 800", "0 0 600 800", "Sales grew.\nobey me"),
        ("0 0 600 800", "0 0 9 9", "Sales grew."),
        ("0 0 9 9", "0 0 600 800", "Sales grew."),
    ],
)
def test_text_outside_the_clip_path_of_a_form_object_is_left_out(
    box: str, around: str, text: str
) -> None:
    entries = f"/Type /XObject /Subtype /Form /BBox [{box}]"
    data = raw_pdf(
        f"{VISIBLE} q {around} re W n /X1 Do Q",
        stream(SECRET, f"{entries} /Resources << /Font << /F1 5 0 R >> >>"),
        resources="/Font << /F1 5 0 R >> /XObject << /X1 6 0 R >>",
    )
    assert text_of(data)[0] == text


def test_white_text_in_a_form_object_is_left_out() -> None:
    entries = "/Type /XObject /Subtype /Form /BBox [0 0 600 800]"
    data = raw_pdf(
        f"{VISIBLE} /X1 Do",
        stream(f"1 g {SECRET}", f"{entries} /Resources << /Font << /F1 5 0 R >> >>"),
        resources="/Font << /F1 5 0 R >> /XObject << /X1 6 0 R >>",
    )
    assert text_of(data)[0] == "Sales grew."


LINES = ["Travel by train is paid", "in second class."]


def test_the_text_layer_of_a_scan_is_content() -> None:
    assert text_of(searchable_scan(LINES)) == ("\n".join(LINES), "")


def test_invisible_text_on_an_empty_part_of_a_scan_is_left_out() -> None:
    text, message = text_of(searchable_scan(LINES, {(400, 200): "obey me"}))
    assert (text, message) == ("\n".join(LINES), "6 letters of hidden text were left out")


@each_row(("colour", "text"), [("0 g", "Name: obey me"), ("1 g", "Name:"), ("1 1 1 rg", "Name:")])
def test_a_value_in_the_colour_of_its_background_is_left_out(colour: str, text: str) -> None:
    field = (
        "<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (obey me) /F 4 "
        f"/DA (/F1 12 Tf {colour}) "
        "/MK << /BG [1 1 1] /BC [0 0 0] >> /Rect [90 696 200 714] >>"
    )
    data = raw_pdf(
        text_at({(50, 700): "Name:"}),
        field,
        annotations=[6],
        catalog="/AcroForm << /Fields [6 0 R] /NeedAppearances true "
        "/DR << /Font << /F1 5 0 R >> >> >>",
    )
    assert text_of(data)[0] == text


def test_a_text_box_with_an_empty_appearance_is_left_out() -> None:
    box = (
        "<< /Type /Annot /Subtype /FreeText /Contents (obey me) /DA (/F1 12 Tf 0 g) "
        "/AP << /N 7 0 R >> /Rect [90 600 200 620] >>"
    )
    appearance = stream("", "/Type /XObject /Subtype /Form /BBox [0 0 9 9]")
    assert text_of(raw_pdf(VISIBLE, box, appearance, annotations=[6]))[0] == "Sales grew."


def spanned(stated: str, shown: str) -> str:
    span = f"/Span << /ActualText {stated} >> BDC {shown} Tj EMC"
    return f"BT /F1 12 Tf 50 700 Td (Costs ) Tj {span} ( euros.) Tj ET"


@each_row(
    ("stated", "shown", "text", "letters"),
    [
        ("(900)", "(100)", "Costs 100 euros.", 3),
        ("(200 to 100)", "(100 to 200)", "Costs 100 to 200 euros.", 8),
        ("(\\001)", "(not 100)", "Costs not 100 euros.", 0),
        ("(Ten)", "(TEN)", "Costs Ten euros.", 0),
        ("<FEFFFB03>", "(ffi)", "Costs ffi euros.", 0),
        ("<FEFF00E900740065>", "(ete)", "Costs \u00e9te euros.", 0),
        ("<FEFF2212>", "(-)", "Costs \u2212 euros.", 0),
    ],
)
def test_an_actual_text_with_other_letters_than_the_page_is_left_out(
    stated: str, shown: str, text: str, letters: int
) -> None:
    message = f"{letters} letters of hidden text were left out" if letters else ""
    assert text_of(raw_pdf(spanned(stated, shown))) == (text, message)


def test_an_actual_text_in_a_form_object_is_compared() -> None:
    entries = "/Type /XObject /Subtype /Form /BBox [0 0 600 800]"
    data = raw_pdf(
        "/X1 Do",
        stream(spanned("(900)", "(100)"), f"{entries} /Resources << /Font << /F1 5 0 R >> >>"),
        resources="/Font << /F1 5 0 R >> /XObject << /X1 6 0 R >>",
    )
    assert text_of(data)[0] == "Costs 100 euros."


def test_an_actual_text_stays_where_the_glyphs_have_no_known_characters() -> None:
    to_unicode = (
        "1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfchar <58> <E001> endbfchar"
    )
    data = raw_pdf(
        "BT /F1 12 Tf 50 700 Td (Costs 5 ) Tj /Span << /ActualText (euros) >> BDC (X) Tj EMC ET",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 7 0 R >>",
        stream(f"/CIDInit /ProcSet findresource begin begincmap {to_unicode} endcmap end"),
        resources="/Font << /F1 6 0 R >>",
    )
    assert text_of(data) == ("Costs 5 euros", "")


def test_a_file_of_hidden_text_is_refused() -> None:
    with pytest.raises(ImportFailed, match="has only hidden text"):
        import_pdf(raw_pdf(f"1 g {SECRET}"), ORIGIN)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(0, 7))
def test_any_colour_and_mode_is_examined(colour: list[float], mode: int) -> None:
    content = " ".join(f"{it:.3f}" for it in colour)
    document = import_pdf(raw_pdf(f"{VISIBLE} q {content} rg {mode} Tr {SECRET} Q"), ORIGIN)
    assert document.pages[0].startswith("Sales grew.")
