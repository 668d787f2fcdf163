"""Pages whose fonts have no character map."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.glyph_codes import is_language
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from tests.support.raw_pdfs import raw_pdf
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="d")
SENTENCE = "The council has approved the budget of the next year, and the report is public."


def moved(text: str, by: int) -> str:
    return "".join(chr(ord(it) + by) for it in text)


def without_map(text: str, *, readable: str = "") -> bytes:
    """Return a PDF with text in a font whose codes are 29 below those of ASCII."""
    codes = "".join(f"{ord(it) - 29:04X}" for it in text)
    return raw_pdf(
        f"BT /F2 12 Tf 50 700 Td <{codes}> Tj ET BT /F1 12 Tf 50 600 Td ({readable}) Tj ET",
        "<< /Type /Font /Subtype /Type0 /BaseFont /ABCDEF+X /Encoding /Identity-H "
        "/DescendantFonts [7 0 R] >>",
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /ABCDEF+X /FontDescriptor 8 0 R "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        "<< /Type /FontDescriptor /FontName /ABCDEF+X /Flags 4 /FontBBox [0 0 9 9] /Ascent 9 "
        "/Descent 0 /ItalicAngle 0 /CapHeight 9 /StemV 9 >>",
        resources="/Font << /F1 5 0 R /F2 6 0 R >>",
    )


def test_a_file_of_glyph_codes_is_refused() -> None:
    with pytest.raises(ImportFailed, match="without a character map"):
        import_pdf(without_map(SENTENCE), ORIGIN)


@each_row("text", ["Area", "Office rules of the building", "The fees of 2026 and 2027", "2026"])
def test_text_of_one_font_without_a_map_is_left_out(text: str) -> None:
    document = import_pdf(without_map(text, readable=SENTENCE), ORIGIN)
    assert document.pages == (SENTENCE,)
    assert [it.code for it in document.warnings] == ["unreadable_text"]


def test_a_font_that_needs_no_map_is_kept() -> None:
    document = import_pdf(without_map(moved("Total of the area", 29), readable=SENTENCE), ORIGIN)
    assert document.pages[0].split() == ["Total", "of", "the", "area", *SENTENCE.split()]
    assert not document.warnings


@each_row(
    "text",
    [
        SENTENCE,
        "Der Rat hat den Haushalt des nächsten Jahres beschlossen; der Bericht ist öffentlich.",
        "Le conseil a approuvé le budget de l'année prochaine, et le rapport est public.",
        "Rada zatwierdziła budżet na przyszły rok, a sprawozdanie jest jawne.",
        "Zastupitelstvo schválilo rozpočet na příští rok a zpráva je veřejná.",
        "Yhtiökokous hyväksyi ensi vuoden talousarvion, ja selvitys on julkinen.",
        "Совет утвердил бюджет на следующий год.",
        "インストールについて、スタートメニューのコントロールパネルを押下します。",
        "理事会批准了明年的预算。",
        "اعتمد المجلس ميزانية العام المقبل",
        "PROPERTY INSURANCE: KEY INVESTOR INFORMATION",
        "12 300.50 | 45 % | 7/2026",
        "",
    ],
)
def test_languages_are_recognised(text: str) -> None:
    assert is_language(text)


@each_row(
    "text",
    [
        moved(SENTENCE.replace(" ", "\x20"), -29),
        moved(SENTENCE, 1),
        moved(SENTENCE.upper(), 1),
        "3/$1B/$72BB *UXSD5R]NãDG,,%VWDF,,JRVW,0':3 SRQLHG]LDãHN",
        "ɎɅȺɇɐɕɂɉȿɊȿɏɈȾɕ",
        "ଋҨǥƹ ୡȥဎ Ҩဌʾဎಱ ਮΝ੧ ͱʸ",
        "\ue001\ue002\ue003 \ue004\ue005",
    ],
)
def test_codes_of_glyphs_are_not_a_language(text: str) -> None:
    assert not is_language(text)


@given(st.text())
def test_any_text_is_examined(text: str) -> None:
    assert is_language(text) in {True, False}
