"""The text of web pages as readers see it: tables, lists, scripts, formulas, forms, hidden text."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.html import html_to_markdown, import_html
from mcp_tools_proxy.documents.quotable_document import QuotableDocument
from tests.support.tables import each_row

FILES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, without content of others."""

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="page")


def markdown(html: str) -> str:
    return html_to_markdown(html, with_link_targets=True).markdown


def lines(html: str) -> list[str]:
    return markdown(html).split("\n")


def test_implied_end_tags_are_read_as_in_browsers() -> None:
    document = import_html((FILES / "04-implied-end-tags.html").read_bytes(), ORIGIN)
    assert document.pages == (
        "# Fees\n\n| Class | Fee |\n| --- | --- |\n| A | 10 |\n| B | 20 |\n\n1. Open\n2. Close",
    )


def test_text_has_as_little_markup_as_possible() -> None:
    document = import_html((FILES / "05-markup-in-quotes.html").read_bytes(), ORIGIN)
    assert document.pages[0].endswith(
        "The fee is **five euros** for each late return, see [the list](https://example.com/list);"
        " set max_text_bytes first."
    )


@each_row(
    ("html", "text"),
    [
        ("<p>EUR <del>300</del> <ins>250</ins>", "EUR ~~300~~ 250"),
        ("<p>1<s>00</s>0 <strike>a <b>b</b></strike>", "1~~00~~0 ~~a **b**~~"),
        ("<h2>New <del>old</del></h2>", "## New ~~old~~"),
        ("<del><p>a<p>b</del>", "~~a~~\n\n~~b~~"),
        (
            '<p style="text-decoration: line-through">a <a href="https://e.org">b</a>',
            "~~a [b](https://e.org)~~",
        ),
        (
            "<style>.x { text-decoration-line: line-through }</style><ul><li class=x>a<li>b</ul>",
            "- ~~a~~\n- b",
        ),
        ("<p><s>~a~</s> and ~~b~~", "~~\\~a\\~~~ and \\~\\~b\\~\\~"),
    ],
)
def test_struck_text_is_marked(html: str, text: str) -> None:
    assert markdown(html) == text


def test_cells_of_a_struck_row_are_marked_and_the_text_after_the_table_is_not() -> None:
    row = '<tr style="text-decoration:line-through"><td>1<td>2'
    html = f"<table><tr><th>A<th>B{row}</table><p>After"
    assert lines(html) == ["| A | B |", "| --- | --- |", "| ~~1~~ | ~~2~~ |", "", "After"]


def test_struck_text_is_found_without_its_marks() -> None:
    document = import_html(b"<h1>Fee <s>list</s></h1><p>EUR <s>300</s> 250", ORIGIN)
    assert document.title == "Fee list"
    for quote in ("EUR 300 250", "EUR ~~300~~ 250"):
        assert QuotableDocument(document).find(quote)


def test_hidden_text_of_the_sample_is_left_out_and_counted() -> None:
    document = import_html((FILES / "21-hidden.html").read_bytes(), ORIGIN)
    assert document.pages == ("Seen.",)
    assert [(warning.code, warning.message) for warning in document.warnings] == [
        ("hidden_text", "48 letters of hidden text were left out")
    ]


@each_row(
    ("html", "text"),
    [
        ("5 x 10<sup>3</sup> m<sup>2</sup>", "5 x 10^3 m^2"),
        ("H<sub>2</sub>O, x<sub>n+1</sub>", "H_2O, x_(n+1)"),
        ("10<sup>-6</sup> and x<sup>n+1</sup>", "10^-6 and x^(n+1)"),
        ("x<sub>i</sub><sup>2</sup>", "x_i^2"),
        ("x<sup>a<sub>i</sub></sup>", "x^(a_i)"),
        ("the 1<sup>st</sup>, 2<sup>e</sup>, n<sup>o</sup> 5", "the 1st, 2e, no 5"),
        ("M<sup>me</sup> Roy, Acme<sup>TM</sup>", "Mme Roy, AcmeTM"),
        ("a rule<sup>1</sup> here", "a rule [1] here"),
        ("a day<sup>1</sup>, 5 kg m<sup>1</sup>", "a day [1], 5 kg m^1"),
        ('as shown<sup><a href="#n12">12</a></sup>.', "as shown [12]."),
        ('so<a href="#fn1" id="fnref1"><sup>1</sup></a>', "so [1]"),
        ('so<sup class="reference"><a href="#cite">[3]</a></sup>', "so [3]"),
        ("<sup>14</sup>C and 10² stay", "^14C and 10² stay"),
        ("<p><sup>1</sup> See the list.", "[1] See the list."),
        ("<p><sup>1</sup>See the list.", "[1] See the list."),
        ("<p>It ended.<sup>4</sup></p>", "It ended. [4]"),
        ("Item<sup>?</sup> Acme<sup>®</sup> Na<sup>+</sup>", "Item? Acme® Na^+"),
        ("l'an X<sup>e</sup>, Louis II<sup>d</sup>, XIX<sup>e</sup>", "l'an Xe, Louis IId, XIXe"),
        ("D<sup>r</sup> Li, S<sup>te</sup> Anne, C<sup>ie</sup>", "Dr Li, Ste Anne, Cie"),
        (
            "9<sup>no</sup>, 3<sup>de</sup>, 12<sup>bis</sup>, 4.<sup>a</sup>",
            "9no, 3de, 12bis, 4.a",
        ),
        ("y<sup>e</sup>, V<sup>3</sup>, C<sup>t</sup>, R<sup>d</sup>", "y^e, V^3, C^t, R^d"),
        (
            "the fee<sup>2</sup>, Eve<sup>3,4</sup> and so<sup>5–7</sup>",
            "the fee [2], Eve [3,4] and so [5–7]",
        ),
        ("in 1998<sup>2</sup> (as said)<sup>3</sup>", "in 1998 [2] (as said) [3]"),
        ("KL<sup>2</sup> + LM<sup>2</sup> = KM<sup>2</sup>", "KL^2 + LM^2 = KM^2"),
        ("2<sup>3</sup>/<sub>8</sub> inch, <sup>5</sup>⁄<sub>6</sub>", "2 3/8 inch, 5⁄6"),
        ("<i>v</i><sup>2</sup>/<i>r</i>, 8 m<sup>2</sup>/s", "v^2/*r*, 8 m^2/s"),
        ("7 м<sup>2</sup>, 3 Kilometer<sup>2</sup>", "7 м^2, 3 Kilometer^2"),
        ("y'<sup>2</sup>, 40 米<sup>2</sup>, 规定<sup>2</sup>", "y'^2, 40 米^2, 规定 [2]"),
        ("PO<sub>4</sub><sup>3-</sup>", "PO_4^(3-)"),
        ('9<span style="font-size:60%;vertical-align:super">4</span> m', "9^4 m"),
        ("<style>i{vertical-align:sub}</style>N<i>2</i>O", "N_2O"),
        (
            "1.04<sup>12</sup>, 0.3<sup>4</sup> or 250<sup>3</sup> blocks",
            "1.04^12, 0.3^4 or 250^3 blocks",
        ),
        ("line 17<sup>a</sup>, 4.8<sup>a</sup>, 31<sup>b</sup>", "line 17 [a], 4.8 [a], 31 [b]"),
        ("la 7<sup>a</sup>, a 3<sup>a</sup> lista, 10<sup>b</sup>", "la 7a, a 3a lista, 10^b"),
        (
            "<p>It is 2.5<sup>1</sup> of 400<sup>2</sup>.<p>A<br><small><sup>1</sup> Net.</small>",
            "It is 2.5 [1] of 400^2.\n\nA\n[1] Net.",
        ),
        (
            "<p>It is 2.5<sup>2</sup>.</p><h4>Endnotes</h4><ol><li>Net<li>Gross</ol>",
            "It is 2.5 [2].\n\n#### Endnotes\n\n1. Net\n2. Gross",
        ),
        (
            "<p>Note the steps for 2.5<sup>2</sup>:</p><ol><li>Mix<li>Boil</ol>",
            "Note the steps for 2.5^2:\n\n1. Mix\n2. Boil",
        ),
        (
            "<p>We paid 30<sup>1</sup> euros, 10<sup>1</sup>.<p><sup>1</sup> Net.",
            "We paid 30 [1] euros, 10^1.\n\n[1] Net.",
        ),
    ],
)
def test_superscripts_are_exponents_ordinals_or_notes(html: str, text: str) -> None:
    assert markdown(html) == text


@each_row(
    ("html", "text"),
    [
        ("par<b>tly</b> <i>c</i>ut", "partly cut"),
        ("<b>Note:</b> a <em>word</em>, <b> bold </b>.", "**Note:** a *word*, **bold** ."),
        ("<b>Note:</b>text", "Note:text"),
        ("<b><strong>x</strong></b>", "**x**"),
        ("<u>set</u> <code>a_b</code>, <code>c</code>s", "set `a_b`, cs"),
        ("max_text_bytes, a * b, __init__, *a*", r"max_text_bytes, a * b, \_\_init\_\_, \*a\*"),
        ("1 &lt; 2, &lt;b&gt;", r"1 < 2, \<b>"),
        ("a&nbsp;b&shy;c<wbr>d", "a bcd"),
        ("<q>so</q>", "“so”"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"),
        ("<p># no<br>=====<br>&gt; 5 mg", "\\# no\n\\=====\n\\> 5 mg"),
        ("<p>a <br> &nbsp; b</p><hr>", "a\nb\n\n---"),
    ],
)
def test_marks_are_written_only_where_they_are_read(html: str, text: str) -> None:
    assert markdown(html) == text


@each_row(
    ("html", "table"),
    [
        (
            "<tr><th>a<th>b<tr><td><ol><li>x<li hidden>y<li>z</ol><td><ul><li>c</ul>",
            ["| a | b |", "| 1. x 3. z | c |"],
        ),
        (
            "<tr><th>Region<th>Year<th>Sales<tr><td rowspan=2>North<td>2025<td>10"
            "<tr><td>2026<td>20",
            ["| Region | Year | Sales |", "| North | 2025 | 10 |", "| North | 2026 | 20 |"],
        ),
        (
            "<thead><tr><th rowspan=2>Region<th colspan=2>Sales<tr><th>2025<th>2026"
            "<tbody><tr><td>North<td>1<td>2",
            ["| Region | Sales 2025 | Sales 2026 |", "| North | 1 | 2 |"],
        ),
        (
            "<tr><td>a<td>b<tr><td colspan=2>both<tr><td>c",
            ["| a | b |", "| both | both |", "| c |  |"],
        ),
        (
            "<tr><th>Born<td>1950<tr><th>Died<td>2000",
            ["|  |  |", "| Born | 1950 |", "| Died | 2000 |"],
        ),
        (
            "<tfoot><tr><td>sum<td>3</tfoot><tr><th>k<th>v<tr><td>x|y<td>3",
            ["| k | v |", "| x\\|y | 3 |", "| sum | 3 |"],
        ),
        (
            "<tr><th>k<th>v<tr><td>a<td><p>one<p>two<ul><li>x</ul><h3>three</h3>",
            ["| k | v |", "| a | one two x three |"],
        ),
        (
            "<tr><th>k<th>v<tr><td><ul><li>a<li>b</ul>end<td><ul><li>x<ul><li>y<li>z</ul></ul>",
            ["| k | v |", "| - a - b end | x - y - z |"],
        ),
        (
            "<tr><th>k<th>v<tr><td>a<td><table><tr><td>1<td>2<tr><td>3<td>4</table>",
            ["| k | v |", "| a | 1, 2; 3, 4 |"],
        ),
        (
            "<tr><td rowspan=0>a<td>b<tr><td>c<tr hidden><td>d",
            ["| a | b |", "| a | c |"],
        ),
    ],
    ids=[
        "lists",
        "rows",
        "header",
        "columns",
        "names",
        "foot",
        "blocks",
        "items",
        "nested",
        "all rows",
    ],
)
def test_columns_of_tables_never_shift(html: str, table: list[str]) -> None:
    found = lines(f"<table>{html}</table>")
    assert [line for line in found if set(line) - set("| -") or line == "|  |  |"] == table


def test_captions_and_titles_are_above_the_table() -> None:
    html = (
        "<table><caption>Fees</caption><tr><th colspan=2>2027<tr><th>k<th>v<tr><td>a<td>1</table>"
    )
    assert lines(html) == ["Fees 2027", "", "| k | v |", "| --- | --- |", "| a | 1 |"]


def test_each_page_of_a_large_table_has_the_column_names() -> None:
    rows = "".join(f"<tr><td>bolt {number}<td>{'steel ' * 20}" for number in range(300))
    page = f"<h1>Parts</h1><p>All parts.</p><table><tr><th>part<th>note{rows}</table>"
    pages = import_html(page.encode(), ORIGIN).pages
    assert len(pages) > 4
    for text in pages[1:]:
        assert text.startswith("| part | note |\n| --- | --- |\n| bolt ")


@each_row(
    "html",
    [
        "<table role=presentation><tr><td><h2>Rail</h2>text<td>more</table>",
        "<table><tr><td><h2>Rail</h2>text<p>more</table>",
        "<table><tr><td><h2>Rail</h2><td>text<p>more</table>",
    ],
)
def test_tables_that_arrange_a_page_are_text(html: str) -> None:
    assert markdown(html) == "## Rail\n\ntext\n\nmore"


@each_row(
    ("html", "text"),
    [
        ("<ul><li>a<ul><li>b<li>c</ul><li>d</ul>", "- a\n  - b\n  - c\n- d"),
        ("<ol start=3><li>a<li value=7>b<li>c</ol>", "3. a\n7. b\n8. c"),
        ("<ol reversed><li>a<li>b</ol>", "2. a\n1. b"),
        ("<ol type=a><li>x<li>y</ol><ol type=I><li>z</ol>", "a. x\nb. y\n\nI. z"),
        ("<ul><li>a<p>b</p></ul><p>c", "- a\n\n  b\n\nc"),
        ("<ol><li><ul><li>a</ul></ol>", "1. - a"),
        (
            "<dl><dt>Rail<dd>Second class<dt>Air<dd>Never</dl>",
            "Rail\n: Second class\n\nAir\n: Never",
        ),
        ("<blockquote><p>a<p>b</blockquote>c", "> a\n>\n> b\n\nc"),
        ("<pre>a\n  b ```</pre>", "````\na\n  b ```\n````"),
        ("<h2><div>Rail</div> <b>rules</b><a class=x href='#r'>¶</a></h2>", "## Rail rules"),
        (
            "<h2><a href=x><img alt=Passed src=i></a> Pump</h2>Text",
            "## Pump\n\n[Passed](x)\n\nText",
        ),
        ("<h1><img alt='City of Bern' src=i></h1>Text", "# City of Bern\n\nText"),
        ("<h1><img alt=Logo src=i></h1><h1>Pumps</h1>", "Logo\n\n# Pumps"),
        ("<h2>The <img class=tex alt=x^2 src=i> rule</h2>", "## The x^2 rule"),
        (
            "<figure><img alt='A map' src=m><figcaption>Fig. 1</figcaption></figure>",
            "A map\n\nFig. 1",
        ),
        ("<details><summary>More</summary>Closed</details>", "More\n\nClosed"),
    ],
)
def test_blocks_are_written_as_markdown(html: str, text: str) -> None:
    assert markdown(html) == text


@each_row(
    ("html", "text"),
    [
        ("<label>Name <input value=Ann></label>", "Name Ann"),
        ("<input type=checkbox checked> Yes <input type=radio> No", "[x] Yes [ ] No"),
        ("<select><option>a<option selected>b</select>", "a, [x] b"),
        ("<select><optgroup label=g><option>a<option>b</select>", "a, b"),
        ("<textarea>two\nlines</textarea>", "two lines"),
        ("<input type=hidden value=x><input type=password value=x>text", "text"),
        ("a<button>b</button>c", "a b c"),
    ],
)
def test_forms_have_their_values(html: str, text: str) -> None:
    assert markdown(html) == text


MATH = (
    "<math><semantics><mi>E</mi>"
    '<annotation encoding="application/x-tex">E=mc^2</annotation></semantics></math>'
)


@each_row(
    ("html", "text"),
    [
        (MATH, "$E=mc^2$"),
        (
            f"<span class=katex><span class=katex-mathml>{MATH}</span>"
            "<span class=katex-html aria-hidden=true>E=mc2</span></span>",
            "$E=mc^2$",
        ),
        (
            '<span class=mwe-math-element><span style="display:none">'
            '<math alttext="{\\displaystyle E=mc^2}">'
            '<mi>E</mi></math></span><img alt="E=mc^2" src=x></span>',
            "$E=mc^2$",
        ),
        (
            "<span class=MathJax_Preview>E=mc2</span><span class=MathJax>E=mc2</span>"
            '<script type="math/tex">E=mc^2</script>',
            "$E=mc^2$",
        ),
        (
            "<mjx-container><svg><text>E</text></svg><mjx-assistive-mml><math><mi>E</mi></math>"
            "</mjx-assistive-mml></mjx-container>",
            "$E$",
        ),
        (
            "<math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac><mo>=</mo>"
            "<msup><mi>x</mi><mn>2</mn></msup></math>",
            "$a/(b + 1) = x^2$",
        ),
    ],
    ids=["mathml", "katex", "wikipedia", "mathjax 2", "mathjax 3", "without tex"],
)
def test_a_formula_is_read_once(html: str, text: str) -> None:
    assert markdown(f"<p>{html}") == text


HIDDEN = [
    "<p hidden>x",
    "<p style='display: none !important'>x",
    "<p style='display:none!important;display:block'>x",
    "<p style='display:none;display:foo'>x",
    "<p style='visibility:hidden'>x",
    "<p style='opacity:0'>x",
    "<p style='opacity:0.01'>x",
    "<p style='d\\69splay:none'>x",
    "<p style='display:n\\one'>x",
    "<p style='display:/**/none'>x",
    "<p style='transform:scale(0)'>x",
    "<p style='font:0/0 a'>x",
    "<p style='font-size:0'>x",
    "<p style='font-size:1px'>x",
    "<p style='position:absolute;left:-9999px'>x",
    "<p style='position:fixed;top:-200em'>x",
    "<p style='text-indent:-9999px'>x",
    "<p style='position:absolute;clip:rect(0 0 0 0)'>x",
    "<p style='height:0;overflow:hidden'>x",
    "<p style='color:#fff'>x",
    "<p style='color:#fefefe'>x",
    "<p style='color:rgb(255 255 255 / 100%)'>x",
    "<p style='color:transparent'>x",
    "<p style='color:rgba(0,0,0,0)'>x",
    "<font color=white>x</font>",
    "<div style='background:#000'><p style='color:black'>x</div>",
    "<style>body{background:black} div{color:white}</style><p style='color:#000'>x",
    "<table bgcolor=black><tr><td style='color:#000'>x<td style='color:#000'>x</table>",
    "<style>.a{display:none}</style><p class='b a'>x",
    "<style>p.a, #b > i {color: white}</style><p id=b><i>x</i>",
    "<style>@media screen and (min-width:1px){p{display:none}}</style><p>x",
    "<style>p{display:none} .a{display:block}</style><p>x",
    "<template><p>x</p></template>",
    "<noscript>x</noscript>",
    "<dialog>x</dialog>",
    "<ul hidden><li>x</ul>",
    "<p hidden style='display:revert'>x",
    "<p hidden=until-found style='display:block'>x",
    "<style>:root{--no: none} p{display: var(--no)}</style><p>x",
    "<div style='--ink:#fff;--a:var(--ink)'><p style='color:var(--a)'>x</div>",
    "<p style='color:var(--unknown, white)'>x",
    "<style>.a{color:red; .b{display:none}}</style><div class=a><p class=b>x</div>",
    "<style>.a{&.b{display:none}; color:red}</style><p class='a b'>x",
    "<style>.a{@media screen{display:none}}</style><p class=a>x",
    "<p style='-webkit-text-fill-color:white'>x",
    "<div style='-webkit-text-fill-color:transparent'><p style='color:red'>x</div>",
    "<p style='filter:blur(2px) opacity(0%)'>x",
    "<div style='opacity:.2'><p style='opacity:.2'>x</div>",
    "<p style='opacity:1%'>x",
    "<p style='scale:0'>x",
    "<p style='transform:rotate(1deg) scaleX(.01)'>x",
    "<p style='transform:matrix(0,0,0,0,1,1)'>x",
    "<p style='transform:rotateY(90deg)'>x",
    "<p style='zoom:0.01'>x",
    "<p style='transform:translateX(-9999px)'>x",
    "<p style='translate:0 -200vh'>x",
    "<p style='position:absolute;inset:0 auto auto -9999px'>x",
    "<p style='position:absolute;left:calc(-1 * 9999px)'>x",
    "<p style='margin-left:calc(-100vw - 50px)'>x",
    "<p style='content-visibility:hidden'>x",
    "<p style='clip-path:circle(0)'>x",
    "<p style='clip-path:polygon(0 0, 0 0, 0 0)'>x",
    "<p style='clip-path:inset(75%)'>x",
    "<p style='mask:linear-gradient(transparent, rgba(0,0,0,0))'>x",
    "<p style='color:color-mix(in srgb, white 98%, black)'>x",
    "<p style='color:hsl(0deg 0% 100%)'>x",
    "<p style='color:hwb(120 100% 0%)'>x",
    "<p style='color:oklch(100% 0 0)'>x",
    "<p style='color:lab(99 0 0)'>x",
    "<p style='color:color(srgb 1 1 1)'>x",
    "<p style='color:oklch(50% 0.2 30 / 0)'>x",
    "<p style='color:light-dark(white, black)'>x",
    "<p style='color:canvas'>x",
    "<p style='background:black;color:rgb(0 0 0 / 1%)'>x",
    "<style media=screen>p{display:none}</style><p>x",
    "<style>@media not print{p{display:none}}</style><p>x",
    "<style>@media print, (min-width:40em){p{display:none}}</style><p>x",
    "<style>p{height:0;overflow:hidden}</style><p>x",
]

VISIBLE = [
    "<p aria-hidden=true>x",
    "<p hidden style='display:block'>x",
    "<style>p{display:flex}</style><p hidden>x",
    "<details>x</details>",
    "<dialog open>x</dialog>",
    "<div style='background:navy'><p style='color:#fff'>x</div>",
    "<div style='background:url(a.png)'><p style='color:#fff'>x</div>",
    "<div style='background:linear-gradient(red,blue)'><p style='color:white'>x</div>",
    "<div style='background:var(--fill)'><p style='color:white'>x</div>",
    "<link rel=stylesheet href=a.css><p style='color:white'>x",
    "<table bgcolor=black><tr><td><font color=white>x</font></table>",
    "<style>.a{background:#333;color:#fff}</style><p class=a>x",
    "<style>.a{display:none} .b .a{display:block}</style><div class=b><p class=a>x</div>",
    "<style>@media print{p{display:none}} @media (max-width:600px){p{display:none}}</style><p>x",
    "<style>@keyframes k{from{opacity:0}} p:hover{display:none}</style><p>x",
    "<style>p::before{display:none} /* p{display:none} */ p{</style><p>x",
    "<div style='visibility:hidden'><p style='visibility:visible'>x</div>",
    "<div style='font-size:0'><p style='font-size:12px'>x</div>",
    "<body style='opacity:0'><p>x",
    "<body style='background:#111;color:#eee'><p style='color:#fff'>x",
    "<style>html{background:black} p{color:white}</style><p>x",
    "<body bgcolor=navy text=white><p>x",
    "<table><tr><td background=a.gif><font color=white>x</font><td>y</table>",
    "<p style='color:red;;:;color'>x",
    "<p style='position:absolute;left:-20px'>x",
    "<style media=print>p{display:none}</style><p>x",
    "<style>@media not screen{p{display:none}} @media print{p{opacity:0}}</style><p>x",
    "<style>.a{.b{display:none}}</style><p class=b>x",
    "<style>.a{display:none;&:hover{display:block}}</style><p>x",
    "<div style='--ink:#fff'><p style='color:var(--other)'>x</div>",
    "<p style='background:linear-gradient(red,blue);-webkit-text-fill-color:transparent'>x",
    "<div style='-webkit-text-fill-color:white'><p style='-webkit-text-fill-color:red'>x</div>",
    "<div style='opacity:.5'><p style='opacity:.5'>x</div>",
    "<p style='transform:translate(-50%,-50%) scale(-1)'>x",
    "<p style='transform:translate(20px,1em) rotate(90deg)'>x",
    "<p style='clip-path:polygon(0 0, 100% 0, 100% 100%)'>x",
    "<p style='clip-path:circle(50%)'>x",
    "<p style='mask:linear-gradient(black, transparent)'>x",
    "<p style='color:color-mix(in srgb, white, black)'>x",
    "<p style='color:oklch(100% 0.2 30)'>x",
    "<p style='color:lab(50% 0 0)'>x",
    "<p style='filter:opacity(0.5);zoom:1.2'>x",
    "<p style='margin-left:calc(100% - 1px)'>x",
    "<p style='background:black;color:canvas'>x",
]


@each_row("html", HIDDEN)
def test_text_that_readers_cannot_see_is_left_out(html: str) -> None:
    found = html_to_markdown(f"<div>seen</div>{html}", with_link_targets=True)
    assert (found.markdown.split(), found.hidden_chars > 0) == (["seen"], True)


@each_row("html", VISIBLE)
def test_text_that_readers_see_is_kept(html: str) -> None:
    found = html_to_markdown(html, with_link_targets=True)
    assert ("x" in found.markdown, found.hidden_chars) == (True, 0)


@each_row(
    "sheet",
    [
        "a{" * 100_000 + "display:none",
        ".a,.b{&" * 5_000,
        "a{" + "&," * 200_000 + "b{display:none}}",
        ":root{--a:x}" + "".join(f":root{{--a{n}:var(--a) var(--a)}}" for n in range(9_000)),
        "p{transform:translate(" + "(" * 200_000,
        "p{color:" + "color-mix(in srgb," * 50_000,
        "@media " + "not" * 200_000 + "{p{display:none}}",
    ],
)
def test_hostile_style_sheets_are_read_in_time(sheet: str) -> None:
    page = f"<style>{sheet}</style><p style='color:var(--a) var(--a8999)'>x"
    start = time.process_time()
    found = html_to_markdown(page, with_link_targets=True)
    assert time.process_time() - start < 10
    assert found.markdown == "x"


def test_link_targets_can_be_left_out() -> None:
    page = b"<p>See <a href='https://example.com/a b(c)'>the list</a>, <a href='#x'>below</a>."
    kept = import_html(page, ORIGIN).pages
    assert kept == ("See [the list](<https://example.com/a%20b(c)>), below.",)
    dropped = import_html(page, replace(ORIGIN, with_link_targets=False)).pages
    assert dropped == ("See the list, below.",)


@each_row("target", ["javascript:x()", " JavaScript:x()", "data:text/html,x", "#a", ""])
def test_targets_that_lead_nowhere_are_left_out(target: str) -> None:
    assert markdown(f'<a href="{target}">text</a>') == "text"


def test_the_head_gives_date_and_language() -> None:
    page = (
        b'<html lang="de-DE"><meta property="article:published_time" '
        b'content="2027-03-01T10:00:00Z"><title>Untitled</title><h1>Reisen</h1><p>Text.'
    )
    document = import_html(page, ORIGIN)
    assert (document.title, document.date, document.language) == ("Reisen", "2027-03-01", "de-DE")


@each_row(
    ("html", "reason"),
    [
        ("<div>" * 25_000, "nested too deeply"),
        (
            "<table><tr>" + f"<td colspan=1000 rowspan=9999>{'x' * 500}" * 300 + "<tr>" * 999,
            "merged cells",
        ),
    ],
)
def test_hostile_pages_are_refused(html: str, reason: str) -> None:
    with pytest.raises(ImportFailed, match=reason):
        markdown(html)


def test_one_long_row_does_not_lengthen_the_others() -> None:
    html = f"<table><tr>{'<td>c' * 20_000}{'<tr><td>a<td>b' * 500}"
    assert len(markdown(html)) < 20 * len(html)


def test_nested_tables_and_lists_are_read_to_the_end() -> None:
    assert "deep" in markdown("<table><tr><td>a<td>" * 500 + "deep")
    assert markdown("<ul><li>" * 500 + "deep").split() == [*["-"] * 20, "deep"]


WORDS = st.lists(st.text("abc*_<>&`#|[]() \n", min_size=1, max_size=9), max_size=5)
TAGS = st.sampled_from(
    ["p", "b", "sup", "td", "tr", "table", "li", "ul", "ol", "pre", "code", "a", "h2", "br", "q"]
)


@given(st.lists(st.tuples(TAGS, st.booleans(), WORDS), max_size=25))
def test_any_page_is_read_and_keeps_its_letters(parts: list[tuple[str, bool, list[str]]]) -> None:
    html = "".join(
        f"<{'/' if ends else ''}{tag}>{' '.join(words).replace('<', '').replace('&', '')}"
        for tag, ends, words in parts
    )
    found = markdown(html)
    for letter in "abc":
        written = sum(" ".join(words).count(letter) for _, _, words in parts)
        assert found.count(letter) >= written


@each_row("selector", ["p:nth-last-child(2n+1 of p)", "p:has(~ p .z)", "x ~ p", "p:last-of-type"])
def test_selectors_that_take_quadratic_time_are_refused(selector: str) -> None:
    page = f"<style>{selector + '{color:red}'}</style>" + "<p>a" * 10
    assert html_to_markdown(page, with_link_targets=True).markdown.count("a") == 10
    rules = "".join(f"{selector}:not(.c{number}){{color:red}}" for number in range(500))
    page = f"<style>{rules}</style>" + "<p>a" * 8_000
    with pytest.raises(ImportFailed, match="take too long to apply: save it as PDF"):
        html_to_markdown(page, with_link_targets=True)
