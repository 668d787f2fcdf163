"""OpenDocument texts and sheets as documents."""

from dataclasses import replace

import pytest

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.open_document import import_odt
from mcp_tools_proxy.documents.importers.open_sheets import import_ods
from mcp_tools_proxy.documents.quotable_document import QuotableDocument
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import zip_of
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="rules")
OASIS = "urn:oasis:names:tc:opendocument:xmlns"
SPACES = " ".join(
    [f'xmlns:{it}="{OASIS}:{it}:1.0"' for it in ("office", "text", "table", "style", "meta")]
    + [f'xmlns:draw="{OASIS}:drawing:1.0"', f'xmlns:fo="{OASIS}:xsl-fo-compatible:1.0"']
    + [f'xmlns:svg="{OASIS}:svg-compatible:1.0"', 'xmlns:xlink="http://www.w3.org/1999/xlink"']
    + ['xmlns:dc="http://purl.org/dc/elements/1.1/"']
)


def root_of(content: str) -> bytes:
    return f"<office:root {SPACES}>{content}</office:root>".encode()


def file_of(
    body: str, *, styles: str = "", kind: str = "text", page_styles: str = "", meta: str = ""
) -> bytes:
    return zip_of(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}".encode(),
            "content.xml": root_of(
                f"<office:automatic-styles>{styles}</office:automatic-styles>"
                f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
            ),
            "styles.xml": root_of(page_styles),
            "meta.xml": root_of(meta),
        }
    )


def imported(body: str, styles: str = "", origin: ImportOptions = ORIGIN) -> Document:
    return import_odt(file_of(body, styles=styles), origin)


def style(name: str, properties: str, parent: str = "") -> str:
    return (
        f'<style:style style:name="{name}" style:parent-style-name="{parent}">'
        f"<style:text-properties {properties}/></style:style>"
    )


def test_numbers_of_headings_are_text() -> None:
    styles = (
        '<text:list-style style:name="L1">'
        '<text:list-level-style-number text:level="1" style:num-format="I" '
        'style:num-prefix="Article " style:num-suffix="."/>'
        '<text:list-level-style-number text:level="2" style:num-format="1" '
        'text:display-levels="2"/></text:list-style>'
    )
    second = '<text:list-item><text:h text:outline-level="2">{}</text:h></text:list-item>'
    body = (
        '<text:list text:style-name="L1"><text:list-item><text:h>Scope</text:h><text:list>'
        + second.format("Staff")
        + second.format("Guests")
        + "</text:list></text:list-item></text:list><text:p>Text</text:p>"
        '<text:list text:style-name="L1" text:continue-numbering="true"><text:list-item>'
        "<text:h>Duties</text:h></text:list-item></text:list>"
    )
    assert imported(body, styles).pages == (
        "# Article I. Scope\n\n## I.1 Staff\n\n## I.2 Guests\n\nText\n\n# Article II. Duties",
    )


def test_numbers_of_the_outline_are_text() -> None:
    level = '<text:outline-level-style text:level="{}" style:num-format="1" {}/>'
    outline = level.format(1, "") + level.format(2, 'text:display-levels="2"')
    body = "<text:h>A</text:h>" + '<text:h text:outline-level="2">B</text:h>' * 2
    file = file_of(body, page_styles=f"<text:outline-style>{outline}</text:outline-style>")
    assert import_odt(file, ORIGIN).pages == ("# 1 A\n\n## 1.1 B\n\n## 1.2 B",)


def test_headings_are_sections_and_the_title_style_is_the_title() -> None:
    body = (
        '<text:p text:style-name="P1">Travel <text:span>policy</text:span></text:p>'
        '<text:h text:outline-level="1">Start</text:h><text:p>Text<text:s text:c="3"/>here'
        '<text:tab/>now<text:line-break/>and then.</text:p><text:h text:outline-level="2">'
        "Costs</text:h>"
    )
    document = imported(body, style("P1", "", "Title"))
    assert document.pages == ("Travel policy\n\n# Start\n\nText here now\nand then.\n\n## Costs",)
    assert document.title == "Travel policy"
    assert [it.title for it in document.sections.values()] == ["Start", "Costs"]


def test_a_paragraph_in_the_style_of_a_heading_is_one() -> None:
    body = '<text:p text:style-name="P1">Costs</text:p><text:p>Text</text:p>'
    assert imported(body, style("P1", "", "Heading_20_2")).pages == ("## Costs\n\nText",)


def test_the_metadata_give_title_and_language_and_margins_are_marked() -> None:
    margin = (
        "<style:master-page><style:{0}><text:p>{1}<text:page-number>1</text:page-number></text:p>"
        "</style:{0}></style:master-page>"
    )
    data = file_of(
        "<text:p>Text</text:p>",
        page_styles=margin.format("header", "HR-77") * 2 + margin.format("footer", "Page "),
        meta="<dc:title>Leave policy</dc:title><dc:language>de-AT</dc:language>",
    )
    document = import_odt(data, ORIGIN)
    assert document.pages == ("[Header: HR-77]\n\nText",)
    assert (document.title, document.language) == ("Leave policy", "de-AT")


NUMBER, COUNT = "<text:page-number>3</text:page-number>", "<text:page-count>9</text:page-count>"


@each_row(
    ("footer", "shown"),
    [
        (f"<text:p>Seite {NUMBER} von {COUNT}</text:p>", ""),
        (f"<text:p>HR-77</text:p><text:p>- {NUMBER} -</text:p>", "\n\n[Footer: HR-77]"),
        (
            f"<text:p>Rules of 2027 | <text:span>Page {NUMBER}</text:span></text:p>",
            "\n\n[Footer: Rules of 2027]",
        ),
    ],
)
def test_page_numbers_in_margins_are_left_out(footer: str, shown: str) -> None:
    data = file_of(
        "<text:p>Text</text:p>",
        page_styles=f"<style:footer>{footer}</style:footer>"
        '<style:footer-first style:display="false"><text:p>Unused</text:p></style:footer-first>',
    )
    assert import_odt(data, ORIGIN).pages == (f"Text{shown}",)


def test_lists_are_nested_and_numbered() -> None:
    styles = (
        '<text:list-style style:name="L"><text:list-level-style-number text:level="1" '
        'style:num-format="1" style:num-suffix="."/>'
        '<text:list-level-style-bullet text:level="2"/></text:list-style>'
    )
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    inner = f"<text:list>{item.format('inner', '')}</text:list>"
    items = item.format("one", inner) + item.format("two", "")
    body = f'<text:list text:style-name="L">{items}</text:list>'
    assert imported(body, styles).pages == ("1. one\n   - inner\n2. two",)


def level(number: int, number_format: str = "1", attributes: str = "") -> str:
    suffix = "" if "num-suffix" in attributes else 'style:num-suffix="."'
    return (
        f'<text:list-level-style-number text:level="{number}" style:num-format="{number_format}" '
        f"{suffix} {attributes}/>"
    )


def items(*texts: str, attributes: str = "", inner: str = "") -> str:
    """Return a list in the style L; ``inner`` is a list in its last item."""
    found = "".join(f"<text:list-item><text:p>{it}</text:p></text:list-item>" for it in texts)
    if inner:
        found = f"{found.removesuffix('</text:list-item>')}{inner}</text:list-item>"
    return f'<text:list text:style-name="L" {attributes}>{found}</text:list>'


CONTINUED = 'text:continue-numbering="true"'
SUBLIST_ONLY = (
    f'<text:list text:style-name="L" {CONTINUED}><text:list-item>{{}}</text:list-item></text:list>'
)


@each_row(
    ("levels", "body", "shown"),
    [
        (level(1, "1", 'text:start-value="4"'), items("x", "y"), "4. x\n5. y"),
        (level(1), f"{items('x', 'y')}{items('z', attributes=CONTINUED)}", "1. x\n2. y\n\n3. z"),
        (level(1), f"{items('x', 'y')}{items('z')}", "1. x\n2. y\n\n1. z"),
        (
            level(1),
            items("x", attributes='xml:id="first"')
            + items("y", attributes='xml:id="other"')
            + items("z", attributes='text:continue-list="first"'),
            "1. x\n\n1. y\n\n2. z",
        ),
        (
            level(1),
            items("x", "y").replace("<text:list-item>", '<text:list-item text:start-value="9">', 1),
            "9. x\n10. y",
        ),
        (level(1, "1", 'style:num-prefix="Rule "'), items("x", "y"), "Rule 1. x\n\nRule 2. y"),
        (level(1, "a", 'style:num-suffix=")"'), items("x", "y"), "a) x\n\nb) y"),
        (
            level(1, "a", 'text:start-value="26" style:num-letter-sync="true"'),
            items("x", "y"),
            "z. x\n\naa. y",
        ),
        (level(1, "a", 'text:start-value="27"'), items("x", "y"), "aa. x\nab. y"),
        (level(1, "01, 02, 03, ..."), items("x"), "01. x"),
        (level(1, "①, ②, ③, ..."), items("x"), "①. x"),
        (
            level(1, "1", 'style:num-list-format="[%1%]"'),
            items("x", "y"),
            "[1] x\n\n[2] y",
        ),
        (level(1, "1", 'style:num-list-format="%1%."'), items("x", "y"), "1. x\n2. y"),
        (level(1, "", 'style:num-suffix=""'), items("x", "y"), "x\n\ny"),
        ("", items("x", inner=items("y")), "1. x\n   1. y"),
        (
            level(1) + level(2, "1", 'text:display-levels="2"'),
            items("x", inner=items("y", "z")) + SUBLIST_ONLY.format(items("w")),
            "1. x\n\n   1.1. y\n\n   1.2. z\n\n1.3. w",
        ),
        (
            level(1) + level(2),
            items("x", inner=f"{items('y')}<text:p>and</text:p>{items('z')}"),
            "1. x\n   1. y\n\n   and\n   1. z",
        ),
    ],
)
def test_items_have_the_numbers_that_the_office_shows(levels: str, body: str, shown: str) -> None:
    styles = f'<text:list-style style:name="L">{levels}</text:list-style>'
    assert imported(body, styles).pages == (shown,)


def test_a_quote_with_the_number_of_its_item_is_found() -> None:
    third = level(1, "1", 'text:start-value="3"')
    styles = f'<text:list-style style:name="L">{third}</text:list-style>'
    document = imported(items("Turn the valve.", "Open it."), styles)
    assert QuotableDocument(document).find("4. Open it.")
    assert not QuotableDocument(document).find("2. Open it.")


def test_headings_restart_where_the_file_says_so() -> None:
    outline = '<text:outline-level-style text:level="1" style:num-format="1"/>'
    body = (
        '<text:h>A</text:h><text:h text:restart-numbering="true" text:start-value="5">B</text:h>'
        '<text:h text:style-name="P1">C</text:h><text:h>D</text:h>'
    )
    styles = '<style:style style:name="P1" style:family="paragraph" style:list-style-name=""/>'
    file = file_of(
        body, styles=styles, page_styles=f"<text:outline-style>{outline}</text:outline-style>"
    )
    assert import_odt(file, ORIGIN).pages == ("# 1 A\n\n# 5 B\n\n# C\n\n# 6 D",)


def test_a_list_within_a_list_has_the_numbers_of_its_level() -> None:
    levels = level(1, "I") + level(2, "a")
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    inner = f"<text:list>{item.format('x', '') * 2}</text:list>"
    body = f'<text:list text:style-name="L">{item.format("one", inner)}</text:list>'
    styles = f'<text:list-style style:name="L">{levels}</text:list-style>'
    assert imported(body, styles).pages == ("I. one\n   a. x\n   b. x",)


def cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


COVERED = "<table:covered-table-cell/>"
TALL, WIDE = 'table:number-rows-spanned="2"', 'table:number-columns-spanned="2"'
TWICE = 'table:number-columns-repeated="2"'
ROWS = (
    f"<table:table-row>{cell('Region')}{cell('Year')}{cell('Sales')}</table:table-row>"
    f"<table:table-row>{cell('North', TALL)}{cell('2025')}{cell('10')}"
    f"</table:table-row><table:table-row>{COVERED}"
    f"{cell('Both', WIDE)}{COVERED}</table:table-row>"
)
TABLE = f'<table:table table:name="Sales &amp; more">{ROWS}</table:table>'
SHOWN = (
    "| Region | Year | Sales |\n| --- | --- | --- |\n| North | 2025 | 10 |\n| North | Both | Both |"
)


def test_covered_cells_of_a_table_are_repeated() -> None:
    assert imported(TABLE).pages == (SHOWN,)


def test_exponents_links_and_notes() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>See annex."
        "</text:p></text:note-body></text:note>"
    )
    body = (
        '<text:p>5 m<text:span text:style-name="T1">2</text:span> of H<text:span text:style-name='
        f'"T2">2</text:span>O, <text:a xlink:href="https://e.org/">here</text:a>{note}.</text:p>'
    )
    styles = style("T1", 'style:text-position="super 58%"') + style(
        "T2", 'style:text-position="sub"'
    )
    assert imported(body, styles).pages == (
        "5 m^2 of H_2O, [here](https://e.org/) [1].\n\n[1] See annex.",
    )


def test_struck_text_is_marked() -> None:
    styles = style("T1", 'style:text-line-through-style="solid"')
    body = '<text:p>EUR <text:span text:style-name="T1">300</text:span> 250</text:p>'
    assert imported(body, styles).pages == ("EUR ~~300~~ 250",)


def test_deletions_are_left_out_and_comments_are_marked() -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p>"
        "</text:deletion></text:changed-region></text:tracked-changes><text:p>Kept<office:annotation>"
        "<dc:creator>Ann</dc:creator><text:p>Check it</text:p></office:annotation> text</text:p>"
    )
    assert imported(body).pages == ("Kept [Comment by Ann: Check it] text",)
    assert imported(body, origin=replace(ORIGIN, with_notes=False)).pages == ("Kept text",)


@each_row(
    "body",
    [
        '<text:p><text:span text:style-name="H">secret</text:span></text:p>',
        '<text:p><text:span text:style-name="W">secret</text:span></text:p>',
        '<text:section text:display="none"><text:p>secret</text:p></text:section>',
        '<text:p><text:hidden-text text:string-value="secret"/></text:p>',
    ],
)
def test_hidden_text_is_left_out_and_counted(body: str) -> None:
    styles = style("H", 'text:display="none"') + style("W", 'fo:color="#ffffff"')
    document = imported(f"{body}<text:p>Seen</text:p>", styles)
    assert document.pages == ("Seen",)
    assert document.warnings[0].message.startswith("6 letters")


def test_a_formula_and_the_description_of_a_picture_stay() -> None:
    body = (
        '<text:p><draw:frame><draw:object xlink:href="./O"/></draw:frame> and <draw:frame>'
        "<draw:image/><svg:desc>a map</svg:desc></draw:frame></text:p>"
    )
    math = b'<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>A</mi><mo>=</mo><mn>2</mn></math>'
    data = zip_of(
        {"content.xml": root_of(f"<office:text>{body}</office:text>"), "O/content.xml": math}
    )
    assert import_odt(data, ORIGIN).pages == ("$A = 2$ and a map",)


def test_a_formula_that_cannot_be_read_costs_only_itself() -> None:
    body = "".join(
        f'<text:p>See <draw:frame><draw:object xlink:href="{it}/"/></draw:frame> here</text:p>'
        for it in ("F", "lost", "chart")
    )
    entry = '<manifest:file-entry manifest:full-path="{}/" manifest:media-type="{}"/>'
    formula = "application/vnd.oasis.opendocument.formula"
    parts = {
        "content.xml": root_of(f"<office:text>{body}</office:text>"),
        "F/content.xml": b"<m:math><m:mi>A</m:mi></m:math>",
        "META-INF/manifest.xml": "".join(
            entry.format(name, kind)
            for name, kind in (("F", formula), ("lost", formula), ("chart", "text/xml"))
        ).encode(),
    }
    document = import_odt(zip_of(parts), ORIGIN)
    assert document.pages == ("See $A$ here\n\nSee here\n\nSee here",)
    assert [it.code for it in document.warnings] == ["lost_equation"]
    assert document.warnings[0].message.startswith("1 equation ")


def test_values_of_form_fields_are_read() -> None:
    fields = 'xmlns:field="urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0"'
    kind = "vnd.oasis.opendocument.field.FORM"

    def mark(name: str, values: dict[str, str]) -> str:
        params = "".join(
            f'<field:param field:name="{it.rstrip("+")}" field:value="{value}"/>'
            for it, value in values.items()
        )
        return f'<field:fieldmark {fields} field:type="{kind}{name}">{params}</field:fieldmark>'

    cities = {"Dropdown_ListEntry": "Bonn", "Dropdown_ListEntry+": "Kiel"}
    body = (
        f"<text:p>Agree: {mark('CHECKBOX', {'Checkbox_Checked': 'true'})}, "
        f"call: {mark('CHECKBOX', {})}, "
        f"city: {mark('DROPDOWN', cities | {'Dropdown_Selected': '1'})}, "
        f"other: {mark('DROPDOWN', cities | {'Dropdown_Selected': '7'})}</text:p>"
    )
    assert imported(body).pages == ("Agree: [x], call: [ ], city: Kiel, other:",)


def test_values_of_controls_are_read() -> None:
    option = '<form:option form:label="{}" form:current-selected="{}"/>'
    controls = {
        "a": ("checkbox", 'form:label="Agree" form:current-state="checked"', ""),
        "b": ("checkbox", 'form:label="Call" form:state="unchecked"', ""),
        "c": ("text", 'form:value="Eve" form:current-value="Ann"', ""),
        "d": ("listbox", "", option.format("Bonn", "false") + option.format("Kiel", "true")),
        "e": ("button", 'form:label="Send"', ""),
    }
    forms = "".join(
        f'<form:{kind} form:id="{name}" {attributes}>{inner}</form:{kind}>'
        for name, (kind, attributes, inner) in controls.items()
    )
    shapes = "".join(f'<draw:control draw:control="{name}"/>' for name in controls)
    space = f'xmlns:form="{OASIS}:form:1.0"'
    body = f"<office:forms><form:form {space}>{forms}</form:form></office:forms>"
    assert imported(f"{body}<text:p>Form: {shapes}</text:p>").pages == (
        "Form: [x] Agree [ ] Call Ann Kiel",
    )


def test_a_table_in_a_cell_leaves_the_rows_of_the_outer_one() -> None:
    inner = f"<table:table><table:table-row>{cell('a')}{cell('b')}</table:table-row></table:table>"
    row = "<table:table-row>{}{}{}</table:table-row>"
    outer = row.format(cell("City"), cell("Plan"), cell("Rest"))
    outer += row.format(cell("Bonn"), f"<table:table-cell>{inner}</table:table-cell>", cell("5"))
    assert imported(f"<table:table>{outer}</table:table>").pages == (
        "| City | Plan | Rest |\n| --- | --- | --- |\n| Bonn | a, b | 5 |",
    )


def test_sheets_are_tables_as_they_are_shown() -> None:
    body = (
        TABLE.replace(cell("10"), cell("10 %", 'office:value-type="percentage" office:value="0.1"'))
        + '<table:table table:name="Wide"><table:table-row table:number-rows-repeated="3">'
        f"{cell('x', TWICE)}"
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1000000"/></table:table>'
    )
    document = import_ods(file_of(body, kind="spreadsheet"), ORIGIN)
    assert document.pages == (
        f"## Sales & more\n\n{SHOWN.replace('10', '10 %')}\n",
        "## Wide\n\n| x | x |\n| --- | --- |\n| x | x |\n| x | x |\n",
    )


def test_names_of_groups_of_columns_are_part_of_the_column_names() -> None:
    body = (
        '<table:table table:name="S">'
        f"<table:table-row>{cell('City', TALL)}{cell('Sales', WIDE)}{COVERED}</table:table-row>"
        f"<table:table-row>{COVERED}{cell('Q1')}{cell('Q2')}</table:table-row>"
        f"<table:table-row>{cell('Lodz')}{cell('10')}{cell('20')}</table:table-row></table:table>"
    )
    shown = "| City | Sales Q1 | Sales Q2 |\n| --- | --- | --- |\n| Lodz | 10 | 20 |"
    sheets = import_ods(file_of(body, kind="spreadsheet"), ORIGIN)
    assert (sheets.pages, imported(body).pages) == ((f"## S\n\n{shown}\n",), (shown,))


def test_hidden_sheets_rows_and_columns_are_left_out_and_counted() -> None:
    hidden = (
        '<style:style style:name="ta"><style:table-properties table:display="false"/></style:style>'
    )
    row = "<table:table-row {}>{}</table:table-row>"
    body = (
        '<table:table table:name="S"><table:table-column/><table:table-column '
        'table:visibility="collapse"/>'
        + row.format("", cell("a") + cell("bb") + cell("c"))
        + row.format('table:visibility="filter"', cell("ddd"))
        + '</table:table><table:table table:name="H" table:style-name="ta">'
        + row.format("", cell("eeee"))
        + "</table:table>"
    )
    document = import_ods(file_of(body, styles=hidden, kind="spreadsheet"), ORIGIN)
    assert document.pages == ("## S\n\n| a | c |\n| --- | --- |\n",)
    assert document.warnings[0].message.startswith("9 letters")


@each_row(
    ("colour", "ground", "text", "is_seen"),
    [
        ("#ffffff", "", "secret", False),
        ("#ffffff", "transparent", "secret", False),
        ("#000000", "#000000", "secret", False),
        ("#ffffff", "#1f3864", "secret", True),
        ("#ffffff", "", "<text:span>secret</text:span>", True),
    ],
)
def test_text_in_the_colour_of_its_cell_is_left_out_and_counted(
    colour: str, ground: str, text: str, is_seen: bool
) -> None:
    styles = (
        '<style:style style:name="base" style:family="table-cell"><style:table-cell-properties '
        f'fo:background-color="{ground}"/></style:style><style:style style:name="c" '
        'style:family="table-cell" style:parent-style-name="base"><style:text-properties '
        f'fo:color="{colour}"/></style:style>'
    )
    styled = cell(text, 'table:style-name="c"')
    row = f"<table:table-row>{cell('a')}{styled}</table:table-row>"
    table = f'<table:table table:name="S">{row}</table:table>'
    document = import_ods(file_of(table, styles=styles, kind="spreadsheet"), ORIGIN)
    assert ("secret" in document.pages[0]) == is_seen
    assert [it.message[:9] for it in document.warnings] == ([] if is_seen else ["6 letters"])


def test_comments_on_cells_and_formulas_without_values_of_sheets() -> None:
    note = (
        "<office:annotation><dc:creator>Ann</dc:creator><text:p>{}</text:p></office:annotation>"
        "<text:p>{}</text:p>"
    )
    formula = '<table:table-cell table:formula="of:=1+1" {}/>'
    row = "<table:table-row {}>{}</table:table-row>"
    body = (
        '<table:table table:name="S"><table:table-column/>'
        + row.format("", cell("a") + cell("b") + cell("c"))
        + row.format('table:number-rows-repeated="7"', cell(""))
        + row.format(
            "",
            formula.format('table:number-columns-repeated="2" office:value-type="float"')
            + f"<table:table-cell>{note.format('Really?', '5')}</table:table-cell>",
        )
        + row.format(
            "",
            formula.format('office:value-type="float" office:value="2"')
            + formula.format('office:value-type="string" office:string-value=""'),
        )
        + row.format(
            'table:visibility="collapse"',
            formula.format("") + f"<table:table-cell>{note.format('gone', '')}</table:table-cell>",
        )
        + "</table:table>"
    )
    data = file_of(body, kind="spreadsheet")
    document = import_ods(data, ORIGIN)
    table = "## S\n\n| a | b | c |\n| --- | --- | --- |\n|  |  | 5 |\n| 2 |  |  |\n"
    assert document.pages == (f"{table}\n[Comment on C9 by Ann: Really?]\n",)
    assert [it.message.split(" of ")[0].split(",")[0] for it in document.warnings] == [
        "2 formulas have no stored value",
        "4 letters",
    ]
    assert import_ods(data, replace(ORIGIN, with_notes=False)).pages == (table,)


@each_row(
    ("data", "reason"),
    [
        (file_of(""), "is empty"),
        (zip_of({"content.xml": b"<x"}), "is not a readable .odt file"),
        (zip_of({"other.xml": b"<x/>"}), "does not contain a text"),
        (zip_of({"content.xml": b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"}), "document type"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_odt(data, ORIGIN)
    assert reason in refused.value.reason
