"""Ways to plant text in a web page that its readers cannot see, and visible text that is like it.

In each page, "planted" is hidden, and "seen" is not.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.html import html_to_markdown
from tests.support.tables import each_row


def words(html: str) -> set[str]:
    found = html_to_markdown(f"<p>seen</p>{html}", with_link_targets=True)
    assert (found.hidden_chars > 0) is ("planted" not in found.markdown)
    return set(found.markdown.replace("$", " ").split())


def styled(sheet: str) -> str:
    return f"<style>{sheet}</style><p class='x y' id=x lang=en title='a,{{b}}'>planted</p>"


HIDDEN_STYLES = [
    "font:1px Arial",
    "font:italic bold .5px/2 a, serif",
    "font:0% a",
    "font-size:1%",
    "font-size:.01em",
    "font-size:.5pt",
    "font-size:1e-3px",
    "font-size:calc(0px)",
    "font-size:min(0px, 1em)",
    "font-size:clamp(0px, 1px, 2em)",
    "font-size:max(.1px, calc(2px * .25))",
    "font:1px a;font:foo",
    "font-size:0;font-size:foo",
    "font-size:0;font-size:-1px",
    "opacity:1e-3",
    "opacity:calc(0)",
    "opacity:0;opacity:foo",
    "opacity:0;opacity:1!foo",
    "display:none;display:nonesuch",
    "display:none;font-family:'a;display:block'",
    "display:none;content:'\\';display:block'",
    "display:none;x:(;display:block;)",
    "visibility:hidden;visibility:shown",
    "display:none;display:inline block",
    "display:none;display:block none",
    "opacity:0;opacity:1.",
    "opacity:1;opacity:1e-00009",
    "font-size:0;font:16px",
    "font-size:0;font:16px Arial,",
    "font-size:0;font:large 16px Arial",
    "height:0;overflow:hidden;height:foo(9px)",
    "height:0;overflow:hidden;height:calc(9foo)",
    "color:rgb(255,255,255",
    "opacity:calc((0",
    "transform:scale(0);transform:scale(foo)",
    "transform:scale(0);transform:grow(2)",
    "color:white;color:hsv(0,100%,50%)",
    "color:white;color:foo",
    "color:white;color:rgb(1,2)",
    "color:white;color:foo(1,2,3)",
    "background:black;color:black;background:foo",
    "background:url(a.png);background:#fff;color:#fff",
    "color:rgb(2.55e2 2.55e2 255)",
    "height:0;overflow-y:hidden",
    "height:0;overflow-x:hidden",
    "height:0;overflow:auto",
    "height:0;overflow:scroll",
    "height:2px;overflow:hidden",
    "height:0;contain:paint",
    "block-size:0;overflow:hidden",
    "inline-size:0;overflow:clip",
    "max-block-size:0;overflow:hidden",
    "position:absolute;left:-1e5px",
    "position:absolute;left:10000px",
    "position:absolute;right:-9999px",
    "position:absolute;bottom:-9999px",
    "position:absolute;right:9999px",
    "position:absolute;inset-inline-start:-9999px",
    "position:absolute;inset:-9999px auto auto 0",
    "position:fixed;top:300vh",
    "position:fixed;left:200vw",
    "position:absolute;clip:rect(5px,5px,5px,5px)",
    "transform:translateX(9999px)",
    "transform:translate(0,-1e4px)",
    "transform:translateX(-1000%)",
    "translate:99999px",
    "transform:scale(0);transform:foo",
    "-webkit-transform:scale(0)",
    "transform:scale(calc(0))",
    "margin-left:9999px",
    "margin:-9999px 0 0",
    "margin-top:-9999px",
    "margin-inline-start:-9999px",
    "margin-left:-200%",
    "text-indent:100%;white-space:nowrap;overflow:hidden",
    "clip-path:inset(0 0 100% 0)",
    "clip-path:inset(999px)",
    "clip-path:inset(50% round 2px)",
    "clip-path:rect(0 0 0 0)",
    "clip-path:xywh(0 0 0 10px)",
    "clip-path:path('M0 0')",
    "-webkit-clip-path:circle(0)",
]


@each_row("style", HIDDEN_STYLES)
def test_a_style_can_hide(style: str) -> None:
    quoted = style.replace('"', "'")
    assert words(f'<p style="{quoted}">planted</p>') == {"seen"}


VISIBLE_STYLES = [
    "font:12px/0 Arial",
    "font:1px Arial;font:16px Arial",
    "font-size:0;font-size:12px",
    "font-size:calc(1px + 1em)",
    "font:menu",
    "font-size:0;font:normal small-caps bold 16px/1.5 'A B', -apple-system, sans-serif",
    "font-size:0;font:16px'A'",
    "font-size:0;font-size:calc(1rem + round(2px, 1px))",
    "display:none;display:inline list-item",
    "transform:scale(0);transform:rotate(5deg) translate3d(0, -1.5em, 0)scale(1 , 1)",
    "clip-path:circle(0);clip-path:circle(50% at 0 0) border-box",
    "opacity:50%",
    "opacity:0;opacity:1",
    "display:none;display:block",
    "display:none;display:inline flex",
    "content:';display:none'",
    "background:url(data:a;display:none)",
    "color:white;background:navy",
    "color:white;background:no-repeat center/cover url(a.png) #fff",
    "color:white;color:currentcolor;color:red",
    "color:white;color:highlight",
    "background:black;background:none;color:black",
    "overflow:hidden;height:20px",
    "overflow:hidden;width:1px;min-width:100%",
    "overflow:hidden;height:0;padding-bottom:56.25%",
    "overflow:visible;height:0",
    "height:0",
    "overflow:hidden;height:foo",
    "position:absolute;left:100%",
    "position:absolute;top:9000px",
    "position:static;left:-9999px",
    "left:9999px",
    "margin-left:-100%;float:left",
    "margin-bottom:-9999px;padding-bottom:9999px",
    "margin-right:-9999px",
    "margin:0 auto",
    "transform:translate(-50%,-50%)",
    "transform:translateX(-100%)",
    "transform:translateX(1280px)",
    "text-indent:2em;overflow:hidden",
    "text-indent:100%",
    "clip-path:inset(10% 20%)",
    "clip-path:path('M0 0L10 10')",
    "clip-path:none",
    "position:absolute;clip:rect(0,100px,20px,0)",
    "position:absolute;clip:auto",
    "mso-hide:all",
]


@each_row("style", VISIBLE_STYLES)
def test_other_styles_show(style: str) -> None:
    found = html_to_markdown(f'<p style="{style}">seen</p>', with_link_targets=True)
    assert (found.markdown, found.hidden_chars) == ("seen", 0)


@each_row(
    "sheet",
    [
        "a::after{content:'{'} .x{display:none}",
        "a::after{content:'}'} .x{display:none}",
        "a{content:'/*'} .x{display:none} /* */",
        "a{background:url(//a/*b.png)} .x{display:none} /* */",
        "p[title='a,{b}']{display:none}",
        "[title*='{']{display:none}",
        "<!-- .x{display:none} -->",
        "@media (width>=100px){.x{display:none}}",
        "@media (100px < width <= 90em){.x{display:none}}",
        "@media (min-height:10px){.x{display:none}}",
        "@media (hover){.x{display:none}}",
        "@media (hover:hover) and (pointer:fine){.x{display:none}}",
        "@media (orientation:landscape),(orientation:portrait){.x{display:none}}",
        "@media not all and (monochrome){.x{display:none}}",
        "@media not (max-width:600px){.x{display:none}}",
        "@media (max-width:1px) or (min-width:1px){.x{display:none}}",
        "@media (min-width:10pt){.x{display:none}}",
        "@media only screen and (min-aspect-ratio:1/1) and (resolution:1dppx){.x{display:none}}",
        "@media ((color) and (not (monochrome))){.x{display:none}}",
        "@MEDIA SCREEN{.x{display:none}}",
        "@layer a{.x{display:none}}",
        ".x{display:none} @layer a{#x{display:block}}",
        "@layer a;@layer b{@media screen{.x{display:none}}}",
        "@layer b,a;@layer a{.x{display:none}}@layer b{#x{display:block}}",
        ".x{display:block!important}@layer a{.x{display:none!important}}",
        "@import 'data:text/css,p{display:block}' layer(a);.x{display:none}",
        ".x{display:none}@scope(.z){#x{display:block}}",
        "@scope(body){:scope .x{display:none}}",
        "@supports (display:grid){.x{display:none}}",
        "@supports not (unknown:1){.x{display:none}}",
        "@container (min-width:1px){.x{display:none}}",
        "@container box (width > 1px){.x{display:none}}",
        "@import url(data:text/css,.x{display:none});",
        "@import 'data:text/css;base64,Lnh7ZGlzcGxheTpub25lfQ==' screen;",
        "@import url(\"data:text/css,@import 'data:text/css,.x%7Bopacity:0%7D';\");",
        ":scope .x{display:none}",
        ".x:defined{font-size:0}",
        "p:lang(en){display:none}",
        ".x:dir(ltr){display:none}",
        ".x:not(:target){display:none}",
        ":-webkit-any(.x, i){display:none}",
        ".x{display:none} @import 'data:text/css,.x{display:block}';",
        ".x.y{display:none} :where(#x.y.x){display:block}",
        ".x.y{display:none} p[title='a,{b}']{display:block}",
        ".x.y{display:none} [title*='#a #b']{display:block}",
        ".x.y{display:none} .x,:is(#x,.a-b-c-d) i{display:block}",
        ".x.y{display:none} p.y{display:block}",
        ".x{color:#fff} .x{color:rgb(0 0)}",
        ".x{font-size:1px} .x{font:foo}",
        ".a{color:red} .b{color:red}" * 4_000 + ".x{display:none}",
        ".x{color:red}" * 4_000 + ".x{display:none}",
        "".join(f".c{n}:not(.x),.md\\:c{n}{{color:red}}" for n in range(4_000))
        + ".\\78:not(.z){opacity:0}",
    ],
)
def test_a_style_sheet_can_hide(sheet: str) -> None:
    assert words(styled(sheet)) == {"seen"}


@each_row(
    "sheet",
    [
        "@media (max-width:600px){.x{display:none}}",
        "@media print{.x{display:none}}",
        "@media print and (min-width:1px), (max-width:100px){.x{display:none}}",
        "@media (prefers-color-scheme:dark){.x{display:none}}",
        "@media (unknown){.x{display:none}}",
        "@media not (unknown:1){.x{display:none}}",
        "@media (min-width:1px) and (max-width:2px) or (color){.x{display:none}}",
        "@media (width < 1000px){.x{display:none}}",
        "@media (orientation:portrait){.x{display:none}}",
        "@media (hover:none){.x{display:none}}",
        "@media not screen{.x{display:none}}",
        "@supports not (display:grid){.x{display:none}}",
        "@container (max-width:400px){.x{display:none}}",
        "@import url(data:text/css,.x{display:none}) print;",
        "@keyframes a{to{display:none}}",
        "p:lang(de){display:none}",
        ".x:dir(rtl){display:none}",
        ".x:target{display:none}",
        "@layer a{.x{display:none}}.x{display:block}",
        "@layer a{.x{display:none}}@layer b{p{display:block}}",
        "@scope(.z){.x{display:none}}",
        ".x{display:none} #x{display:block}",
        ".x{display:none} p.x{display:block}",
        ".x{display:none} .x:not(.z){display:block}",
        "a::before{content:'} .x{display:none}'}",
        "/* .x{display:none} */",
        "p[title='.x{display:none}']{color:red}",
    ],
)
def test_other_style_sheets_show(sheet: str) -> None:
    assert "planted" in words(styled(sheet))


LINK = "<link rel=stylesheet href='data:text/css,.x{display:none}'><p class=x>planted</p>"
ALTERNATE = "<link rel='alternate stylesheet' href=a.css><p style='color:white'>planted</p>"


@each_row(
    "html",
    [
        LINK,
        "<link rel=stylesheet href='data:text/css;base64,LnggeyBkaXNwbGF5Om5vbmUgfQ=='>"
        "<p class=x>planted</p>",
        ALTERNATE,
        "<link rel=stylesheet media=print href=a.css><p style='color:white'>planted</p>",
        "<div popover>planted</div>",
        "<style title=a>.x{display:none}</style><style title=b>.x{display:block}</style>"
        "<p class=x>planted</p>",
        "<link rel=stylesheet href='data:text/plain,.x{display:block}'>"
        "<p class=x hidden>planted</p>",
        "<div style='color:white'><p color=black>planted</p></div>",
        "<div style='color:white'><p text=black bgcolor=black background=a.png>planted</p></div>",
        "<table><tr><td background=a.png style='background:#fff;color:#fff'>planted</table>",
        "<style type=text/plain>.x{display:block}</style><p class=x hidden>planted</p>",
        "<link rel=stylesheet disabled href='data:text/css,.x{display:block}'>"
        "<p class=x hidden>planted</p>",
        "<dialog id=a>planted</dialog>",
        "<div style='height:0;overflow:hidden'><p style='position:relative'>planted</div>",
        "<div style='height:0;overflow:hidden;position:relative'><p style='position:absolute'>"
        "planted</div>",
        "<div style='height:0;overflow:hidden'><div style='position:relative'>"
        "<p style='position:absolute'>planted</div></div>",
        "<div style='font-size:.1em'><div style='font-size:10%'>planted</div></div>",
        "<div style='font-size:20px'><p style='font:5%/1 a'>planted</p></div>",
        "<style>html{font-size:1px} body{font-size:16px}</style><p style='font-size:1rem'>planted",
        "<div style='font-size:0'>planted<p style='font-size:12px'>seen</p></div>",
        "<select><option>seen<option hidden>planted</select>",
        "<style>.x{display:none}</style><select><option>seen<option class=x>planted</select>",
        "<div hidden><math><mi>planted</mi></math></div>",
        "<math style='display:none'><mtext>planted</mtext></math>",
        "<span class=katex style='opacity:0'><math><mtext>planted</mtext></math></span>",
    ],
)
def test_an_element_can_hide(html: str) -> None:
    assert words(html) == {"seen"}


@each_row(
    "html",
    [
        "<link rel=stylesheet href=a.css><p style='color:white'>seen",
        "<style>@import 'a.css';</style><p style='color:white'>seen",
        "<link rel='alternate stylesheet' href='data:text/css,p{display:none}'><p>seen",
        "<button popovertarget=a>Open</button><div popover id=a>seen</div>",
        "<button commandfor=a command=show-modal>Open</button><dialog id=a>seen</dialog>",
        "<div popover style='display:block'>seen</div>",
        "<dialog style='display:flex'>seen</dialog>",
        "<details><summary>More</summary>seen</details>",
        "<div style='width:0;overflow-x:auto;position:fixed'><p style='position:fixed'>seen</div>",
        "<div style='height:0;overflow:hidden'><p style='position:absolute'>seen</div>",
        "<meter value=1>seen</meter>",
        "<input type=date value=2027-03-01> seen",
        "<img alt=seen src=a.png width=40>",
        "<h2 style='font-size:2rem'>seen</h2>",
        "<style>html{font-size:62.5%}</style><p style='font-size:1.6rem'>seen",
    ],
)
def test_what_readers_can_open_or_see_is_kept(html: str) -> None:
    found = html_to_markdown(html, with_link_targets=True)
    assert "seen" in found.markdown


@each_row(
    "html",
    [
        "<img alt=planted src=a.png width=1 height=1>",
        "<input type=range value=planted>",
        "<input type=color value=planted>",
        "<input type=date value='planted 1'>",
        "<math><mphantom><mtext>planted</mtext></mphantom><mi>seen</mi></math>",
        "<math alttext='\\text{planted}'><mi>seen</mi></math>",
        "<math><semantics><mi>seen</mi><annotation encoding='application/x-tex'>\\phantom{planted}"
        "</annotation></semantics></math>",
        "<script type='math/tex'>planted</script>",
        "<math><mtext style='visibility:hidden'>planted</mtext><mi>seen</mi></math>",
    ],
)
def test_texts_beside_the_page_are_left_out(html: str) -> None:
    found = html_to_markdown(f"<p>seen</p>{html}", with_link_targets=True)
    assert "planted" not in found.markdown
    assert "seen" in found.markdown


@each_row(
    "drawing",
    [
        "<text fill='white'>planted</text>",
        "<text fill='none'>planted</text>",
        "<text fill-opacity='0'>planted</text>",
        "<g style='fill:#fff'><text>planted</text></g>",
        "<rect fill='#fff'/><text fill='white'>planted</text>",
        "<rect fill='none'/><text fill='white'>planted</text>",
        "<text visibility='hidden'>planted</text>",
        "<text style='display:none'>planted</text>",
        "<g display='none'><text>planted</text></g>",
        "<g opacity='0'><text><tspan>planted</tspan></text></g>",
        "<text font-size='0'>planted</text>",
        "<text font-size='.5'>planted</text>",
        "<text x='-9999'>planted</text>",
        "<text transform='scale(0)'>planted</text>",
        "<defs><text>planted</text></defs>",
        "<symbol id='a'><text>planted</text></symbol>",
        "<clipPath><text>planted</text></clipPath>",
        "<style>.x{display:none}</style><text class='x'>planted</text>",
        "<foreignObject><p hidden>planted</p></foreignObject>",
        "<g>planted</g>",
        "<text color='white' fill='currentcolor'>planted</text>",
        "<text style='fill:red;fill:#fff;fill:foo'>planted</text>",
    ],
)
def test_a_drawing_can_hide(drawing: str) -> None:
    assert words(f"<svg width=100 height=100>{drawing}<text>seen</text></svg>") == {"seen"}


@each_row(
    "html",
    [
        "<svg width=0 height=0><text>planted</text></svg>",
        "<svg style='position:absolute;width:0'><text>planted</text></svg>",
        "<svg display='none'><text>planted</text></svg>",
        "<svg viewBox='0 0 9000 9000' width=90><text font-size='12'>planted</text></svg>",
        "<div style='display:none'><svg><text>planted</text></svg></div>",
    ],
)
def test_a_whole_drawing_can_be_hidden(html: str) -> None:
    assert words(html) == {"seen"}


@each_row(
    "drawing",
    [
        "<text>seen</text>",
        "<rect fill='navy'/><text fill='white'>seen</text>",
        "<g><path d='M0 0h9v9z'/></g><g fill='#fff'><text>seen</text></g>",
        "<image href='a.png'/><text fill='white'>seen</text>",
        "<text fill='white' stroke='black'>seen</text>",
        "<line stroke='navy' stroke-width='20'/><text fill='white'>seen</text>",
        "<text fill='url(#a)'>seen</text>",
        "<text x='-20' y='130'>seen</text>",
        "<g transform='translate(2000,0)'><text x='-1950'>seen</text></g>",
        "<text transform='matrix(.01 0 0 .01 0 0)' font-size='900'>seen</text>",
        "<defs><text id='a'>seen</text></defs><use href='#a'/>",
        "<symbol id='a'><text>seen</text></symbol><use xlink:href='#a'/>",
        "<foreignObject><div>seen</div></foreignObject>",
        "<switch><foreignObject><p>seen</p></foreignObject><text>seen</text></switch>",
    ],
)
def test_other_drawings_show(drawing: str) -> None:
    found = html_to_markdown(f"<svg width=100 height=100>{drawing}</svg>", with_link_targets=True)
    assert found.markdown == "seen"


def test_a_small_unit_of_a_drawing_is_no_small_font() -> None:
    page = "<svg viewBox='0 0 1 1' width=500><text y='.5' font-size='.05'>seen</text></svg>"
    assert html_to_markdown(page, with_link_targets=True).markdown == "seen"


def test_an_element_that_a_drawing_shows_twice_is_read_once() -> None:
    uses = "<use href='#a'/>" * 9
    nested = "".join(f"<g id='b{n}'><use href='#b{n + 1}'/></g>" for n in range(500))
    page = f"<svg><defs><text id='a'>seen</text>{nested}</defs>{uses}<use href='#b0'/></svg>"
    assert html_to_markdown(page, with_link_targets=True).markdown == "seen"


@each_row(
    "sheet",
    [
        "a{content:'" * 50_000,
        "@import 'data:text/css," * 50_000,
        "@media " + "(" * 100_000 + "{p{display:none}}",
        "@media " + "(color) and " * 50_000 + "(color){p{color:red}}",
        "@supports " + "not (" * 50_000,
        ":is(" * 50_000 + "p{display:none}",
        "p{width:" + "calc(" * 50_000 + "}",
        "p{font:" + "a " * 100_000 + "}",
        "p{background:" + "url(a) " * 50_000 + "}",
        "p{margin:" + "1px " * 50_000 + "}",
        "p{transform:translate(" + "1px " * 50_000 + ")}",
        "p{transform:" + "translate(1px, 1px) " * 50_000 + "}",
        "p{clip-path:inset(" + "1px " * 50_000 + ")}",
        "p{opacity:calc(1" + " + 0" * 50_000 + ")}",
        "p{opacity:" + "9" * 100_000 + "}",
        "p{opacity:1e9999;color:rgb(1e999,0,0);left:calc(1e999px - 1e999px)}",
        "/*" * 100_000,
        "[" * 100_000,
    ],
)
def test_hostile_style_sheets_take_little_time(sheet: str) -> None:
    start = time.process_time()
    found = html_to_markdown(f"<style>{sheet}</style><p>x", with_link_targets=True)
    assert time.process_time() - start < 10
    assert found.markdown == "x"


def test_a_page_with_too_many_selectors_is_refused() -> None:
    sheet = "".join(f"p:not(.c{number}){{color:red}}" for number in range(3_001))
    with pytest.raises(ImportFailed, match="take too long to apply"):
        html_to_markdown(f"<style>{sheet}</style><p>x", with_link_targets=True)


PIECES = st.sampled_from(
    [
        *"{}();:,'\"[]!@/\\*-.#& \n",
        *("p", "display", "none", "font", "0", "1e9", "px", "%", "@media", "@import", "@layer"),
        *(
            "calc(",
            "rgb(",
            "url(",
            "not",
            "and",
            "width",
            "<",
            "color",
            "background",
            "white",
            "var(--a)",
        ),
        *(
            "--a:",
            "transform",
            "scale(",
            "clip-path",
            "inset(",
            ":is(",
            "/*",
            "*/",
            "data:,",
            "margin",
        ),
    ]
)


@given(st.lists(PIECES, max_size=30))
def test_any_style_sheet_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    attribute = text.replace('"', "'")
    page = (
        f"<style>{text}</style><style>p{{{text}}}</style>"
        f'<p style="{attribute}">x</p><svg><text fill="{attribute}">y'
    )
    html_to_markdown(page, with_link_targets=True)
