"""Text of PDF pages by the positions of their characters (contract §5)."""

import unicodedata
from pathlib import Path

import pytest
from fpdf import FPDF
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.documents.importers.pdf_ideographs import join_ideographs
from mcp_tools_proxy.documents.quotable_document import QuotableDocument
from tests.support.glyph_pages import glyph_page
from tests.support.raw_pdfs import FIRST_OBJECT, raw_pdf
from tests.support.tables import each_row

SAMPLES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, without content of others."""

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan-7")


def page_of(pdf: FPDF) -> str:
    return import_pdf(bytes(pdf.output()), ORIGIN).pages[0]


def new_page() -> FPDF:
    pdf = FPDF()
    pdf.set_compression(False)
    pdf.add_page()
    pdf.set_font("helvetica", size=12)
    return pdf


def written(text: str) -> str:
    """Return a line as imported; ``^{…}`` is raised and ``_{…}`` lowered."""
    pdf, x = new_page(), 20.0
    for number, part in enumerate(text.replace("_{", "^{_").split("^{")):
        script, _, rest = part.rpartition("}") if number else ("", "", part)
        shift = 0.6 if script.startswith("_") else -1.4
        for size, y, letters in ((8, 20 + shift, script.removeprefix("_")), (12, 20.0, rest)):
            pdf.set_font_size(size)
            if letters:
                pdf.text(x, y, letters)
                x += pdf.get_string_width(letters)
    return page_of(pdf)


@each_row(
    ("text", "expected"),
    [
        ("5 x 10^{3} units per m^{2}", "5 x 10^3 units per m^2"),
        ("about 10^{-6} mol", "about 10^-6 mol"),
        ("water is H_{2}O, sugar C_{6}H_{12}O_{6}", "water is H_2O, sugar C_6H_12O_6"),
        ("so x^{n+1} and y_{n+1} grow", "so x^(n+1) and y_(n+1) grow"),
        ("the flow of 3 kg/m^{3} now", "the flow of 3 kg/m^3 now"),
        ("(a + b)^{2} = c", "(a + b)^2 = c"),
        ("on the 1^{st} and 22^{nd} day", "on the 1st and 22nd day"),
        ("le 2^{e} tour et M^{me} Roux", "le 2e tour et Mme Roux"),
        ("the n^{th} part", "the nth part"),
        ("le II^{d} jour, le 3^{bis} et la 8^{va}", "le IId jour, le 3bis et la 8va"),
        ("then C^{t} and R^{d} and 2^{t} here", "then C^t and R^d and 2^t here"),
        ("as others found^{1} before", "as others found [1] before"),
        ("as others found^{1}before", "as others found [1] before"),
        ("as Ann^{1}, and others", "as Ann [1], and others"),
        ("in the year 2019.^{12} Then", "in the year 2019. [12] Then"),
        ("the budget (see above)^{2} fell", "the budget (see above) [2] fell"),
        ("Brand^{TM} phones", "BrandTM phones"),
        ("dated by ^{14}C in 1960", "dated by ^14C in 1960"),
        ("the value x_{i}^{2} and x^{2}_{i} here", "the value x_i^2 and x^2_i here"),
        ("SO_{4}^{2-} and Ca^{2+} ions", "SO_4^2- and Ca^2+ ions"),
        ("the gas CO_{2}^{1} is heavy", "the gas CO_2 [1] is heavy"),
        ("H_{2}SO_{4} and CO_{2}-neutral", "H_2SO_4 and CO_2-neutral"),
        ("x_{1}+x_{2} = A^{T}B", "x_1+x_2 = A^TB"),
        (
            "so E = mc^{2} holds, as the firm AB^{2} says",
            "so E = mc^2 holds, as the firm AB [2] says",
        ),
        ("use 1^{1}/_{2} cups of b^{2}/a^{2}", "use 1 1/2 cups of b^2/a^2"),
        ("at 25^{o}C, no 45^{2} euros", "at 25°C, no 45^2 euros"),
        ("103 and 10 3 stay", "103 and 10 3 stay"),
    ],
)
def test_scripts_are_marked(text: str, expected: str) -> None:
    assert written(text) == expected


def test_a_subscript_below_a_superscript_has_the_same_base() -> None:
    pdf = new_page()
    pdf.text(20, 20, "the value x")
    end = 20 + pdf.get_string_width("the value x")
    pdf.set_font_size(8)
    pdf.text(end, 18.4, "2")
    pdf.text(end, 21, "i")
    end += pdf.get_string_width("2")
    pdf.set_font_size(12)
    pdf.text(end, 20, " grows")
    assert page_of(pdf) == "the value x^2_i grows"


def test_the_mark_of_a_footnote_is_separated_from_its_text() -> None:
    pdf = new_page()
    pdf.text(20, 20, "As reported in the yearly survey.")
    pdf.set_font_size(7)
    pdf.text(18.6, 18.5, "1")
    assert "[1]" in page_of(pdf)


@each_row(
    ("mark", "note", "size", "y", "text"),
    [
        ("2", "2", 8, 270, "The fee is 45 [2] euros."),
        ("2", "2.", 8, 270, "The fee is 45 [2] euros."),
        ("3", "2", 8, 270, "The fee is 45^3 euros."),  # another note
        ("2", "2", 12, 270, "The fee is 45^2 euros."),  # not in small type
        ("2", "2", 8, 10, "The fee is 45^2 euros."),  # above
        ("2", "2", 8, 50, "The fee is 45^2 euros."),  # not at the bottom
    ],
)
def test_a_number_with_a_footnote_has_a_mark_not_an_exponent(
    mark: str, note: str, size: float, y: float, text: str
) -> None:
    pdf, x = new_page(), 20.0
    parts = ((12, 20.0, "The fee is 45"), (8, 18.4, mark), (12, 20.0, " euros."))
    for part_size, part_y, part in parts:
        pdf.set_font_size(part_size)
        pdf.text(x, part_y, part)
        x += pdf.get_string_width(part)
    pdf.set_font_size(12)
    pdf.text(20, 100, "It is due within ten days of the first reading.")
    pdf.set_font_size(size)
    pdf.text(20, y, f"{note} See the rules of 2019.")
    assert text in page_of(pdf).splitlines()


def test_footnotes_may_have_raised_marks_and_fractions_are_none() -> None:
    pdf = new_page()
    places = (
        (20.0, ((12, 0, "The fee is 45"), (8, -1.6, "2"), (12, 0, " euros in 12"), (8, -1.6, "4"))),
        (30.0, ((12, 0, "Use 1"), (8, -1.6, "3"), (12, 0, "/"), (8, 1, "4"), (12, 0, " cups."))),
        (270.0, ((6, -1, "2"), (8, 0, "See the rules of the year 2019."))),
        (274.0, ((6, -1, "3"), (8, 0, "See the rules of the year 2020."))),
    )
    for y, parts in places:
        x = 20.0
        for size, rise, part in parts:
            pdf.set_font_size(size)
            pdf.text(x, y + rise, part)
            x += pdf.get_string_width(part)
    assert page_of(pdf).splitlines() == [
        "The fee is 45 [2] euros in 12^4",
        "Use 1 3/4 cups.",
        "[2] See the rules of the year 2019.",
        "[3] See the rules of the year 2020.",
    ]


def test_a_high_footnote_mark_is_apart_from_the_next_word() -> None:
    pdf, x = new_page(), 20.0
    for size, y, text in ((12, 20, "as others found"), (8, 18, "1"), (12, 20, "here")):
        pdf.set_font_size(size)
        pdf.text(x, y, text)
        x += pdf.get_string_width(text)
    assert page_of(pdf) == "as others found [1] here"


def test_small_print_and_drop_capitals_are_not_scripts() -> None:
    pdf = new_page()
    pdf.write(6, "Price 12")
    pdf.set_font_size(7)
    pdf.write(6, "345")
    assert page_of(pdf) == "Price 12345"


def test_letters_of_arabic_ligatures_are_in_reading_order() -> None:
    data = (SAMPLES / "11-arabic-ligature.pdf").read_bytes()
    assert import_pdf(data, ORIGIN).pages == ("خلال",)


@each_row(
    ("glyphs", "expected"),
    [
        (["عقد", "رقم", "72"], "عقد رقم 72"),
        (["من", "March", "2027", "غير"], "من March 2027 غير"),
        (["سعر", "10", "20"], "سعر 10 20"),
    ],
)
@pytest.mark.parametrize("leftmost_first", [True, False])
def test_right_to_left_lines_are_in_reading_order(
    glyphs: list[str], expected: str, *, leftmost_first: bool
) -> None:
    places: list[tuple[float, float, str]] = []
    x = 500.0
    run: list[str] = []
    for word in [*glyphs, "ا"]:
        if word.isascii() and word.isalnum() and (run or word.isalpha()):
            run.append(word)
            continue
        for latin in reversed(run):
            x -= 12 * len(latin)
            places.extend((x + 12 * number, 700.0, it) for number, it in enumerate(latin))
            x -= 12
        run = []
        for letter in reversed(word) if word.isascii() else word:
            x -= 12
            places.append((x, 700.0, letter))
        x -= 12
    places.pop()
    if leftmost_first:
        places.sort()
    assert import_pdf(glyph_page(places), ORIGIN).pages == (expected,)


def seen_from_left(text: str, *, marks_apart: bool = False) -> bytes:
    """Return a PDF of a line in the order of sight, from left; marks follow their letter."""
    places: list[tuple[float, float, str]] = []
    x, y = 50.0, 700.0
    for letter in text:
        if unicodedata.combining(letter):
            places.append((x - 9, 697 if marks_apart else y, letter))
            continue
        if letter != " ":
            places.append((x, y, letter))
        x += 12
    return glyph_page(places)


@each_row(
    ("seen", "expected"),
    [
        ("ةنس ١٢٥ مسر", "رسم ١٢٥ سنة"),
        ("طقف ٢٠٢٧/٠٥/٠٣ خيرات", "تاريخ ٢٠٢٧/٠٥/٠٣ فقط"),
        (".طقف ٪١٢٫٥ ةبسن", "نسبة ١٢٫٥٪ فقط."),
        ("لایر ۱۲۳۴ هنیزه", "هزینه ۱۲۳۴ ریال"),
        (".118-2027 مقر نوناق", "قانون رقم 2027-118."),
        ("03-1234567 ןופלט", "טלפון 03-1234567"),
        ("₪1,250.50 רכש", "שכר ₪1,250.50"),
        (".[٢ قحلم] و (٣ ةدام)", "(مادة ٣) و [ملحق ٢]."),
        ("רכש (א) ףיעס", "סעיף (א) שכר"),
        ("ةنس يف ١٢٥ مسر.", "رسم ١٢٥ في سنة."),
        ("مدختسي Windows 11 زاهج ىلع.", "يستخدم Windows 11 على جهاز."),
        ("زاهج (Windows 11) مدختسي", "يستخدم (Windows 11) جهاز"),
        ("امًهرد", "درهمًا"),
    ],
)
def test_numbers_and_brackets_of_right_to_left_lines(seen: str, expected: str) -> None:
    assert import_pdf(seen_from_left(seen), ORIGIN).pages == (expected,)


def test_raised_vowel_marks_stay_with_their_letters() -> None:
    data = seen_from_left("ملِعَمُ باتًك", marks_apart=True)
    assert import_pdf(data, ORIGIN).pages == ("كتًاب مُعَلِم",)


@each_row(
    ("gaps", "text", "expected"),
    [
        ([10, 10, 10, 10], "中文合同书", "中文合同书"),
        ([10, 10, 10, 10], "あいうえお", "あいうえお"),
        ([0, 0, 40, 0], "中文合同书", "中文合 同书"),
        ([40, 40, 40, 40], "日月火水木", "日 月 火 水 木"),
        ([25], "目录", "目录"),
        ([10, 10, 60, 10, 10], "中文书日月火", "中文书 日月火"),
    ],
)
def test_letter_spaced_characters_are_joined(gaps: list[float], text: str, expected: str) -> None:
    x = 50.0
    glyphs = []
    for letter, gap in zip(text, [*gaps, 0.0], strict=True):
        glyphs.append((x, 700.0, letter))
        x += 12 + gap
    assert import_pdf(glyph_page(glyphs), ORIGIN).pages == (expected,)


def letters_at(lines: dict[tuple[int, int], str], *, down: bool = False) -> bytes:
    """Return a PDF with lines of letters that are placed one by one."""
    dx, dy = (0, -14) if down else (12, 0)
    places = [
        (float(x + number * dx), float(y + number * dy), letter)
        for (x, y), line in lines.items()
        for number, letter in enumerate(line)
        if letter != " "
    ]
    return glyph_page(places)


def test_letters_placed_one_by_one_are_lines_on_a_page_with_little_text() -> None:
    lines = {(50, 780): "Black tea", (530, 780): "2.20", (50, 764): "Sum", (530, 764): "2.20"}
    document = import_pdf(letters_at(lines), ORIGIN)
    assert document.pages == ("Black tea 2.20\nSum 2.20",)
    assert QuotableDocument(document).find("Black tea 2.20")


def test_vertical_text_is_read_downwards() -> None:
    lines = {(500, 750): "吾輩は猫である", (470, 750): "名前はまだ無い", (440, 750): "どこで生れた"}
    assert import_pdf(letters_at(lines, down=True), ORIGIN).pages == ("\n".join(lines.values()),)


def vertical_page(columns: dict[tuple[int, int], str], *, is_mixed: bool) -> bytes:
    """Return a PDF with columns of letters placed one by one, mixed with horizontal lines."""
    horizontal = dict.fromkeys(range(60, 540, 12), "あ") if is_mixed else {}
    return glyph_page(
        [
            *((float(x), 780.0, letter) for x, letter in horizontal.items()),
            *(
                (float(x), y - 12.5 * number, letter)
                for (x, y), column in columns.items()
                for number, letter in enumerate(column)
            ),
            *((float(x), 300.0, letter) for x, letter in horizontal.items()),
        ],
        size=12,
    )


@each_row(
    ("columns", "expected"),
    [
        (
            {
                (500, 740): "東京都は日本の首都であり、世界有数の",
                (480, 740): "都市の一つである。人口は約千四百万人",
                (460, 740): "に達し、経済の中心として知られる。",
                (440, 740): "名前はまだ無い。",
            },
            [
                "東京都は日本の首都であり、世界有数の都市の一つである。人口は約千四百万人に達し、経済の中心として知られる。",
                "名前はまだ無い。",
            ],
        ),
        ({(500, 740): "吾輩は", (470, 740): "猫である"}, ["吾輩は", "猫である"]),
        ({(300, 740): "規則(2024)は版"}, ["規則(2024)は版"]),
    ],
)
@pytest.mark.parametrize("is_mixed", [False, True])
def test_vertical_columns_are_read_from_right_to_left(
    columns: dict[tuple[int, int], str], expected: list[str], *, is_mixed: bool
) -> None:
    document = import_pdf(vertical_page(columns, is_mixed=is_mixed), ORIGIN)
    lines = document.pages[0].splitlines()
    assert (lines[1:-1] if is_mixed else lines) == expected
    assert QuotableDocument(document).find(expected[0])


def test_columns_of_a_vertical_font_are_read_from_right_to_left() -> None:
    columns = [
        "東京都は、日本の首都であり",
        "世界有数の、都市の一つであ",
        "る。",
    ]  # each with a drawn glyph
    content = "\n".join(
        f"BT /F2 12 Tf {500 - 20 * number} 780 Td <{column.encode('utf-16-be').hex()}> Tj ET"
        for number, column in enumerate(columns)
    )
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /Sample /Encoding /UniJIS-UCS2-V "
        "/DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Sample /DW 1000 "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> "
        "/FontDescriptor << /Type /FontDescriptor /FontName /Sample /Flags 6 /ItalicAngle 0 "
        "/FontBBox [0 -200 1000 900] /Ascent 723 /Descent -241 /StemV 69 /CapHeight 709 >> >>] >>"
    )
    data = raw_pdf(content, font, resources=f"/Font << /F2 {FIRST_OBJECT} 0 R >>")
    assert import_pdf(data, ORIGIN).pages == ("".join(columns),)


def test_single_characters_beside_each_other_stay_in_order() -> None:
    places = [(60.0 + 90 * at, 700.0, letter) for at, letter in enumerate("印鑑欄")]
    data = glyph_page(places, size=12)
    assert import_pdf(data, ORIGIN).pages[0].split() == list("印鑑欄")


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(1, 40), st.sampled_from("東京都のA1。ー")),
        min_size=1,
        max_size=60,
        unique_by=lambda it: it[:2],
    )
)
def test_no_character_of_vertical_text_is_lost_or_repeated(
    places: list[tuple[int, int, str]],
) -> None:
    data = glyph_page([(15.0 * x, 780.0 - 13 * y, letter) for x, y, letter in places], size=12)
    text = "".join(import_pdf(data, ORIGIN).pages[0].replace("---", "").replace("|", "").split())
    assert sorted(text) == sorted(letter for _, _, letter in places)


def test_mathematical_letters_do_not_prevent_corrections() -> None:
    spaced = [(50.0 + 22 * number, 700.0, letter) for number, letter in enumerate("中文合同书")]
    data = glyph_page([(50.0, 760.0, "𝑎"), *spaced])
    assert import_pdf(data, ORIGIN).pages == ("𝑎\n中文合同书",)


def test_spaces_between_characters_read_by_ocr_are_removed() -> None:
    assert join_ideographs("这 是 一 个 test 文 件 | 中 文") == "这是一个 test 文件 | 中文"


@given(st.lists(st.text(alphabet="ab1 .-", min_size=1, max_size=12), min_size=1, max_size=5))
def test_text_on_one_level_is_unchanged(lines: list[str]) -> None:
    pdf = new_page()
    for line in lines:
        pdf.cell(text=line.strip("-") or "a", new_x="LMARGIN", new_y="NEXT")
    words = " ".join(line.strip("-") or "a" for line in lines).split()
    assert not words or "".join(page_of(pdf).split()) == "".join(words)
