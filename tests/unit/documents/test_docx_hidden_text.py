"""Text of Word files that Word does not show, and text that looks like it (contract §5)."""

from time import process_time

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.domain.document import Document
from tests.support.hidden_text import is_secret_hidden
from tests.support.office_files import paragraph_xml, run_xml, word_file
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="leave-rules")
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
WORD_2010 = "http://schemas.microsoft.com/office/word/2010/wordml"

THEME = (
    f'<a:clrScheme xmlns:a="{DRAWING}"><a:dk1><a:sysClr val="windowText" lastClr="000000"/></a:dk1>'
    '<a:lt1><a:srgbClr val="FFFFFF"/></a:lt1><a:dk2><a:srgbClr val="44546A"/></a:dk2>'
    '<a:lt2><a:srgbClr val="E7E6E6"/></a:lt2><a:accent1><a:srgbClr val="4472C4"/></a:accent1>'
    "</a:clrScheme>"
)
WHITE = '<w:color w:val="FFFFFF"/>'


def imported(body: str, **parts: str) -> Document:
    return import_docx(word_file(paragraph_xml("Seen.") + body, **parts), ORIGIN)


def is_hidden(body: str, **parts: str) -> bool:
    return is_secret_hidden(imported(body, **parts))


def theme_colour(name: str, changes: str = "", value: str = "auto") -> str:
    return f'<w:color w:val="{value}" w:themeColor="{name}" {changes}/>'


def theme_fill(name: str, changes: str = "") -> str:
    return f'<w:shd w:val="clear" w:color="auto" w:fill="auto" w:themeFill="{name}" {changes}/>'


def text_fill(fill: str, outline: str = "") -> str:
    lines = f'<w14:textOutline w14:w="9525">{outline}</w14:textOutline>' if outline else ""
    return f"{lines}<w14:textFill>{fill}</w14:textFill>"


def solid(name: str, value: str, change: str = "") -> str:
    colour = f'<w14:{name} w14:val="{value}">{change}</w14:{name}>'
    return f"<w14:solidFill>{colour}</w14:solidFill>"


@each_row(
    ("properties", "hidden"),
    [
        (theme_colour("background1", value="000000"), True),
        (theme_colour("light1"), True),
        (theme_colour("text1", 'w:themeTint="00"'), True),
        (theme_colour("text1", value="FFFFFF"), False),
        (theme_colour("background1", 'w:themeShade="80"'), False),
        (theme_colour("background2"), False),
        (theme_colour("accent1"), False),
        (theme_colour("unknown", value="FFFFFF"), True),
        (theme_colour("background1") + theme_fill("text1"), False),
        (theme_colour("background1") + theme_fill("accent1"), False),
        (theme_colour("accent1") + theme_fill("accent1"), True),
        (theme_colour("accent1") + theme_fill("accent1", 'w:themeFillTint="33"'), False),
        ('<w:color w:val="000000"/>' + theme_fill("text1"), True),
        ('<w:color w:val="auto"/>' + theme_fill("text1"), False),
        ('<w:color w:val="#ffffff"/>', True),
        ('<w:color w:val="BFBFBF"/>', False),
        ('<w:color w:val="101010"/><w:shd w:val="pct95" w:color="000000" w:fill="000000"/>', True),
        (f'{WHITE}<w:shd w:val="pct50" w:color="auto" w:fill="auto"/>', False),
        ('<w:color w:val="7f7f7f"/><w:shd w:val="pct50" w:color="auto" w:fill="auto"/>', True),
        (f'{WHITE}<w:shd w:val="diagStripe" w:color="auto" w:fill="auto"/>', False),
        (text_fill("<w14:noFill/>"), True),
        (text_fill("<w14:noFill/>", solid("srgbClr", "000000")), False),
        (text_fill("<w14:noFill/>", "<w14:noFill/>"), True),
        (text_fill(solid("srgbClr", "FFFFFF")), True),
        (text_fill(solid("schemeClr", "bg1")), True),
        (text_fill(solid("schemeClr", "accent1")), False),
        (text_fill(solid("schemeClr", "tx1", '<w14:lumOff w14:val="100000"/>')), True),
        (text_fill(solid("srgbClr", "000000", '<w14:alpha w14:val="100000"/>')), True),
        (text_fill(solid("srgbClr", "000000", '<w14:alpha w14:val="20000"/>')), False),
        (WHITE + text_fill(solid("srgbClr", "000000")), False),
        ('<w:sz w:val="1pt"/>', True),
        ('<w:sz w:val="2.0"/>', True),
        ('<w:sz w:val="8pt"/>', False),
    ],
)
def test_colours_and_sizes_hide_text(properties: str, hidden: bool) -> None:
    body = paragraph_xml(run_xml("secret", properties))
    assert is_hidden(body, theme=THEME) is hidden


def test_settings_name_the_colours_of_the_theme() -> None:
    dark = '<w:clrSchemeMapping w:bg1="dark1" w:t1="light1" w:bg2="dark2" w:t2="light2"/>'
    white, black = (
        paragraph_xml(run_xml("secret", theme_colour(it))) for it in ("text1", "background1")
    )
    assert is_hidden(white, theme=THEME, settings=dark)
    assert not is_hidden(black, theme=THEME, settings=dark)


def style(kind: str, name: str, text: str, more: str = "") -> str:
    return f'<w:style w:type="{kind}" w:styleId="{name}">{more}<w:rPr>{text}</w:rPr></w:style>'


def based_on(name: str) -> str:
    return f'<w:basedOn w:val="{name}"/>'


STYLES = (
    style("paragraph", "Hidden", "<w:vanish/>")
    + style("character", "Ghost", "<w:vanish/>")
    + style("character", "Plain", '<w:vanish w:val="0"/>')
    + style("paragraph", "White", theme_colour("background1"))
    + "".join(
        style("paragraph", f"B{it}", "", f'<w:basedOn w:val="B{it + 1}"/>') for it in range(30)
    )
    + style("paragraph", "B30", "<w:vanish/>")
    + style("paragraph", "C1", "", based_on("C2"))
    + style("paragraph", "C2", "<w:vanish/>", based_on("C1"))
)


@each_row(
    ("paragraph", "properties", "hidden"),
    [
        ("B0", "", True),
        ("C1", "", True),
        ("White", "", True),
        ("White", '<w:color w:val="auto"/>', False),
        ("White", theme_fill("accent1"), False),
        ("Hidden", '<w:rStyle w:val="Plain"/>', True),
        ("Hidden", '<w:rStyle w:val="Ghost"/>', False),
        ("Hidden", '<w:vanish w:val="0"/>', False),
        ("Ghost", '<w:rStyle w:val="B0"/><w:vanish/>', True),
    ],
)
def test_styles_hide_text(paragraph: str, properties: str, hidden: bool) -> None:
    body = paragraph_xml(
        run_xml("secret", properties), properties=f'<w:pStyle w:val="{paragraph}"/>'
    )
    assert is_hidden(body, styles=STYLES, theme=THEME) is hidden


def test_a_long_chain_of_styles_is_read_once() -> None:
    count = 20_000
    styles = "".join(
        style("paragraph", f"B{it}", "", based_on(f"B{it + 1}")) for it in range(count)
    )
    body = "".join(
        paragraph_xml("a", properties=f'<w:pStyle w:val="B{it}"/>') for it in range(0, count, 20)
    )
    start = process_time()
    imported(body, styles=styles)
    assert process_time() - start < 10


FILL = '<w:shd w:val="clear" w:fill="1F3864"/>'


def table_style(*parts: str, text: str = "", more: str = "") -> str:
    return style("table", "T", text, more).replace("</w:style>", f"{''.join(parts)}</w:style>")


def part(name: str, text: str = "", shade: str = "") -> str:
    return (
        f'<w:tblStylePr w:type="{name}"><w:rPr>{text}</w:rPr><w:tcPr>{shade}</w:tcPr>'
        "</w:tblStylePr>"
    )


def table(
    *,
    place: int = 0,
    run: str = "",
    cell: str = "",
    row: str = "",
    look: str = '<w:tblLook w:val="04A0" w:firstRow="1"/>',
) -> str:
    """Return a table of two rows with the text "secret" in the row at ``place``."""
    rows = ""
    for number in range(2):
        text = run_xml("secret", run) if number == place else "x"
        rows += (
            f"<w:tr><w:trPr>{row if number == place else ''}</w:trPr><w:tc><w:tcPr>"
            f"{cell if number == place else ''}</w:tcPr>{paragraph_xml(text)}</w:tc>"
            f"<w:tc>{paragraph_xml('x')}</w:tc></w:tr>"
        )
    return f'<w:tbl><w:tblPr><w:tblStyle w:val="T"/>{look}</w:tblPr>{rows}</w:tbl>'


DARK_HEAD = table_style(part("firstRow", WHITE, FILL))
EXACT = '<w:trHeight w:val="{}" w:hRule="{}"/>'


@each_row(
    ("xml", "styles", "hidden"),
    [
        (table(), DARK_HEAD, False),
        (table(run=WHITE), DARK_HEAD, False),
        (table(run=WHITE, place=1), DARK_HEAD, True),
        (table(look='<w:tblLook w:firstRow="0"/>', run=WHITE), DARK_HEAD, True),
        (table(look='<w:tblLook w:val="0000"/>'), DARK_HEAD, False),
        (table(look="", run=WHITE), DARK_HEAD, False),
        (table(look="", run=WHITE), table_style(part("lastRow", "", FILL)), True),
        (table(cell='<w:shd w:val="clear" w:fill="auto"/>'), DARK_HEAD, True),
        (table(), table_style(text="<w:vanish/>"), None),
        (table(place=1), table_style(part("lastCol", "<w:vanish/>")), False),
        (table(place=1, run=WHITE), table_style(part("band1Horz", "", FILL)), False),
        (
            table(place=0, look='<w:tblLook w:val="0040"/>'),
            table_style(part("firstRow", WHITE)),
            False,
        ),
        (table(), table_style(part("firstRow", "<w:vanish/>")), None),
        (table(row="<w:hidden/>"), DARK_HEAD, False),
        (table(row=EXACT.format(20, "exact"), place=1), "", None),
        (table(row=EXACT.format(20, "atLeast"), place=1), "", False),
        (table(row=EXACT.format(300, "exact"), place=1), "", False),
    ],
)
def test_table_styles_and_rows_hide_text(xml: str, styles: str, hidden: bool | None) -> None:
    """``hidden`` is None if other texts of the table are hidden as well."""
    if hidden is None:
        document = imported(xml, styles=styles)
        assert "secret" not in "".join(document.pages)
        assert document.warnings[0].code == "hidden_text"
    else:
        assert is_hidden(xml, styles=styles) is hidden


def anchored(
    place: int = 0,
    base: str = "page",
    *,
    size: int = 2_000_000,
    more: str = "",
    attributes: str = "",
    run: str = "",
) -> str:
    box = f"<w:txbxContent>{paragraph_xml(run_xml('secret', run))}</w:txbxContent>"
    return paragraph_xml(
        f"<w:r><w:drawing><wp:anchor {attributes}><wp:positionH relativeFrom='{base}'>"
        f"<wp:posOffset>{place}</wp:posOffset></wp:positionH>"
        f'<wp:extent cx="{size}" cy="{size}"/><wp:docPr id="1" name="x"/><wps:wsp '
        f'xmlns:a="{DRAWING}"><wps:spPr>{more}</wps:spPr><wps:txbx>{box}</wps:txbx></wps:wsp>'
        "</wp:anchor></w:drawing></w:r>"
    )


def vml(look: str, attributes: str = "", *, run: str = "", kind: str = "") -> str:
    box = f"<w:txbxContent>{paragraph_xml(run_xml('secret', run))}</w:txbxContent>"
    return paragraph_xml(
        f"<w:r><w:pict>{kind}<v:shape style='{look}' {attributes}><v:textbox>{box}</v:textbox>"
        "</v:shape></w:pict></w:r>"
    )


HIDDEN_TYPE = '<v:shapetype id="t" style="visibility:hidden"/>'
AT = "position:absolute;margin-left:{}pt;width:100pt;height:50pt;{}"
SOLID = '<a:solidFill><a:schemeClr val="{}"/></a:solidFill>'


@each_row(
    ("xml", "hidden"),
    [
        (anchored(), False),
        (anchored(-1_000_000), False),
        (anchored(-2_000_000), True),
        (anchored(-2_000_000, "column"), False),
        (anchored(-3_000_000, "column"), True),
        (anchored(-3_000_000, "character"), False),
        (anchored(9_000_000), True),
        (anchored(9_000_000, attributes='simplePos="1"'), False),
        (anchored(size=0), True),
        (anchored(size=0, more="<a:bodyPr><a:spAutoFit/></a:bodyPr>"), True),
        (anchored(attributes='hidden="1"'), True),
        (anchored(run=WHITE), True),
        (anchored(run=WHITE, more="<a:noFill/>"), True),
        (anchored(run=WHITE) + paragraph_xml("x", properties=FILL), False),
        (anchored(run=WHITE) + anchored(more="<a:gradFill/>").replace("secret", "x"), False),
        (anchored(run=WHITE, more=SOLID.format("lt1")), True),
        (anchored(run=WHITE, more=SOLID.format("accent1")), False),
        (anchored(run=WHITE, more="<a:gradFill/>"), False),
        (vml(AT.format(0, "")), False),
        (vml(AT.format(-5000, "")), True),
        (vml(AT.format(-150, "")), False),
        (vml(AT.format(-150, "mso-position-horizontal-relative:page")), True),
        (vml(AT.format(-5000, "mso-position-horizontal:center")), False),
        (vml("width:0;height:0"), True),
        (vml("width:90pt;height:0;mso-height-percent:200"), False),
        (vml("visibility: hidden"), True),
        (vml("DISPLAY:none"), True),
        (vml("width:9pt", "type='#t'", kind=HIDDEN_TYPE), True),
        (vml("width:9pt;visibility:visible", "type='#t'", kind=HIDDEN_TYPE), False),
        (vml("width:90pt", run=WHITE), True),
        (vml("width:90pt", "fillcolor='#4f81bd [3204]'", run=WHITE), False),
        (vml("width:90pt", "filled='f'", run=WHITE), True),
        (vml("width:90pt", "filled='f'", run=WHITE) + paragraph_xml("x", properties=FILL), False),
        (
            paragraph_xml(
                "<w:r><w:pict><v:shape style='visibility:hidden'><v:textpath string='secret'/>"
                "</v:shape></w:pict></w:r>"
            ),
            True,
        ),
        (
            vml("width:9pt")
            .replace("<v:shape", "<v:group style='visibility:hidden'><v:shape", 1)
            .replace("</v:shape>", "</v:shape></v:group>"),
            True,
        ),
        (
            paragraph_xml(
                "secret", properties='<w:framePr w:hAnchor="page" w:x="-9000" w:w="99"/>'
            ),
            True,
        ),
        (paragraph_xml("secret", properties='<w:framePr w:x="-900" w:w="4000"/>'), False),
        (paragraph_xml("secret", properties='<w:framePr w:hAnchor="page" w:x="-900"/>'), False),
        (
            paragraph_xml("secret", properties='<w:framePr w:x="-9999" w:w="9" w:xAlign="left"/>'),
            False,
        ),
        (paragraph_xml("secret", properties='<w:spacing w:line="1" w:lineRule="exact"/>'), True),
        (paragraph_xml("secret", properties='<w:spacing w:line="240" w:lineRule="exact"/>'), False),
    ],
)
def test_shapes_and_paragraphs_without_a_place_on_the_page_are_hidden(
    xml: str, hidden: bool
) -> None:
    assert is_hidden(xml, theme=THEME) is hidden


def test_a_cell_over_several_rows_is_seen_below_a_flat_row() -> None:
    tall = table(row=EXACT.format(1, "exact"), cell='<w:vMerge w:val="restart"/>')
    assert "secret" in "".join(imported(tall).pages)


BEHIND = (
    '<w:r><w:drawing><wp:anchor behindDoc="1" {}><wp:extent cx="{}" cy="{}"/></wp:anchor>'
    "</w:drawing></w:r>"
)


@each_row(
    ("picture", "hidden"),
    [
        (BEHIND.format("", 3_000_000, 3_000_000), False),
        (BEHIND.format("", 1, 1), True),
        (BEHIND.format('hidden="1"', 3_000_000, 3_000_000), True),
    ],
)
def test_white_text_can_stand_on_a_picture_that_is_seen(picture: str, hidden: bool) -> None:
    assert is_hidden(paragraph_xml(picture, run_xml("secret", WHITE))) is hidden


def field(code: str) -> str:
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    text = f"<w:r><w:instrText>{code}</w:instrText></w:r>"
    return mark("begin") + text + mark("separate") + run_xml("secret") + mark("end")


@each_row(
    ("content", "hidden"),
    [
        *((field(f" {it} x "), True) for it in ("PRIVATE", "xe", "TA", "TC", "RD", "SET", "ASK")),
        (field(" REF x "), False),
        (field(" SEQ x "), False),
        (f'<w:fldSimple w:instr=" XE x">{run_xml("secret")}</w:fldSimple>', True),
        (f'<w:fldSimple w:instr=" TITLE ">{run_xml("secret")}</w:fldSimple>', False),
        ("<m:oMath><m:r><w:rPr><w:vanish/></w:rPr><m:t>secret</m:t></m:r></m:oMath>", True),
        (f"<m:oMath><m:r><w:rPr>{WHITE}</w:rPr><m:t>secret</m:t></m:r></m:oMath>", True),
        ("<m:oMath><m:r><m:t>secret</m:t></m:r></m:oMath>", False),
        (
            '<m:oMath><m:phant><m:phantPr><m:show m:val="0"/></m:phantPr><m:e><m:r>'
            "<m:t>secret</m:t></m:r></m:e></m:phant></m:oMath>",
            True,
        ),
        (
            "<m:oMath><m:phant><m:e><m:r><m:t>secret</m:t></m:r></m:e></m:phant></m:oMath>",
            False,
        ),
        (
            f"<w:r><w:ruby><w:rt>{run_xml('secret', '<w:vanish/>')}</w:rt>"
            f"<w:rubyBase>{run_xml('base')}</w:rubyBase></w:ruby></w:r>",
            True,
        ),
    ],
)
def test_fields_and_equations_show_what_word_shows(content: str, hidden: bool) -> None:
    assert is_hidden(paragraph_xml(content)) is hidden


@each_row(
    ("indents", "more", "hidden"),
    [
        ('w:left="-31000" w:right="31000"', "", True),
        ('w:left="-31000"', "", True),
        ('w:start="-31000"', "", True),
        ('w:hanging="31000"', "", True),
        ('w:left="31000"', "", True),
        ('w:left="-31000"', '<w:jc w:val="right"/>', False),
        ('w:left="-31000" w:right="31000"', '<w:jc w:val="right"/>', True),
        ('w:left="-1440" w:right="-1440"', "", False),
        ('w:left="720" w:hanging="720"', "", False),
        ('w:left="9000"', "", False),
        ('w:left="x" w:right="99999999999"', "", False),
    ],
)
def test_indentation_can_move_text_off_the_page(indents: str, more: str, hidden: bool) -> None:
    indented = f"<w:ind {indents}/>{more}"
    own = paragraph_xml(run_xml("secret"), properties=indented)
    assert is_hidden(own) is hidden
    of_style = paragraph_xml(
        run_xml("secret"), properties='<w:pStyle w:val="Off"/><w:ind w:firstLine="0"/>'
    )
    styles = f'<w:style w:type="paragraph" w:styleId="Off"><w:pPr>{indented}</w:pPr></w:style>'
    assert is_hidden(of_style, styles=styles) is hidden
