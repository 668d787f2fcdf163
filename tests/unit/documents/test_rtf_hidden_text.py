"""Text of RTF files: hidden text, and visible text that looks like it (contract §5)."""

from time import process_time

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.rtf import import_rtf
from mcp_tools_proxy.domain.document import Document
from tests.support.hidden_text import is_secret_hidden
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="letter")
COLOURS = (
    r"{\colortbl;\red255\green255\blue255;\red0\green0\blue0;\red79\green129\blue189;"
    r"\red160\green160\blue160;}"
)


def imported(body: str, styles: str = "") -> Document:
    sheet = rf"{{\stylesheet{styles}}}" if styles else ""
    data = r"{\rtf1\ansi{\fonttbl{\f0 Arial;}}" + COLOURS + sheet + r"\fs24 Seen.\par " + body + "}"
    return import_rtf(data.encode("latin-1"), ORIGIN)


def is_hidden(body: str, styles: str = "") -> bool:
    return is_secret_hidden(imported(body, styles))


@each_row(
    ("body", "hidden"),
    [
        (r"{\fs0 secret}", True),
        (r"{\fs2 secret}", True),
        (r"{\fs12 secret}", False),
        (r"{\fs2\plain secret}", False),
        (r"{\cf1 secret}", True),
        (r"{\cf1\plain secret}", False),
        (r"{\cf1\cf0 secret}", False),
        (r"{\cf3 secret}", False),
        (r"{\cf4 secret}", False),
        (r"{\cf1\highlight2 secret}", False),
        (r"{\cf1\chcbpat3 secret}", False),
        (r"{\cf2\chcbpat2 secret}", True),
        (r"{\cf2\highlight2 secret}", True),
        (r"{\cf2\chshdng10000\chcfpat2 secret}", True),
        (r"{\highlight2 secret}", False),
        (r"\pard\cbpat2 secret\par", False),
        (r"\pard\cbpat2\cf2 secret\par", True),
        (r"\pard\sl-20\slmult0 secret\par", True),
        (r"\pard\sl-240\slmult0 secret\par", False),
        (r"\pard\sl1\slmult1 secret\par", False),
        (r"\pard\posx-30000\absw100 secret\par", True),
        (r"\pard\posnegy-40000 secret\par", True),
        (r"\pard\phpg\posx-200\absw100 secret\par", True),
        (r"\pard\posx-200\absw3000 secret\par", False),
        (r"\pard\posx-30000\absw100 \pard secret\par", False),
    ],
)
def test_the_look_and_place_of_a_paragraph_hide_text(body: str, hidden: bool) -> None:
    assert is_hidden(body) is hidden


STYLES = (
    r"{\s0 Normal;}{\s5\v Hidden;}{\s6\sbasedon5\b Derived;}{\s7\sbasedon7\v Loop;}"
    r"{\s8\sbasedon5\v0 Shown;}{\s9\cf1\fs2 White;}{\*\cs10\v Ghost;}"
    r"{\*\cs11\sbasedon10\i Derived;}"
)


@each_row(
    ("body", "hidden"),
    [
        (r"{\cs10 secret}", True),
        (r"{\cs11 secret}", True),
        (r"{\cs10\plain secret}", False),
        (r"\pard\s5 secret\par", True),
        (r"\pard\s6 secret\par", True),
        (r"\pard\s7 secret\par", True),
        (r"\pard\s8 secret\par", False),
        (r"\pard\s8{\cs10 secret}\par", True),
        (r"\pard\plain\s9 secret\par", False),  # colours and sizes are repeated by text
        (r"\pard\s5{\v0 secret}\par", False),
        (r"\pard\s5\pard secret\par", False),
        (r"\pard\s10 secret\par", False),
    ],
)
def test_styles_hide_text(body: str, hidden: bool) -> None:
    assert is_hidden(body, STYLES) is hidden


def test_a_long_chain_of_styles_is_read_once() -> None:
    count = 20_000
    styles = "".join(rf"{{\s{it}\sbasedon{it + 1} S;}}" for it in range(1, count))
    body = "".join(rf"\pard\s{it} a\par" for it in range(1, count, 20))
    start = process_time()
    imported(body, styles)
    assert process_time() - start < 20


def row(text: str, definition: str = "", start: str = "") -> str:
    return rf"\trowd{start}{definition}\cellx2000\cellx4000\pard\intbl {text}\cell next\cell\row"


HEAD = row("Name")


@each_row(
    ("table", "hidden"),
    [
        (row(r"{\cf1 secret}"), True),
        (row(r"{\cf1 secret}", r"\clcbpat2"), False),
        (row(r"{\cf1 secret}", r"\clcbpat3"), False),
        (row(r"{\cf3 secret}", r"\clcbpat3"), True),
        (row(r"{\cf1 secret}", r"\clshdng10000\clcfpat2"), False),
        (row(r"{\cf1 secret}", start=r"\trcbpat2"), False),
        (row(r"{\cf1 secret}", r"\clcbpat2").replace(r"\trowd\clcbpat2", r"\trowd"), True),
        (r"\pard\intbl {\cf1 secret}\cell next\cell\trowd\clcbpat2\cellx2000\cellx4000\row", False),
        (r"\pard\intbl {\cf1 secret}\cell next\cell\row", True),
        (row("secret", r"\clcbpat2"), False),
        (rf"{{\header {row(chr(92) + 'cf1 secret', chr(92) + 'clcbpat2')}}}", False),
        (row(r"\itap2{\cf1 secret}\nestcell\itap1"), False),
        (row("secret", start=r"\trrh300"), False),
        (row("secret", start=r"\trrh-300"), False),
        (row("secret", r"\clvmgf", r"\trrh-1"), False),
    ],
)
def test_text_of_a_table_is_seen_on_the_shading_of_its_cell(table: str, hidden: bool) -> None:
    assert is_hidden(rf"{HEAD}{table}\pard ") is hidden


def test_rows_without_height_are_hidden() -> None:
    document = imported(HEAD + row("secret", start=r"\trrh-1") + row("Ann") + r"\pard End\par")
    assert document.pages == ("Seen.\n\n| Name | next |\n| --- | --- |\n| Ann | next |\n\nEnd",)
    assert document.warnings[0].message == "10 letters of hidden text were left out"
    assert "secret" not in "".join(imported(row("secret", start=r"\trrh-1")).pages)


def box(place: str, text: str = "secret") -> str:
    return rf"{{\shp{{\*\shpinst{place}{{\shptxt {text}\par}}}}}}"


@each_row(
    ("place", "hidden"),
    [
        (r"\shpleft-30000\shptop0\shpright-29000\shpbottom900", True),
        (r"\shpleft0\shptop-30000\shpright900\shpbottom-29000", True),
        (r"\shpleft-900\shptop0\shpright-100\shpbottom900\shpbxpage", True),
        (r"\shpleft-900\shptop0\shpright-100\shpbottom900\shpbxcolumn", False),
        (r"\shpleft0\shptop0\shpright0\shpbottom900", True),
        (r"\shpleft0\shptop0\shpright900\shpbottom0", False),
        ("", False),
    ],
)
def test_shapes_off_the_page_are_hidden(place: str, hidden: bool) -> None:
    assert is_hidden(rf"{box(place)}\par") is hidden


def test_white_text_in_a_shape_can_have_a_fill_behind_it() -> None:
    assert not is_hidden(rf"{box('', chr(92) + 'cf1 secret')}\par")
    assert not is_hidden(row(box("", r"\cf1 secret")))
