"""The text of Word files as readers see it (contract §5)."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import paragraph_xml, run_xml, word_file
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="leave-rules")


def imported(body: str, options: ImportOptions = ORIGIN, **parts: str) -> Document:
    return import_docx(word_file(body, **parts), options)


def text_of(body: str, **parts: str) -> str:
    return "\n~~~\n".join(imported(body, ORIGIN, **parts).pages)


def mark(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def field(code: str, result: str) -> str:
    instruction = f'<w:r><w:instrText xml:space="preserve">{code}</w:instrText></w:r>'
    return mark("begin") + instruction + mark("separate") + result + mark("end")


def box(text: str) -> str:
    return f"<w:txbxContent>{paragraph_xml(text)}</w:txbxContent>"


RAISED = '<w:vertAlign w:val="superscript"/>'
WHITE = '<w:color w:val="FFFFFF"/>'
LOWERED = '<w:vertAlign w:val="subscript"/>'


@each_row(
    ("runs", "text"),
    [
        (["10", run_xml("-6", RAISED), " m"], "10^-6 m"),
        (["x", run_xml("n", RAISED), run_xml("+1", RAISED)], "x^(n+1)"),
        (["H", run_xml("2", LOWERED), "O"], "H_2O"),
        (["the 1", run_xml("st", RAISED), " day"], "the 1st day"),
        (["see the report", run_xml("1", RAISED), " today"], "see the report [1] today"),
        (
            ["le V", run_xml("e", RAISED), " tome, S", run_xml("t", RAISED), " Pol"],
            "le Ve tome, St Pol",
        ),
        (["of Ben", run_xml("3", RAISED), " 9 m", run_xml("3", RAISED)], "of Ben [3] 9 m^3"),
        (["1.03", run_xml("20", RAISED), " of 640", run_xml("2", RAISED)], "1.03^20 of 640^2"),
        (["103 units"], "103 units"),
        (["10", run_xml("3", '<w:position w:val="8"/><w:sz w:val="16"/>'), " m"], "10^3 m"),
        (["10", run_xml("3", '<w:position w:val="8"/>'), " m"], "103 m"),
    ],
)
def test_superscripts_and_subscripts(runs: list[str], text: str) -> None:
    assert text_of(paragraph_xml(*runs)) == text


@each_row(
    ("runs", "text"),
    [
        (["It costs 45", run_xml("2", RAISED), " euros"], "It costs 45 [2] euros"),
        (["It costs 4.5", run_xml("2", RAISED), " euros"], "It costs 4.5 [2] euros"),
        (["It costs 45", run_xml("3", RAISED), " euros"], "It costs 45^3 euros"),
        (["y = 45", run_xml("2", RAISED), " m"], "y = 45^2 m"),
        (["10", run_xml("2", RAISED), " m", run_xml("2", RAISED)], "10^2 m^2"),
    ],
)
def test_a_raised_number_with_a_note_in_the_text_is_its_mark(runs: list[str], text: str) -> None:
    note = paragraph_xml(run_xml("2", RAISED), " Without tax.")
    assert text_of(paragraph_xml(*runs) + note).splitlines()[0] == text


@each_row(
    ("runs", "text"),
    [
        (["Im", run_xml("port", "<w:b/>"), "ant words"], "Important words"),
        (["The ", run_xml("fee", "<w:b/>"), " is due"], "The **fee** is due"),
        (["a", run_xml(" ", "<w:b/>"), "b"], "a b"),
        ([run_xml("off", '<w:b w:val="0"/>'), " on"], "off on"),
    ],
)
def test_a_word_that_is_partly_bold_is_one_word(runs: list[str], text: str) -> None:
    assert text_of(paragraph_xml(*runs)) == text


@each_row(
    ("content", "text"),
    [
        (field(" DATE ", run_xml("3 May")), "On 3 May."),
        (field(' IF "a" ', field(" PAGE ", run_xml("yes"))), "On yes."),
        (
            '<w:fldSimple w:instr=" DOCPROPERTY Total "><w:r><w:t>5</w:t></w:r></w:fldSimple>',
            "On 5.",
        ),
        (mark("begin") + run_xml("never ended"), "On never ended."),
        (mark("end") + mark("separate") + run_xml("odd"), "On odd."),
        (
            mark("begin").replace(
                "/>",
                '><w:ffData><w:checkBox><w:default w:val="1"/></w:checkBox></w:ffData></w:fldChar>',
            )
            + mark("end"),
            "On [x].",
        ),
        (
            mark("begin").replace(
                "/>",
                '><w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="May"/>'
                '<w:listEntry w:val="June"/></w:ddList></w:ffData></w:fldChar>',
            )
            + mark("end"),
            "On June.",
        ),
    ],
)
def test_a_field_is_its_result(content: str, text: str) -> None:
    assert text_of(paragraph_xml("On ", content, ".")) == text


def test_fields_within_each_other_are_limited() -> None:
    body = paragraph_xml(mark("begin") * 51 + mark("end") * 51, "a")
    with pytest.raises(ImportFailed, match="has more than 50 fields within each other"):
        imported(body)


def test_a_link_has_its_address_unless_it_is_not_wanted() -> None:
    links = '<w:hyperlink r:id="link"><w:r><w:t>the list</w:t></w:r></w:hyperlink>'
    inside = '<w:hyperlink w:anchor="top"><w:r><w:t>above</w:t></w:r></w:hyperlink>'
    old = field(' HYPERLINK "https://example.com/b" ', run_xml("old"))
    body = paragraph_xml("See ", links, ", ", inside, " and ", old, ".")
    with_targets = "See [the list](https://example.com/a), above and [old](https://example.com/b)."
    assert text_of(body) == with_targets
    options = replace(ORIGIN, with_link_targets=False)
    assert imported(body, options).pages == ("See the list, above and old.",)


def test_tracked_insertions_are_text_and_deletions_are_not() -> None:
    inserted = f'<w:ins w:id="1">{run_xml("twenty")}</w:ins>'
    deleted = '<w:del w:id="2"><w:r><w:delText>ten</w:delText></w:r></w:del>'
    assert text_of(paragraph_xml("It has ", deleted, inserted, " days")) == "It has twenty days"


def test_a_deleted_paragraph_mark_and_a_drop_cap_join_paragraphs() -> None:
    joined = paragraph_xml("One ", properties='<w:rPr><w:del w:id="1"/></w:rPr>')
    capital = paragraph_xml("T", properties='<w:framePr w:dropCap="drop" w:lines="3"/>')
    body = joined + paragraph_xml("paragraph.") + capital + paragraph_xml("he end.")
    assert text_of(body) == "One paragraph.\n\nThe end."


def test_the_text_of_a_text_box_is_there_once() -> None:
    new = f"<w:drawing><wp:anchor><wps:txbx>{box('Boxed')}</wps:txbx></wp:anchor></w:drawing>"
    old = f"<w:pict><v:shape><v:textbox>{box('Boxed')}</v:textbox></v:shape></w:pict>"
    both = (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps">{new}</mc:Choice>'
        f"<mc:Fallback>{old}</mc:Fallback></mc:AlternateContent></w:r>"
    )
    assert text_of(paragraph_xml("Before", both)) == "Before\n\nBoxed"
    assert text_of(paragraph_xml(f"<w:r>{old}</w:r>")) == "Boxed"


WORD_2099 = "http://example.com/word/2099"
WORD_2012 = "http://schemas.microsoft.com/office/word/2012/wordml"


def choice(requires: str, text: str) -> str:
    return f'<mc:Choice Requires="{requires}">{run_xml(text)}</mc:Choice>'


def alternatives(choices: str) -> str:
    names = f'xmlns:odd="{WORD_2099}" xmlns:w15="{WORD_2012}"'
    fallback = f"<mc:Fallback>{run_xml('old')}</mc:Fallback>"
    return f"<mc:AlternateContent {names}>{choices}{fallback}</mc:AlternateContent>"


@each_row(
    ("choices", "shown"),
    [
        (choice("wps", "new"), "new"),
        (choice("wps w15", "new"), "new"),
        (choice("odd", "new"), "old"),
        (choice("wps odd", "new"), "old"),
        (choice("unbound", "new"), "old"),
        (choice("", "new"), "old"),
        (choice("odd", "newest") + choice("w15", "new") + choice("wps", "newer"), "new"),
        ('<mc:Choice Requires="wps"/>', ""),
        (f'<mc:Choice Requires="wps">{alternatives(choice("odd", "new"))}</mc:Choice>', "old"),
    ],
)
def test_only_alternatives_that_word_knows_are_read(choices: str, shown: str) -> None:
    assert text_of(paragraph_xml("Seen ", alternatives(choices))) == f"Seen {shown}".strip()


def test_a_prefix_has_the_namespace_of_its_element() -> None:
    known = f'<mc:AlternateContent xmlns:odd="{WORD_2012}">{choice("odd", "new")}'
    unknown = known.replace(WORD_2012, WORD_2099)
    body = paragraph_xml(*(f"{it}</mc:AlternateContent>" for it in (known, unknown, known)))
    assert text_of(body) == "newnew"


def test_content_controls_have_their_value() -> None:
    ticked = '<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr>'
    empty = ticked.replace('"1"', '"0"')
    shown = f"<w:sdtContent>{run_xml('☒')}</w:sdtContent></w:sdt>"
    chosen = f"<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>{run_xml('May')}"
    body = paragraph_xml(
        ticked + shown, " yes ", empty + shown, " no ", chosen + "</w:sdtContent></w:sdt>"
    )
    whole = f"<w:sdt><w:sdtContent>{paragraph_xml('All.')}</w:sdtContent></w:sdt>"
    assert text_of(body + whole) == "[x] yes [ ] no May\n\nAll."


NOTES = (
    f'<w:footnote w:id="2">{paragraph_xml("Since 2020.")}</w:footnote>'
    f'<w:footnote w:id="3">{paragraph_xml("In part.")}</w:footnote>'
)


def test_notes_are_at_the_end_of_their_section() -> None:
    def reference(number: int) -> str:
        return f'<w:r><w:footnoteReference w:id="{number}"/></w:r>'

    heading = paragraph_xml("Second", properties='<w:outlineLvl w:val="0"/>')
    last = '<w:r><w:endnoteReference w:id="2"/></w:r>'
    body = paragraph_xml("A rule", reference(2), ".") + heading
    body += paragraph_xml("More", reference(3), last)
    endnote = f'<w:endnote w:id="2">{paragraph_xml("The end.")}</w:endnote>'
    assert text_of(body, footnotes=NOTES, endnotes=endnote) == (
        "A rule [1].\n\n[1] Since 2020.\n\n# Second\n\nMore [2] [3]\n\n[2] In part.\n\n[3] The end."
    )


def test_a_note_that_refers_to_itself_is_there_once() -> None:
    itself = paragraph_xml("See", '<w:r><w:footnoteReference w:id="2"/></w:r>')
    note = f'<w:footnote w:id="2">{itself}</w:footnote>'
    assert text_of(itself, footnotes=note) == "See [1]\n\n[1] See [1]"


def test_comments_follow_their_paragraph_unless_they_are_not_wanted() -> None:
    body = paragraph_xml("Ten days", '<w:r><w:commentReference w:id="0"/></w:r>', " are enough.")
    comment = f'<w:comment w:id="0" w:author="Eva">{paragraph_xml("Why ten?")}</w:comment>'
    text = "Ten days are enough.\n\n[Comment by Eva: Why ten?]"
    assert text_of(body, comments=comment) == text
    options = replace(ORIGIN, with_notes=False)
    assert imported(body, options, comments=comment).pages == ("Ten days are enough.",)
    heading = '<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>Next</w:t></w:r></w:p>'
    rest = heading + paragraph_xml("End.")
    assert text_of(body + rest, comments=comment) == f"{text}\n\n# Next\n\nEnd."


def test_headers_and_footers_are_there_once_without_page_numbers() -> None:
    def section(first: str) -> str:
        references = "".join(
            f'<w:{kind}Reference w:type="{variant}" r:id="{name}"/>'
            for kind, variant, name in [
                ("header", "default", "header1"),
                ("header", "first", "header2"),
                ("header", "even", "header3"),
                ("footer", "default", "footer1"),
            ]
        )
        return f"<w:sectPr>{references}{first}</w:sectPr>"

    number = field(" PAGE ", run_xml("7"))
    total = '<w:fldSimple w:instr="NUMPAGES"><w:r><w:t>9</w:t></w:r></w:fldSimple>'
    body = paragraph_xml("One.", properties=section("<w:titlePg/>")) + paragraph_xml("Two.")
    text = text_of(
        body + section(""),
        header1=paragraph_xml("HR-77"),
        header2=paragraph_xml("Draft"),
        header3=paragraph_xml("Only on even pages"),
        footer1=paragraph_xml("Page ", number, " of ", total) + paragraph_xml("Acme"),
    )
    assert text == "[Header: HR-77]\n\n[Header: Draft]\n\nOne.\n\n\n~~~\nTwo.\n\n[Footer: Acme]"


def test_a_typed_note_mark_in_the_style_of_notes_is_no_exponent() -> None:
    styles = (
        '<w:style w:type="character" w:styleId="FR"><w:name w:val="footnote reference"/>'
        f"<w:rPr>{RAISED}</w:rPr></w:style>"
    )
    mark_run = run_xml("2", '<w:rStyle w:val="FR"/>')
    assert text_of(paragraph_xml("of 10 m", mark_run), styles=styles) == "of 10 m [2]"


def test_white_text_on_a_floating_shape_is_content() -> None:
    shape = '<v:rect style="position:absolute" fillcolor="#a5a5a5"/>'
    body = paragraph_xml(f"<w:r><w:pict>{shape}</w:pict></w:r>", run_xml("January", WHITE))
    assert text_of(body) == "January"


def test_special_characters() -> None:
    content = (
        "<w:r><w:t>A</w:t><w:tab/><w:t>co</w:t><w:noBreakHyphen/><w:t>op</w:t>"
        '<w:softHyphen/><w:sym w:font="Symbol" w:char="F061"/>'
        '<w:sym w:font="Wingdings" w:char="F0FE"/><w:br/><w:t>next</w:t></w:r>'
    )
    assert text_of(paragraph_xml(content)) == "A co-opα☑\nnext"
    symbols = run_xml("a", '<w:rFonts w:ascii="Symbol"/>') + run_xml("\uf0b7", "")
    assert text_of(paragraph_xml("Angle ", symbols)) == "Angle α"


FILL = '<w:shd w:val="clear" w:fill="1F3864"/>'
STYLES = (
    '<w:style w:type="character" w:styleId="Ghost"><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Small"><w:rPr><w:sz w:val="2"/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Smaller"><w:basedOn w:val="Small"/></w:style>'
    f'<w:style w:type="table" w:styleId="Dark"><w:tblStylePr w:type="firstRow"><w:tcPr>{FILL}'
    "</w:tcPr></w:tblStylePr></w:style>"
)


@each_row(
    "properties",
    [
        "<w:vanish/>",
        '<w:rStyle w:val="Ghost"/>',
        WHITE,
        '<w:color w:val="FEFEFA"/>',
        '<w:color w:val="auto" w:themeColor="background1"/>',
        '<w:sz w:val="2"/>',
        '<w:color w:val="FFFF00"/><w:highlight w:val="yellow"/>',
        f'<w:color w:val="1F3864"/>{FILL}',
    ],
)
def test_hidden_text_is_left_out_and_counted(properties: str) -> None:
    document = imported(paragraph_xml("Seen.", run_xml("secret", properties)), styles=STYLES)
    assert document.pages == ("Seen.",)
    assert [(it.code, it.message) for it in document.warnings] == [
        ("hidden_text", "6 letters of hidden text were left out")
    ]


@each_row(
    "properties",
    [
        '<w:vanish w:val="0"/>',
        WHITE + FILL,
        WHITE + '<w:shd w:val="solid" w:color="auto" w:fill="auto"/>',
        WHITE + '<w:highlight w:val="black"/>',
        '<w:color w:val="auto"/>',
        '<w:sz w:val="12"/>',
        "<w:webHidden/>",
    ],
)
def test_text_that_readers_see_is_content(properties: str) -> None:
    document = imported(paragraph_xml("Seen ", run_xml("too", properties)))
    assert (document.pages, document.warnings) == (("Seen too",), ())


def test_white_text_on_a_filled_cell_is_content() -> None:
    def table(looks: str, shade: str) -> str:
        cell = f"<w:tc><w:tcPr>{shade}</w:tcPr>{paragraph_xml(run_xml('Name', WHITE))}</w:tc>"
        return f"<w:tbl><w:tblPr>{looks}</w:tblPr><w:tr>{cell}{cell}</w:tr></w:tbl>"

    assert "Name" in text_of(table("", FILL))
    assert "Name" in text_of(table('<w:tblStyle w:val="Dark"/>', ""), styles=STYLES)
    with pytest.raises(ImportFailed, match="is empty"):
        imported(table("", ""))


def test_hidden_text_in_a_box_off_the_page_and_in_small_styles_is_left_out() -> None:
    far = "<wp:positionH><wp:posOffset>-99000000</wp:posOffset></wp:positionH>"
    drawing = (
        f"<w:drawing><wp:anchor>{far}<wps:txbx>{box('plant')}</wps:txbx></wp:anchor></w:drawing>"
    )
    small = paragraph_xml("tiny", properties='<w:pStyle w:val="Smaller"/>')
    document = imported(paragraph_xml("Seen.", f"<w:r>{drawing}</w:r>") + small, styles=STYLES)
    assert document.pages == ("Seen.",)
    assert document.warnings[0].message == "9 letters of hidden text were left out"


def test_struck_text_is_marked() -> None:
    body = paragraph_xml(
        "EUR ",
        run_xml("300", "<w:strike/>"),
        run_xml(" and "),
        run_xml("400", "<w:dstrike/>"),
        run_xml(" 250", '<w:strike w:val="0"/>'),
        properties='<w:outlineLvl w:val="0"/>',
    )
    document = imported(body)
    assert document.pages == ("# EUR ~~300~~ and ~~400~~ 250",)
    assert document.title == "EUR 300 and 400 250"


def test_capitals_by_format_are_capitals() -> None:
    assert text_of(paragraph_xml(run_xml("Annex one", "<w:caps/>"))) == "ANNEX ONE"


TAGS = re.findall(
    r"\S+",
    """
    w:p w:r w:t w:tbl w:tr w:tc w:tcPr w:sdt w:sdtContent w:ins w:del w:hyperlink w:fldSimple
    w:fldChar w:instrText w:drawing w:pict w:txbxContent w:br w:lastRenderedPageBreak w:pPr w:rPr
    w:numPr w:numId w:ilvl w:gridSpan w:vMerge w:sectPr w:footnoteReference w:commentReference
    w:ruby w:rubyBase w:rt w:sym m:oMath m:oMathPara m:r m:t m:f m:num m:nary m:d m:m m:mr m:e
    mc:AlternateContent mc:Choice mc:Fallback v:shape v:textbox wp:anchor wp:docPr w:framePr
    w:outlineLvl w:pStyle w:vertAlign w:sz w:color w:shd w:tblPr w:trPr w:tblHeader
    """,
)
VALUES = ["1", "0", "-7", "99999999999", "restart", "begin", "separate", "end", "page", "", "é"]
NAMES = ["w:val", "w:id", "w:fldCharType", "w:type", "w:instr", "w:char", "w:fill", "r:id"]
ELEMENTS = st.recursive(
    st.sampled_from(["text ", "10", "*a_b*", "&lt;b&gt;", " "]),
    lambda inner: st.builds(
        lambda tag, name, value, children: f'<{tag} {name}="{value}">{"".join(children)}</{tag}>',
        st.sampled_from(TAGS),
        st.sampled_from(NAMES),
        st.sampled_from(VALUES),
        st.lists(inner, max_size=4),
    ),
    max_leaves=40,
)


@given(st.lists(ELEMENTS, max_size=6))
def test_any_structure_is_imported(elements: list[str]) -> None:
    body = paragraph_xml("Seen.") + "".join(it for it in elements if it.startswith("<"))
    parts = {
        "footnotes": f'<w:footnote w:id="1">{body}</w:footnote>',
        "comments": f'<w:comment w:id="1">{body}</w:comment>',
        "numbering": "".join(it for it in elements if it.startswith("<")),
        "styles": "".join(it for it in elements if it.startswith("<")),
    }
    pages = imported(body, ORIGIN, **parts).pages
    assert "Seen." in "".join(pages)
    assert not any(ord(c) < 32 and c not in "\n\t" for page in pages for c in page)
