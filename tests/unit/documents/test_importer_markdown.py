"""Markdown files as documents (contract §5)."""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.document_file import dump_document
from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="notes")


def imported(text: str, **changes: str) -> Document:
    fields = {"tenant_id": "t", "doc_id": "d", "stem": "notes"} | changes
    origin = ImportOptions(**fields)  # type: ignore[arg-type] # no tags among them
    return import_markdown(text.encode(), origin)


def text_of(document: Document, section_id: str) -> str:
    section = document.sections[section_id]
    pages = list(document.pages[section.page_start - 1 : section.page_end])
    pages[-1] = pages[-1][: section.end_char]
    pages[0] = pages[0][section.start_char or 0 :]
    return "".join(pages)


TEXT = """Before.

# Guide

Welcome.

## Setup

Install it.

### Linux

Use apt.

## Use

Run it.

# Annex

The end.
"""


def test_headings_become_sections_in_order() -> None:
    assert list(imported(TEXT).sections) == ["guide", "setup", "linux", "use", "annex"]


def test_a_section_starts_at_its_heading_and_ends_before_the_next() -> None:
    assert text_of(imported(TEXT), "use") == "## Use\n\nRun it.\n\n"


def test_a_parent_section_ends_where_its_next_sibling_starts() -> None:
    text = text_of(imported(TEXT), "guide")
    assert text.startswith("# Guide")
    assert text.endswith("Run it.\n\n")


def test_the_last_section_ends_with_the_document() -> None:
    assert text_of(imported(TEXT), "annex") == "# Annex\n\nThe end.\n"


def test_text_before_the_first_heading_is_outside_all_sections() -> None:
    document = imported(TEXT)
    assert not any("Before." in text_of(document, name) for name in document.sections)


def test_an_underlined_heading_is_a_heading() -> None:
    assert list(imported("Title\n=====\n\ntext\n\nPart\n----\n").sections) == ["title", "part"]


@each_row(
    "text",
    [
        "# A\n\n```\n# no\n```\n",
        "# A\n\n    # no\n",
        "# A\n\n> # no\n",
        "# A\n\n- # no\n",
        "# A\n#\n",
    ],
    ids=["fence", "indented", "quote", "list", "empty"],
)
def test_text_similar_to_a_heading_does_not_start_a_section(text: str) -> None:
    assert list(imported(text).sections) == ["a"]


def test_a_russian_heading_gives_a_readable_id() -> None:
    assert list(imported("# Настройка LDAP: шаг 1\n").sections) == ["настройка-ldap-шаг-1"]


def test_equal_headings_get_different_ids() -> None:
    assert list(imported("# A\n# A\n# A 2\n# ?\n").sections) == ["a", "a-2", "a-2-2", "section"]


def test_markup_is_removed_from_headings() -> None:
    document = imported("# The `bind` *call* and [more][x] <br>\n\n[x]: http://x\n")
    assert [s.title for s in document.sections.values()] == ["The bind call and more"]


def test_attributes_of_headings_are_not_part_of_their_titles() -> None:
    document = imported("# Set up {#set-up .short}\n\n## Braces {x}\n\nNotes {-}\n=====\n")
    assert [s.title for s in document.sections.values()] == ["Set up", "Braces {x}", "Notes"]


def test_a_file_without_headings_is_one_section_named_after_it() -> None:
    document = imported("Just text.\n")
    assert {s.title: text_of(document, s.section_id) for s in document.sections.values()} == {
        "notes": "Just text.\n"
    }


@each_row(
    ("text", "title"),
    [
        ("---\ntitle: 'From matter'\ntags: [a]\n---\n# H\n", "From matter"),
        ("# Pump [![Passed](i.svg)](x) ![v2](v.svg)\n", "Pump"),
        ("# ![City of Bern](i.svg)\n", "City of Bern"),
        ("text\n\n# From heading\n", "From heading"),
        ("text\n", "notes"),
    ],
)
def test_the_title_comes_from_front_matter_or_heading_or_file_name(text: str, title: str) -> None:
    assert imported(text).title == title


def test_a_requested_title_has_precedence() -> None:
    assert imported("---\ntitle: a\n---\n# b\n", title="mine").title == "mine"


def test_front_matter_is_not_part_of_the_text() -> None:
    assert imported("---\ntitle: a\n\nx: y\n---\n# b\n").pages == ("# b\n",)


def test_a_rule_at_the_start_is_not_front_matter() -> None:
    text = "---\n\n- one\n\n---\n\ntext\n"
    assert imported(text).pages == (text,)


def test_page_breaks_are_between_blocks_and_not_after_a_heading() -> None:
    block = "word " * 300 + "\n\n"
    document = imported((block * 5 + "## Part\n\n") * 4)
    assert len(document.pages) > 1
    assert all(page.endswith("\n\n") for page in document.pages)
    assert not any(page.endswith("## Part\n\n") for page in document.pages[:-1])


def test_a_block_larger_than_a_page_is_split_at_a_line() -> None:
    pages = imported("```\n" + "a line of code\n" * 2000 + "```\n").pages
    assert len(pages) > 1
    assert all(page.endswith("\n") for page in pages)


def test_one_long_line_is_split_between_characters() -> None:
    text = "ж" * 20_000
    pages = imported(text).pages
    assert "".join(pages) == text
    assert all(len(page.encode()) <= PAGE_BYTES for page in pages)


@each_row("data", [b"", b" \n\t", b"\xef\xbb\xbf", b"\x00", b"---\ntitle: x\n---\n"])
def test_an_empty_file_is_refused(data: bytes) -> None:
    with pytest.raises(ImportFailed):
        import_markdown(data, ORIGIN)


@each_row("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_selects_the_encoding_and_is_dropped(encoding: str) -> None:
    mark = "\ufeff" if encoding[-3:] in {"-le", "-be"} else ""
    document = import_markdown(f"{mark}# Заголовок 😀\r\nтекст\r\n".encode(encoding), ORIGIN)
    assert (document.title, document.pages) == ("Заголовок 😀", ("# Заголовок 😀\nтекст\n",))


def test_text_in_another_encoding_is_read() -> None:
    document = import_markdown("# Заявление\n\nПодайте за семь дней.\n".encode("cp1251"), ORIGIN)
    assert (document.title, list(document.sections)) == ("Заявление", ["заявление"])


def test_byte_order_mark_and_control_characters_are_dropped() -> None:
    document = import_markdown(b"\xef\xbb\xbf# A\r\n\r\nb\x00\x07c\td\r", ORIGIN)
    assert document.pages == ("# A\n\nbc\td\n",)


BLOCKS = st.lists(
    st.one_of(
        st.builds("{} {}\n".format, st.sampled_from(["#", "##", "###"]), st.sampled_from("abжё")),
        st.integers(1, 1200).map(lambda n: "слово " * n + "\n"),
        st.integers(1, 900).map(lambda n: "```\n" + "# code\n" * n + "```\n"),
        st.just("> # quoted\n"),
    ),
    max_size=12,
).map("\n".join)


@given(text=st.one_of(BLOCKS, st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1)))
@example("слово " * 728 + "\n\n# a\n")
def test_joined_pages_equal_the_text_and_each_is_within_the_limit(text: str) -> None:
    if not text.strip() or text.startswith("\ufeff"):
        return
    pages = imported(text).pages
    assert "".join(pages) == "".join(c for c in text if c not in "\ufeff\ufffe\uffff")
    assert all(0 < len(page.encode()) <= PAGE_BYTES for page in pages)


@given(text=BLOCKS)
def test_each_section_starts_with_its_only_heading_of_that_level(text: str) -> None:
    if not text.strip():
        return
    document = imported("intro\n\n" + text)
    dump_document(document)  # the positions are valid in a file
    for section_id, section in document.sections.items():
        own = text_of(document, section_id)
        if section.title != "notes":
            hashes, _, rest = own.partition(" ")
            assert set(hashes) == {"#"}
            assert rest.startswith(section.title)
            lines = own.replace("```\n", "\x00").split("\x00")[::2]  # outside fences
            assert not any(f"\n{hashes} " in part for part in lines)


def test_a_heading_inside_a_fence_is_text() -> None:
    assert "# no" in text_of(imported("# A\n\n```\n# no\n```\n\n# B\n"), "a")


def test_a_long_list_after_a_rule_is_text() -> None:
    lines = "".join(f"-flag{n}: does this\n" for n in range(60))
    document = imported(f"---\ntitle: x\n{lines}\nthe text")
    assert "flag59" in document.pages[0]


LINKS = """See [the list](https://example.com/a_(b) "Fees"), ![a map](map.png), [rules][r], [r].[^1]

[![logo](logo.png)](https://example.com) `[code](kept)` <a href="https://x.example">page</a>
[x] [1](2

```
[code](kept)
```

[r]: https://example.com/rules
[^1]: a note
"""


def test_links_keep_their_targets() -> None:
    assert imported(LINKS).pages == (LINKS,)


def test_link_targets_can_be_left_out() -> None:
    options = replace(ORIGIN, with_link_targets=False)
    assert import_markdown(LINKS.encode(), options).pages == (
        "See the list, a map, rules, [r].[^1]\n\nlogo `[code](kept)` page\n[x] [1](2\n\n"
        "```\n[code](kept)\n```\n\n[^1]: a note\n",
    )


def test_a_comment_that_does_not_end_hides_the_rest_of_its_block() -> None:
    document = imported("a\n\n<!-- b\n\nc\n")
    assert [it.strip() for it in document.pages] == ["a"]
    for text in ("a <!-- b\n\nc\n", "- a\n\n  <!-- b\n\nc\n", "```\n<!-- b\n```\n\nc\n"):
        assert "c" in "".join(imported(text).pages)


def test_comments_are_hidden_text_except_in_code() -> None:
    document = imported("# A\n\nSeen<!-- approve\nall --> text `<!-- b -->`.\n\n    <!-- c -->\n")
    assert document.pages == ("# A\n\nSeen text `<!-- b -->`.\n\n    <!-- c -->\n",)
    assert [warning.message for warning in document.warnings] == [
        "10 letters of hidden text were left out"
    ]


@each_row(
    "hidden",
    [
        "<div hidden>approve all</div>",
        '<p class="a" style="color:red; display:none">approve <b>all</b></p>',
        "<span style='font-size:0'>approve all</span>",
        "<template>approve all</template>",
        "<div hidden><div>approve</div> all</div>",
        f"<div hidden>{'approve all ' * 1000}</div>",
        "[//]: # (approve all)\n",
        '[comment]: <> "approve all"\n',
        "[//]: # (approve\nall)\n",
        "<span title='a>b' style='opacity: 0'>approve `all`</span>",
        '<b style="display&colon;none">approve all</b>',
        '<font color="white">approve all</font>',
        "<div hidden>\n\n# approve\n\n- all\n\n</div>",
        "<p><i hidden>approve all</p>",
        "<div style='visibility:hidden'><div>approve</div> all</div>",
        "<style>.note b { display: none }</style><p class='note'><b>approve all</b></p>",
        "<?approve all?>",
        "<!approve all>",
    ],
)
def test_hidden_html_is_left_out(hidden: str) -> None:
    document = imported(f"# A\n\nSeen.\n\n{hidden}\n\n<p class=x>More.</p>\n")
    text = re.sub(r"</?p(?: class='note')?>", "", document.pages[0])
    assert text.split() == ["#", "A", "Seen.", "<p", "class=x>More."]
    assert [warning.code for warning in document.warnings] == ["hidden_text"]


def test_html_in_code_and_visible_html_are_kept() -> None:
    text = "`<p hidden>x</p>` <p style='opacity:0.5'>y</p>\n\n```\n<p hidden>z</p>\n```\n"
    assert imported(text).pages == (text,)


def test_escaped_html_is_kept() -> None:
    text = "Write \\<!-- note --> or \\<i hidden>x\\</i>.\n"
    assert imported(text).pages == (text,)
    assert imported("A \\\\<!-- b -->\n").pages == ("A \\\\\n",)


@each_row(
    ("text", "shown"),
    [
        ("a\n\n<div hidden>\n\nplanted\n\n# b\n", "a"),
        ("a <div style='display:none'> planted\n\nb\n", "a"),
        ("a <span hidden> planted\nplanted\n\nb\n", "a\n\nb"),
        ("- a <span hidden> planted\n- b\n", "- a - b"),
        ("<p hidden>planted\nplanted\n\nb\n", "b"),
        ("a <font color=white> planted\n\nplanted\n", "a"),
        ("| a | b |\n|---|---|\n| <span hidden> planted | c |\n", "| a | b | |---|---| | | c |"),
        ("<img style='display:none' alt=planted> a\n", "a"),
        ("a\n\n<template>\nplanted\n", "a"),
        ("<style>.x{opacity:0}</style>\n\na\n\n<div class=x>\n\nplanted\n", "a"),
        ("a <dialog>planted</dialog> b\n", "a b"),
    ],
)
def test_a_hiding_element_without_an_end_hides_what_browsers_hide(text: str, shown: str) -> None:
    document = imported(text)
    assert "".join(document.pages).split() == shown.split()
    assert [warning.code for warning in document.warnings] == ["hidden_text"]


def test_a_script_without_an_end_hides_the_rest() -> None:
    assert imported("a\n\n<script>\nplanted()\n\nplanted\n").pages == ("a\n\n",)


@each_row(
    "text",
    [
        "Use the <template> element, <script> or <style>.\n\nMore\n",
        "<title> names a page.\n\nMore\n",
        "A List<String> and\n\n<div class=note>\n\nmore\n",
        "Write \\<div hidden> and `<div hidden>`.\n",
    ],
)
def test_prose_about_elements_is_kept(text: str) -> None:
    assert imported(text).pages == (text,)


@each_row(
    "hidden",
    [
        "[//]: / (planted)",
        "[note]: http://a.example 'planted'",
        "[note]: <http://a.example/planted>",
        "[planted by somebody]: #",
        "> [quoted]: / 'planted'",
        "[used]: /other 'planted'",
        "[note]: /a\n  'planted\n  planted'",
        "[^z]: planted\nplanted\n\n    planted\n",
        "[^z]: planted [^y]\n\n[^y]: planted [^z]\n",
        "<?x planted <b>",
        "<![CDATA[ planted ]]>",
    ],
)
def test_definitions_that_nothing_refers_to_are_hidden(hidden: str) -> None:
    text = "See [this][used] and[^1].\n\n[used]: /a 'a title'\n\n{}\n\n[^1]: a note\n    and more\n"
    document = imported(text.format(hidden))
    expected = text.format(">" if hidden.startswith(">") else "").split()
    assert "".join(document.pages).split() == expected
    is_address = hidden.endswith("planted>")
    assert [it.code for it in document.warnings] == ([] if is_address else ["hidden_text"])


def test_what_only_looks_like_a_definition_is_kept() -> None:
    text = "Log [`Worker`][] of [a\\]b]:\n[10:05]: started\n[Ann]: yes, I do\n\n`[a]: b`\n\n"
    text += "    [c]: d\n\n- [x]: e f\n\n[`Worker`]: w.md\n[A\\]B]: c 'd'\n"
    assert imported(text).pages == (text,)


def test_cells_beyond_the_columns_of_a_table_are_hidden() -> None:
    table = "| a | b |\n|---|:-:|\n| c | d |{}\n| e\\|f |\n"
    document = imported(f"{table.format(' planted |')}\na | b | c\n")
    assert document.pages == (f"{table.format('')}\na | b | c\n",)
    assert [warning.message for warning in document.warnings] == [
        "7 letters of hidden text were left out"
    ]


@each_row(
    ("drawing", "is_shown"),
    [
        ("<svg><text>word</text></svg>", True),
        ("<svg><rect fill='navy'/><text fill='white'>word</text></svg>", True),
        ("<svg><rect style='display:none'/><text>word</text></svg>", True),
        ("<svg><text fill='white'>word</text></svg>", False),
        ("<svg><defs><text>word</text></defs></svg>", False),
        ("<svg><g display='none'><text>word</text></g></svg>", False),
    ],
)
def test_drawings_in_markdown_follow_the_rules_of_pages(drawing: str, is_shown: bool) -> None:
    assert ("word" in imported(f"# A\n\n{drawing}\n").pages[0]) is is_shown


def test_visible_text_within_hidden_text_is_kept() -> None:
    text = "<div style='visibility:hidden'>all <b style='visibility:visible'>Seen</b></div>\n"
    document = imported(text)
    assert "all" not in document.pages[0]
    assert "Seen" in document.pages[0]


@each_row(
    ("text", "shown"),
    [
        ("5 x 10^3^ units per m^2^, 10^-6^ s", "5 x 10^3 units per m^2, 10^-6 s"),
        ("H~2~O, CO~2~ and SO~4~^2-^", "H_2O, CO_2 and SO_4^(2-)"),
        ("x^n+1^ and P~a\\ cat~ and log~10~(x)", "x^(n+1) and P_(a cat) and log_10(x)"),
        ("the 1^st^ of May, ^14^C", "the 1st of May, ^14C"),
        ("# Area in m^2^\n", "# Area in m^2\n"),
    ],
)
def test_scripts_of_pandoc_are_written_like_those_of_other_formats(text: str, shown: str) -> None:
    assert imported(text).pages == (shown,)


@each_row(
    "text",
    [
        "~~struck~~ and ~struck~ words",
        "cp ~/a:~/b and C:\\PROGRA~1\\X~2",
        "2^3^4 and x^2+y^2 and 10^3 and [^1][^2]",
        "`10^3^` and $x^2^$ and <https://example.org/a~b~> https://example.org/a^b^",
        "```\nH~2~O\n```",
        "1~3월,4~6월",
        r"10\^3\^ and H\~2\~O",
    ],
)
def test_other_carets_and_tildes_stay(text: str) -> None:
    assert imported(text).pages == (text,)


@each_row(
    ("text", "title"),
    [
        ("## Contents\n\n# Fees\n\n## Loans\n", "Fees"),
        ("## Before\n\n# One\n\n# Two\n", "Before"),
        ('<p><img src="a.png"></p>\n\n<h1 align="x">The <b>fees</b></h1>\n\n## Use\n', "The fees"),
        ("Text with <h1>no heading</h1>\n", "rules"),
        ("```html\n<h1>Code</h1>\n```\n", "rules"),
    ],
)
def test_the_title_is_the_heading_of_the_whole_text(text: str, title: str) -> None:
    assert imported(text, stem="rules").title == title
