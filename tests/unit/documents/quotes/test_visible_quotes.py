"""Quotes from documents in Markdown: as shown, or as copied from the source (contract §2)."""

import gc
import time

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.documents.quotable_document import QuotableDocument
from mcp_tools_proxy.documents.visible_text import visible_text
from mcp_tools_proxy.domain.document import Document
from tests.support.examples import at_most
from tests.support.tables import each_row

MARKDOWN = r"""# Fees & *co*

The fee is **five euros** for each late return, see
[the list](https://example.com/list "Prices"); set max\_text\_bytes first.

- 5 degrees `a*b*c` in snake_case_name un**believ**able
  - <b>bold</b> 2**3 and 10<sup>3</sup> m<sup>2</sup> of H<sub>2</sub>O on the 1<sup>st</sup>

1. Open the lid
2. Close[^1] the lid

> Note: a link over
> [two lines][ref] and **Note:**text &amp; more <!-- not shown -->marks.

| Region | Year | Sales |
|---|---|---|
| North | 2026 | 20 |
| South \| x | 2026 | **30** |

[^1]: A note at the foot.

[ref]: https://example.com 'Two lines'

```python
x = "**not bold**"
```
"""
OPTIONS = ImportOptions(tenant_id="t", doc_id="d", stem="fees")


def document_of(text: str, text_format: str | None = "markdown") -> Document:
    return Document(tenant_id="t", doc_id="d", title="d", pages=(text,), text_format=text_format)


def quoted(quote: str, document: Document) -> list[str]:
    spans = QuotableDocument(document).find(quote)
    return [document.pages[it.page - 1][it.start_char : it.end_char] for it in spans]


@each_row(
    ("quote", "place"),
    [
        ("fee is five euros for", "fee is **five euros** for"),
        ("is **five euros** for each", "is **five euros** for each"),
        ("five euros** for each", "five euros** for each"),
        ("see the list; set max_text_bytes", None),
        ("[the list](https://example.com/list); set max", None),
        ("5 degrees a*b*c in snake_case_name unbelievable", None),
        ("- 5 degrees `a*b*c` in", "5 degrees `a*b*c` in"),
        ("bold 2**3 and 10³ m²", None),
        ("2**3 and 10^3 m^2 of H2O on the 1st", None),
        ("10<sup>3</sup> m<sup>2</sup> of H₂O", None),
        ("Open the lid Close the lid", "Open the lid\n2. Close[^1] the lid"),
        ("1. Open the lid 2. Close[^1] the lid", "Open the lid\n2. Close[^1] the lid"),
        ("Note: a link over two lines and Note:text & more marks.", None),
        ("Region Year Sales North 2026 20", None),
        ("| North | 2026 | 20 |", "North | 2026 | 20"),
        ("North | 2026 | 20", "North | 2026 | 20"),
        (r"South \| x | 2026 | **30**", None),
        ("South | x 2026 30", None),
        ("A note at the foot.", "A note at the foot."),
        ('x = "**not bold**"', 'x = "**not bold**"'),
    ],
)
def test_a_quote_is_compared_as_a_reader_sees_it(quote: str, place: str | None) -> None:
    found = quoted(quote, import_markdown(MARKDOWN.encode(), OPTIONS))
    assert found == [place] if place else len(found) == 1


@each_row(
    "quote",
    [
        "-5 degrees a*b*c in",
        "+ 6 degrees a*b*c in",
        "1. Close the lid",
        "3. Close the lid",
        "Close[^2] the lid",
        "- The fee is five euros",
        "2**3 and 103 m2",
        "fee is **six euros** for",
        "https://example.com/list",
        "South 2026 | 31",
        "the first not shown",
    ],
)
def test_a_quote_with_another_sign_number_or_word_is_not_found(quote: str) -> None:
    assert quoted(quote, import_markdown(MARKDOWN.encode(), OPTIONS)) == []


def test_only_the_tables_of_plain_text_have_markup() -> None:
    page = "It is 5*3*2 | x.\n\n| Region | Sales |\n|---|---|\n| North | 20 |\n\nThe *end* of it."
    for text_format in ("plain", None):
        document = document_of(page, text_format)
        assert quoted("Region Sales North 20", document)
        assert quoted("| North | 20 |", document) == ["North | 20"]
        assert quoted("It is 5*3*2 | x. ", document) == ["It is 5*3*2 | x."]
        assert not quoted("The end of it.", document)
        assert not quoted("It is 532 x", document)


@each_row(
    ("page", "quote"),
    [
        ("about 5 x 10³ units, x₁ + xⁿ⁺¹", "5 x 10^3 units, x_1 + x^(n+1)"),
        ("about 5 x 10^-3 units of Ca(OH)_2", "5 x 10⁻³ units of Ca(OH)₂"),
        ("it is H_2O and CO₂ here", "it is H2O and CO2 here"),
        ("so PO_4^(3−), aˣ⁺² and k_(1/3) are", "so PO₄³⁻, a^(x+2) and k₁/₃ are"),
    ],
)
def test_scripts_are_equal_in_all_spellings(page: str, quote: str) -> None:
    assert len(quoted(quote, document_of(page, "plain"))) == 1


@each_row(
    ("page", "quote"),
    [
        ("about 5 x 10^3 units", "about 5 x 103 units"),
        ("about 5 x 10^3 units", "about 5 x 10"),
        ("about 103 units of it", "about 10³ units of it"),
        ("at 5 m^2 of it", "at 5 m2 of it"),
        ("the field max_text_2 is", "the field max_text2 is"),
    ],
)
def test_an_exponent_is_not_a_digit(page: str, quote: str) -> None:
    assert quoted(quote, document_of(page, "plain")) == []


NOTED = "The fee [1] is due. [12] See page [2] 7 on tax [3,4].\n\n[1] By law."


@each_row(
    "quote",
    [
        "The fee [1] is due. [12] See page",
        "The fee is due. See page 7 on tax.",
        "fee1 is due.12 See page",
        "fee¹ is due",
        "fee[1] is due",
        "fee<sup>1</sup> is due",
        "page 7 on tax3,4.",
        "[1] By law.",
    ],
)
def test_marks_of_footnotes_can_be_missing_or_raised_in_a_quote(quote: str) -> None:
    for text_format in ("markdown", "plain"):
        assert len(quoted(quote, document_of(NOTED, text_format))) == 1


@each_row(
    "quote",
    ["The fee [2] is", "fee2 is", "fee 1 is", "due.1 See", "page 27 on", "page 2 7 on", "page1 7"],
)
def test_a_quote_with_another_footnote_mark_or_number_is_not_found(quote: str) -> None:
    for text_format in ("markdown", "plain"):
        assert quoted(quote, document_of(NOTED, text_format)) == []


MARKS = st.sampled_from(
    [
        "*",
        "**",
        "_",
        "`",
        "```",
        "[",
        "](",
        ")",
        "]",
        "<b>",
        "</b>",
        "<!--",
        "-->",
        "|",
        "\n",
        " ",
        "a",
        "5",
        "\\",
        "&amp;",
        "# ",
        "- ",
        "1. ",
        "> ",
        "~~",
        "|-|\n",
        "[^1]",
        "]: x\n",
        "<br>",
    ]
)


@at_most(200)
@given(parts=st.lists(MARKS, max_size=40))
def test_any_text_has_a_visible_text_whose_letters_keep_their_positions(parts: list[str]) -> None:
    text = "".join(parts)
    visible = visible_text(text, text_format="markdown")
    for place, letter in enumerate(visible.text):
        if letter in "a5":
            assert text[visible.start_of(place)] == letter


@each_row(
    "part", ["*_", "[](", "<!--", "`a``b", "](a (", "| a\n|-\n", "> - 1. ", "<a <", "[^", "\\"]
)
def test_hostile_markup_takes_time_in_proportion_to_its_size(part: str) -> None:
    def seconds(size: int) -> float:
        started = time.thread_time()
        visible_text(part * (size // len(part)), text_format="markdown")
        return time.thread_time() - started

    gc.disable()  # it takes seconds after many other tests
    try:
        # quadratic time would be 16 times as long each time
        assert any(seconds(200_000) < 10 * max(seconds(50_000), 0.02) for _ in range(3))
    finally:
        gc.enable()
