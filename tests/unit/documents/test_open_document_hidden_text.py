"""Text of OpenDocument texts: hidden text, and visible text that looks like it (contract §5)."""

from time import process_time

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.open_document import import_odt
from mcp_tools_proxy.domain.document import Document
from tests.support.hidden_text import is_secret_hidden
from tests.support.office_files import zip_of
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="rules")
OASIS = "urn:oasis:names:tc:opendocument:xmlns"
SPACES = " ".join(
    [f'xmlns:{it}="{OASIS}:{it}:1.0"' for it in ("office", "text", "table", "style", "meta")]
    + [f'xmlns:draw="{OASIS}:drawing:1.0"', f'xmlns:fo="{OASIS}:xsl-fo-compatible:1.0"']
    + ['xmlns:loext="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"']
)


def root_of(content: str) -> bytes:
    return f"<office:root {SPACES}>{content}</office:root>".encode()


def imported(body: str, styles: str = "", page_styles: str = "") -> Document:
    content = (
        f"<office:automatic-styles>{styles}</office:automatic-styles><office:body><office:text>"
        f"<text:p>Seen.</text:p>{body}</office:text></office:body>"
    )
    return import_odt(
        zip_of({"content.xml": root_of(content), "styles.xml": root_of(page_styles)}), ORIGIN
    )


def is_hidden(body: str, styles: str = "", page_styles: str = "") -> bool:
    return is_secret_hidden(imported(body, styles, page_styles))


def style(
    name: str, look: str = "", *, parent: str = "", family: str = "text", kind: str = "text"
) -> str:
    return (
        f'<style:style style:name="{name}" style:family="{family}" '
        f'style:parent-style-name="{parent}"><style:{kind}-properties {look}/></style:style>'
    )


def span(name: str) -> str:
    return f'<text:p><text:span text:style-name="{name}">secret</text:span></text:p>'


WHITE = 'fo:color="#ffffff"'


@each_row(
    ("look", "hidden"),
    [
        ('text:display="none"', True),
        ('text:display="true"', False),
        (WHITE, True),
        (f'{WHITE} fo:background-color="#4472c4"', False),
        (f'{WHITE} fo:background-color="transparent"', True),
        (f'{WHITE} style:use-window-font-color="true"', False),
        ('fo:color="#000000" fo:background-color="#000000"', True),
        ('fo:background-color="#000000"', False),
        ('fo:color="#000000" loext:opacity="0%"', True),
        ('fo:color="#000000" loext:opacity="60%"', False),
        ('fo:color="#4472c4"', False),
        ('fo:color="#a0a0a0"', False),
        ('fo:font-size="1pt"', True),
        ('fo:font-size="0.4mm"', True),
        ('fo:font-size="1%"', True),
        ('fo:font-size="6pt"', False),
        ('fo:font-size="58%"', False),
    ],
)
def test_the_style_of_letters_hides_text(look: str, hidden: bool) -> None:
    assert is_hidden(span("T"), style("T", look)) is hidden
    derived = style("A", look) + style("B", parent="A") + style("T", parent="B")
    assert is_hidden(span("T"), derived) is hidden


def paragraph(name: str, text: str = "secret") -> str:
    return f'<text:p text:style-name="{name}">{text}</text:p>'


CHAIN = "".join(style(f"C{it}", parent=f"C{it + 1}") for it in range(30))


@each_row(
    ("body", "styles", "hidden"),
    [
        (paragraph("P"), style("P", 'text:display="none"', family="paragraph"), True),
        (
            paragraph("P", '<text:span text:style-name="T">secret</text:span>'),
            style("P", 'text:display="none"', family="paragraph")
            + style("T", 'text:display="true"'),
            False,
        ),
        (span("C0"), CHAIN + style("C30", 'text:display="none"'), True),
        (span("L"), style("L", 'text:display="none"', parent="L"), True),
        (
            span("T"),
            style("T", 'text:display="none"') + style("T", family="paragraph"),
            True,
        ),
        (
            paragraph("P", '<text:span text:style-name="T">secret</text:span>'),
            style("P", 'fo:background-color="#1f3864"', family="paragraph", kind="paragraph")
            + style("T", WHITE),
            False,
        ),
    ],
)
def test_styles_of_paragraphs_and_parents_hide_text(body: str, styles: str, hidden: bool) -> None:
    assert is_hidden(body, styles) is hidden


def test_a_long_chain_of_styles_is_read_once() -> None:
    count = 20_000
    styles = "".join(style(f"C{it}", parent=f"C{it + 1}") for it in range(count))
    body = "".join(span(f"C{it}") for it in range(0, count, 20))
    start = process_time()
    imported(body, styles)
    assert process_time() - start < 20


def table(cell: str = "", row: str = "", attributes: str = "") -> str:
    inner = '<text:p><text:span text:style-name="W">secret</text:span></text:p>'
    return (
        "<table:table><table:table-row><table:table-cell><text:p>Name</text:p></table:table-cell>"
        f'</table:table-row><table:table-row table:style-name="{row}" {attributes}>'
        f'<table:table-cell table:style-name="{cell}">{inner}</table:table-cell>'
        "</table:table-row></table:table>"
    )


TABLE_STYLES = (
    style("Dark", 'fo:background-color="#1f3864"', family="table-cell", kind="table-cell")
    + style("Band", 'fo:background-color="#1f3864"', family="table-row", kind="table-row")
    + style("Flat", 'style:row-height="0.01cm"', family="table-row", kind="table-row")
    + style("Tall", 'style:row-height="1cm"', family="table-row", kind="table-row")
    + style("Open", 'style:min-row-height="0cm"', family="table-row", kind="table-row")
)
BLUE = style("W", 'fo:color="#4472c4"')


@each_row(
    ("xml", "styles", "hidden"),
    [
        (table(), style("W", WHITE), True),
        (table("Dark"), style("W", WHITE), False),
        (table(row="Band"), style("W", WHITE), False),
        (table("Dark"), style("W"), False),
        (table(), BLUE, False),
        (table(row="Flat"), BLUE, True),
        (table(row="Tall"), BLUE, False),
        (table(row="Open"), BLUE, False),
        (table(attributes='table:visibility="collapse"'), BLUE, True),
        (table(attributes='table:visibility="filter"'), BLUE, True),
        (table(attributes='table:visibility="visible"'), BLUE, False),
    ],
)
def test_cells_and_rows_hide_text(xml: str, styles: str, hidden: bool) -> None:
    assert is_hidden(xml, styles + TABLE_STYLES) is hidden


def layout(look: str) -> str:
    return f"<style:page-layout><style:page-layout-properties {look}/></style:page-layout>"


@each_row(
    ("look", "page", "hidden"),
    [
        (WHITE, layout(""), True),
        (WHITE, layout('fo:background-color="#1f3864"'), False),
        ('fo:color="#1f3864"', layout('fo:background-color="#1f3864"'), True),
        (WHITE, layout("") + layout('fo:background-color="#1f3864"'), False),
        (WHITE, layout('draw:fill="bitmap"'), False),
    ],
)
def test_text_is_seen_on_the_background_of_the_page(look: str, page: str, hidden: bool) -> None:
    assert is_hidden(span("T"), style("T", look), page) is hidden


def test_hidden_text_of_titles_notes_and_headers_is_left_out() -> None:
    hidden = '<text:span text:style-name="T">secret</text:span>'
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>"
        f"See annex.{hidden}</text:p></text:note-body></text:note>"
    )
    header = (
        "<style:master-page><style:header><text:p>HR-77"
        f"{hidden}</text:p></style:header></style:master-page>"
    )
    document = imported(
        paragraph("Title", f"Leave{hidden}") + f"<text:p>Text{note}</text:p>",
        style("T", 'text:display="none"'),
        header + style("T", 'text:display="none"'),
    )
    assert document.title == "Leave"
    assert "secret" not in "".join(document.pages)
    assert "See annex." in document.pages[0]
    assert document.warnings[0].message == "18 letters of hidden text were left out"


def test_white_text_in_a_filled_header_or_shape_is_seen() -> None:
    white = '<text:p><text:span text:style-name="W">shown</text:span></text:p>'
    band = "<style:header-footer-properties fo:background-color='#1f3864'/>"
    header = f"<style:master-page><style:header>{white}</style:header></style:master-page>"
    document = imported(
        f"<text:p><draw:custom-shape>{white}</draw:custom-shape></text:p>",
        style("W", WHITE),
        layout("") + band + header + style("W", WHITE),
    )
    assert "[Header: shown]" in document.pages[0]
    assert document.pages[0].endswith("shown")
    assert document.warnings == ()
