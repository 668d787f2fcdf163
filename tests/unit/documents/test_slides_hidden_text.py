"""Text of slides: hidden text, and visible text that looks like it (contract §5)."""

from collections.abc import Mapping

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.slides import import_slides
from mcp_tools_proxy.domain.document import Document
from tests.support.hidden_text import is_secret_hidden
from tests.support.office_files import relations_of
from tests.support.slide_shows import paragraph_xml, part_xml, pptx_of, shape_xml
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="plan")

THEME = (
    "<a:themeElements><a:clrScheme><a:dk1><a:sysClr val='windowText' lastClr='000000'/></a:dk1>"
    "<a:lt1><a:sysClr val='window' lastClr='FFFFFF'/></a:lt1><a:dk2><a:srgbClr val='1F497D'/>"
    "</a:dk2><a:lt2><a:srgbClr val='EEECE1'/></a:lt2><a:accent1><a:srgbClr val='4F81BD'/>"
    "</a:accent1></a:clrScheme><a:fmtScheme><a:fillStyleLst><a:solidFill><a:schemeClr "
    "val='phClr'/></a:solidFill><a:gradFill/></a:fillStyleLst><a:bgFillStyleLst><a:solidFill>"
    "<a:schemeClr val='phClr'/></a:solidFill><a:gradFill/></a:bgFillStyleLst></a:fmtScheme>"
    "</a:themeElements>"
)
LIGHT = '<p:clrMap bg1="lt1" tx1="dk1" bg2="lt2" tx2="dk2" accent1="accent1"/>'
DARK = '<p:clrMap bg1="dk1" tx1="lt1" bg2="dk2" tx2="lt2" accent1="accent1"/>'


def tree(shapes: str = "", background: str = "") -> str:
    ground = f"<p:bg>{background}</p:bg>" if background else ""
    return f"<p:cSld>{ground}<p:spTree>{shapes}</p:spTree></p:cSld>"


def show_of(
    xml: str, *, master: str = "", names: str = LIGHT, layout: str = "", more: str = ""
) -> Document:
    """Import a slide with a layout (``layout`` is its content) and a master."""
    parts: Mapping[str, bytes] = {
        "ppt/layout.xml": part_xml("p:sldLayout", layout or tree()),
        "ppt/_rels/layout.xml.rels": relations_of(("slideMaster", "master.xml")),
        "ppt/master.xml": part_xml("p:sldMaster", (master or tree()) + names + more),
        "ppt/_rels/master.xml.rels": relations_of(("theme", "theme.xml")),
        "ppt/theme.xml": part_xml("a:theme", THEME),
    }
    seen = shape_xml(paragraph_xml("Seen.", run=text_run(scheme("accent1"))), top=4000)
    related = {1: [("slideLayout", "../layout.xml")]}
    return import_slides(pptx_of(seen + xml, related=related, parts=parts), ORIGIN)


def scheme(name: str, change: str = "") -> str:
    return f'<a:solidFill><a:schemeClr val="{name}">{change}</a:schemeClr></a:solidFill>'


def rgb(value: str, change: str = "") -> str:
    return f'<a:solidFill><a:srgbClr val="{value}">{change}</a:srgbClr></a:solidFill>'


def text_run(content: str = "", attributes: str = "") -> str:
    return f"<a:rPr {attributes}>{content}</a:rPr>"


def text(
    run: str = "",
    *,
    fill: str = "",
    top: int = 0,
    left: int = 0,
    kind: str = "",
    list_style: str = "",
) -> str:
    return shape_xml(
        list_style, paragraph_xml("secret", run=run), top=top, left=left, kind=kind, more=fill
    )


HIGHLIGHT = '<a:highlight><a:srgbClr val="000000"/></a:highlight>'


@each_row(
    ("run", "fill", "hidden"),
    [
        (text_run(scheme("bg1")), "", True),
        (text_run(scheme("lt1")), "", True),
        (text_run(scheme("tx1")), "", False),
        (text_run(scheme("accent1")), "", False),
        (text_run(scheme("bg1", '<a:lumMod val="85000"/>')), "", False),
        (text_run(scheme("tx1", '<a:lumOff val="100000"/>')), "", True),
        (text_run(scheme("tx1", '<a:tint val="0"/>')), "", True),
        (text_run(scheme("bg1", '<a:shade val="50000"/>')), "", False),
        (text_run(rgb("000000", '<a:alpha val="0"/>')), "", True),
        (text_run(rgb("000000", '<a:alpha val="50000"/>')), "", False),
        (text_run("<a:noFill/>"), "", True),
        (text_run(f'<a:ln w="9525">{rgb("000000")}</a:ln><a:noFill/>'), "", False),
        (text_run(f'<a:ln w="9525">{rgb("FFFFFF")}</a:ln>{scheme("bg1")}'), "", True),
        (text_run("<a:solidFill><a:sysClr val='window'/></a:solidFill>"), "", True),
        (text_run("<a:solidFill><a:prstClr val='white'/></a:solidFill>"), "", True),
        (text_run("<a:solidFill><a:prstClr val='dkBlue'/></a:solidFill>"), "", False),
        (
            text_run('<a:solidFill><a:scrgbClr r="100000" g="100000" b="100%"/></a:solidFill>'),
            "",
            True,
        ),
        (text_run('<a:solidFill><a:hslClr hue="0" sat="0" lum="100%"/></a:solidFill>'), "", True),
        (
            text_run(
                "<a:gradFill><a:gsLst><a:gs pos='0'><a:srgbClr val='FFFFFF'/></a:gs>"
                "<a:gs pos='100000'><a:srgbClr val='FDFDFD'/></a:gs></a:gsLst></a:gradFill>"
            ),
            "",
            True,
        ),
        (text_run(scheme("bg1")), scheme("tx1"), False),
        (text_run(scheme("bg1")), scheme("accent1"), False),
        (text_run(scheme("bg1")), scheme("bg1"), True),
        (text_run(scheme("bg1")), "<a:blipFill/>", False),
        (text_run(scheme("accent1")), scheme("accent1"), True),
        ("", scheme("tx1"), True),
        (text_run('<a:highlight><a:srgbClr val="000000"/></a:highlight>'), "", True),
        (
            text_run(f'{scheme("bg1")}<a:highlight><a:srgbClr val="000000"/></a:highlight>'),
            "",
            False,
        ),
        (text_run('<a:hlinkClick r:id="x"/>' + scheme("bg1")), "", False),
        (text_run(attributes='sz="100"'), "", True),
        (text_run(attributes='sz="800"'), "", False),
    ],
)
def test_colours_and_sizes_hide_text(run: str, fill: str, hidden: bool) -> None:
    assert is_secret_hidden(show_of(text(run, fill=fill))) is hidden


WHITE = text_run(scheme("bg1"))
BLACK = text_run(rgb("000000"))
GROUND = "<p:bgPr>{}</p:bgPr>".format
STYLED = '<p:bgRef idx="{}"><a:schemeClr val="{}"/></p:bgRef>'.format


@each_row(
    ("run", "document", "hidden"),
    [
        (WHITE, {"master": tree(background=GROUND(rgb("102040")))}, False),
        (BLACK, {"master": tree(background=GROUND(rgb("000000")))}, True),
        (WHITE, {"master": tree(background=STYLED(1001, "bg1"))}, True),
        (WHITE, {"master": tree(background=STYLED(1001, "tx2"))}, False),
        (WHITE, {"master": tree(background=STYLED(1002, "bg1"))}, False),
        (WHITE, {"names": DARK, "master": tree(background=STYLED(1001, "bg1"))}, True),
        (BLACK, {"names": DARK, "master": tree(background=STYLED(1001, "bg1"))}, True),
        ("", {"names": DARK, "master": tree(background=STYLED(1001, "bg1"))}, False),
        (WHITE, {"layout": tree(background=GROUND(scheme("tx2")))}, False),
    ],
)
def test_the_background_is_that_of_the_slide_its_layout_or_master(
    run: str, document: Mapping[str, str], hidden: bool
) -> None:
    assert is_secret_hidden(show_of(text(run), **document)) is hidden


LEVEL = f"<a:lvl1pPr><a:defRPr>{scheme('bg1')}</a:defRPr></a:lvl1pPr>"
TITLE = '<p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr>{}</p:sp>'
FILLED = f"<p:spPr>{scheme('accent1')}</p:spPr>"


@each_row(
    ("xml", "document", "hidden"),
    [
        (text(list_style=f"<a:lstStyle>{LEVEL}</a:lstStyle>"), {}, True),
        (text(BLACK, list_style=f"<a:lstStyle>{LEVEL}</a:lstStyle>"), {}, False),
        (text(kind="title"), {}, False),
        (text(WHITE, kind="title"), {}, True),
        (text(text_run(attributes='sz="100"'), kind="title"), {}, True),
        (
            text(kind="title"),
            {"more": f"<p:txStyles><p:titleStyle>{LEVEL}</p:titleStyle></p:txStyles>"},
            True,
        ),
        (
            text(kind="body"),
            {"more": f"<p:txStyles><p:titleStyle>{LEVEL}</p:titleStyle></p:txStyles>"},
            False,
        ),
        (text(WHITE, kind="title"), {"layout": tree(TITLE.format(FILLED))}, False),
        (
            text(kind="title"),
            {
                "master": tree(
                    TITLE.format(f"<p:txBody><a:lstStyle>{LEVEL}</a:lstStyle></p:txBody>")
                )
            },
            True,
        ),
        (
            text(list_style='<a:bodyPr><a:normAutofit fontScale="1000"/></a:bodyPr>'),
            {},
            True,
        ),
        (
            text(list_style='<a:bodyPr><a:normAutofit fontScale="62500"/></a:bodyPr>'),
            {},
            False,
        ),
    ],
)
def test_layouts_and_masters_give_text_its_look(
    xml: str, document: Mapping[str, str], hidden: bool
) -> None:
    assert is_secret_hidden(show_of(xml, **document)) is hidden


def block(fill: str, *, place: str = "", form: str = '<a:prstGeom prst="rect"/>') -> str:
    """Return a filled shape over the whole slide, or at a place."""
    where = place or '<a:off x="0" y="0"/><a:ext cx="10000" cy="3000"/>'
    return (
        '<p:sp><p:nvSpPr><p:cNvPr id="3" name="b"/></p:nvSpPr><p:spPr>'
        f"<a:xfrm>{where}</a:xfrm>{form}{fill}</p:spPr></p:sp>"
    )


TINY = '<a:off x="100" y="50"/><a:ext cx="1" cy="1"/>'
TURNED = '<a:xfrm rot="5400000"><a:off x="-960" y="1000"/>'


@each_row(
    ("xml", "hidden"),
    [
        (block(scheme("bg1")) + text(WHITE), True),
        (block(scheme("accent1")) + text(WHITE), False),
        (block("<a:gradFill/>") + text(WHITE), False),
        (block(scheme("tx1"), place=TINY) + text(WHITE), True),
        (text() + block(scheme("bg1")), True),
        (text() + block(scheme("bg1", '<a:alpha val="30000"/>')), False),
        (text() + block(scheme("bg1"), form='<a:prstGeom prst="ellipse"/>'), False),
        (text() + block("<a:noFill/>"), False),
        (text(left=-990), True),
        (text(left=-500), False),
        (text().replace('<a:xfrm><a:off x="0" y="0"/>', TURNED), True),
        (text().replace('<a:xfrm><a:off x="0" y="0"/>', TURNED.replace("5400000", "0")), True),
        (
            '<p:grpSp><p:nvGrpSpPr><p:cNvPr id="4" name="g" hidden="1"/></p:nvGrpSpPr>'
            f"<p:grpSpPr/>{text()}</p:grpSp>",
            True,
        ),
    ],
)
def test_other_shapes_and_the_edge_of_the_slide_hide_text(xml: str, hidden: bool) -> None:
    assert is_secret_hidden(show_of(xml)) is hidden


def table(run: str, cell: str = "", style: str = "") -> str:
    body = f"<a:txBody>{paragraph_xml('secret', run=run)}</a:txBody>"
    name = f"<a:tblPr><a:tableStyleId>{style}</a:tableStyleId></a:tblPr>"
    return (
        f"<p:graphicFrame><a:graphic><a:tbl>{name}<a:tr><a:tc>{body}<a:tcPr>{cell}</a:tcPr></a:tc>"
        "</a:tr></a:tbl></a:graphic></p:graphicFrame>"
    )


@each_row(
    ("xml", "hidden"),
    [
        (table(WHITE), True),
        (table(WHITE, scheme("accent1")), False),
        (table(WHITE, scheme("bg1"), "{5C22544A-7EE6-4342-B048-85BDC9FD1C3A}"), True),
        (table(WHITE, style="{5C22544A-7EE6-4342-B048-85BDC9FD1C3A}"), False),
        (table(WHITE, style="{2D5ABB26-0587-4C30-8999-92F81FD0307C}"), True),
        (table(""), False),
    ],
)
def test_text_of_a_table_is_seen_on_the_fill_of_its_cell(xml: str, hidden: bool) -> None:
    assert is_secret_hidden(show_of(xml)) is hidden


def test_a_title_keeps_the_words_that_are_seen() -> None:
    run = f"<a:r>{WHITE}<a:t> secret</a:t></a:r><a:br/><a:r><a:t>plan</a:t></a:r>"
    title = shape_xml(f"<a:p><a:r><a:t>Our</a:t></a:r>{run}</a:p>", kind="title")
    document = show_of(title)
    assert document.title == "Our plan"
    assert is_secret_hidden(document)
