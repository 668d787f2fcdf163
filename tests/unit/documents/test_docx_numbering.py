"""Automatic numbers of Word files, as Word shows them."""

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.documents.importers.docx_numbering import format_number
from tests.support.office_files import paragraph_xml, word_file
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="clauses")


def level(number: int, text: str, kind: str = "decimal", more: str = "", start: int = 1) -> str:
    return (
        f'<w:lvl w:ilvl="{number}"><w:start w:val="{start}"/><w:numFmt w:val="{kind}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def abstract(number: int, *levels: str) -> str:
    return f'<w:abstractNum w:abstractNumId="{number}">{"".join(levels)}</w:abstractNum>'


def number_list(number: int, of: int, more: str = "") -> str:
    return f'<w:num w:numId="{number}"><w:abstractNumId w:val="{of}"/>{more}</w:num>'


def item(text: str, list_id: int, at: int = 0) -> str:
    numbers = f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{list_id}"/></w:numPr>'
    return paragraph_xml(text, properties=numbers)


def text_of(body: str, numbering: str, styles: str = "") -> str:
    data = word_file(body, numbering=numbering, styles=styles)
    return "".join(import_docx(data, ORIGIN).pages)


LEGAL = abstract(
    1,
    level(0, "Article %1", "upperRoman"),
    level(1, "%1.%2", more="<w:isLgl/>"),
    level(2, "(%3)", "lowerLetter"),
)


def test_levels_count_within_their_parent_and_legal_numbers_are_decimal() -> None:
    body = (
        item("Terms", 7)
        + item("Scope", 7, 1)
        + item("first", 7, 2)
        + item("second", 7, 2)
        + item("Fees", 7)
        + item("Amount", 7, 1)
        + item("third", 7, 2)
    )
    assert text_of(body, LEGAL + number_list(7, 1)).split("\n\n") == [
        "Article I Terms",
        "1.1 Scope",
        "(a) first",
        "(b) second",
        "Article II Fees",
        "2.1 Amount",
        "(a) third",
    ]


def test_lists_of_one_definition_share_a_count_until_one_restarts() -> None:
    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    numbering = abstract(1, level(0, "%1.")) + number_list(1, 1) + number_list(2, 1)
    numbering += number_list(3, 1, override)
    body = item("a", 1) + item("b", 2) + item("c", 3) + item("d", 3)
    assert text_of(body, numbering) == "1. a\n2. b\n5. c\n6. d"


def test_a_list_can_replace_levels_of_its_definition() -> None:
    override = (
        f'<w:lvlOverride w:ilvl="0">{level(0, "%1)", "upperLetter", start=3)}</w:lvlOverride>'
    )
    numbering = abstract(1, level(0, "%1.")) + number_list(1, 1, override)
    assert text_of(item("a", 1) + item("b", 1), numbering) == "C) a\n\nD) b"


def test_a_level_restarts_after_the_level_that_it_names() -> None:
    never = level(1, "Q%2", more='<w:lvlRestart w:val="0"/>')
    numbering = abstract(1, level(0, "Part %1"), never) + number_list(1, 1)
    body = item("a", 1) + item("b", 1, 1) + item("c", 1) + item("d", 1, 1)
    assert text_of(body, numbering) == "Part 1 a\n\nQ1 b\n\nPart 2 c\n\nQ2 d"


def test_bullets_and_numbers_are_nested() -> None:
    numbering = abstract(1, level(0, "%1."), level(1, "\uf0b7", "bullet")) + number_list(1, 1)
    body = item("a", 1) + item("b", 1, 1) + item("c", 1, 1) + item("d", 1)
    assert text_of(body, numbering) == "1. a\n   - b\n   - c\n2. d"


def test_a_paragraph_with_a_blank_bullet_continues_the_item_above() -> None:
    numbering = (
        abstract(1, level(0, "%1."), level(1, "%2)"))
        + abstract(2, *(level(at, " ", "bullet") for at in range(2)))
        + number_list(1, 1)
        + number_list(2, 2)
    )
    body = item("a", 1) + item("b", 1, 1) + item("more of b", 2, 1) + item("more of a", 2)
    body += item("c", 1) + paragraph_xml("end") + item("alone", 2)
    assert text_of(body, numbering) == (
        "1. a\n   1) b\n\n      more of b\n\n   more of a\n\n2. c\n\nend\n\nalone"
    )


STYLES = (
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:pPr>'
    '<w:numPr><w:numId w:val="1"/></w:numPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Clause"><w:name w:val="Clause"/>'
    '<w:basedOn w:val="Base"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Base"><w:name w:val="Base"/><w:pPr><w:numPr>'
    '<w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:type="numbering" w:styleId="Outline"><w:pPr><w:numPr><w:numId w:val="2"/>'
    "</w:numPr></w:pPr></w:style>"
)


def test_numbers_come_from_styles_and_linked_list_styles() -> None:
    linked = '<w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="Outline"/></w:abstractNum>'
    numbering = linked + abstract(2, level(0, "%1"), level(1, "%1.%2"))
    numbering += number_list(1, 1) + number_list(2, 2)
    heading = paragraph_xml("Terms", properties='<w:pStyle w:val="berschrift1"/>')
    clause = paragraph_xml("Fees are due.", properties='<w:pStyle w:val="Clause"/>')
    without = paragraph_xml(
        "Open.", properties='<w:pStyle w:val="Clause"/><w:numPr><w:numId w:val="0"/></w:numPr>'
    )
    text = "# 1 Terms\n\n1.1 Fees are due.\n\nOpen.\n\n# 2 Terms"
    assert text_of(heading + clause + without + heading, numbering, STYLES) == text


def test_deleted_and_hidden_paragraphs_are_not_counted() -> None:
    numbers = '<w:numPr><w:numId w:val="1"/></w:numPr>'
    deleted = '<w:del w:id="1"><w:r><w:delText>b</w:delText></w:r></w:del>'
    body = item("a", 1)
    body += paragraph_xml(deleted, properties=f'{numbers}<w:rPr><w:del w:id="2"/></w:rPr>')
    body += paragraph_xml(
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>c</w:t></w:r>",
        properties=f"{numbers}<w:rPr><w:vanish/></w:rPr>",
    )
    body += item("d", 1)
    assert text_of(body, abstract(1, level(0, "%1.")) + number_list(1, 1)) == "1. a\n2. d"


def test_a_list_without_a_definition_is_text() -> None:
    assert text_of(item("a", 9) + item("b", 1, 5), number_list(1, 1)) == "a\n\nb"


@each_row(
    ("number_format", "texts"),
    [
        ("decimalZero", "09 10"),
        ("lowerLetter", "i j"),
        ("upperRoman", "IX X"),
        ("ordinal", "9th 10th"),
        ("ordinalText", "Ninth Tenth"),
        ("cardinalText", "Nine Ten"),
        ("chineseCounting", "九 十"),
        ("decimalFullWidth", "９ １０"),
        ("russianLower", "и к"),
        ("unknown", "9 10"),
    ],
)
def test_number_formats(number_format: str, texts: str) -> None:
    zeros = 2 if number_format == "decimalZero" else 0
    shown = [format_number(value, number_format).zfill(zeros) for value in (9, 10)]
    assert shown == texts.split(" ")


def test_a_number_in_words_is_decimal_in_other_languages() -> None:
    numbering = abstract(1, level(0, "%1.", "ordinalText")) + number_list(1, 1)
    language = '<w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="fr-FR"/></w:rPr></w:rPrDefault>'
    assert text_of(item("a", 1), numbering) == "First. a"
    assert text_of(item("a", 1), numbering, language + "</w:docDefaults>") == "1. a"


def test_large_numbers() -> None:
    assert format_number(21, "decimalEnclosedCircle") == "21"
    assert [format_number(27, "lowerLetter"), format_number(53, "lowerLetter")] == ["aa", "aaa"]
    assert format_number(1994, "lowerRoman") == "mcmxciv"
    assert format_number(103, "japaneseCounting") == "一百零三"
    assert format_number(1003, "chineseCountingThousand") == "一千零三"
    assert format_number(21, "ordinalText") == "Twenty-first"
    assert format_number(10**9, "upperRoman") == "1000000000"


def bullets(number: int, left: int) -> str:
    indent = f'<w:pPr><w:ind w:left="{left}" w:hanging="360"/></w:pPr>'
    one = f'<w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/>{indent}</w:lvl>'
    return abstract(number, one) + number_list(number, number)


def bullet_style(name: str, number: int, more: str = "") -> str:
    return (
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/><w:pPr>'
        f'<w:numPr><w:numId w:val="{number}"/></w:numPr>{more}</w:pPr></w:style>'
    )


def test_items_are_indented_if_each_style_has_a_list_of_its_own() -> None:
    lists = bullets(1, 360) + bullets(2, 720) + bullets(3, 360)
    styles = bullet_style("Punkt", 1) + bullet_style("Strich", 2)
    styles += bullet_style("Tief", 3, '<w:ind w:left="1080"/>')
    names = ("Punkt", "Strich", "Tief", "Tief", "Strich", "Punkt")
    body = "".join(
        paragraph_xml(f"{name} text", properties=f'<w:pStyle w:val="{name}"/>') for name in names
    )
    lines = text_of(body, lists, styles).split("\n")
    assert lines == [
        "- Punkt text",
        "  - Strich text",
        "    - Tief text",
        "    - Tief text",
        "  - Strich text",
        "- Punkt text",
    ]


def test_lists_of_the_same_indentation_are_not_within_each_other() -> None:
    body = item("one", 1) + item("two", 2)
    assert text_of(body, bullets(1, 720) + bullets(2, 720)).split("\n") == ["- one", "- two"]
