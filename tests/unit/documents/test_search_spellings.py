"""Spellings that search and snippets treat as equal (contract T-07)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.documents.search.spellings import fold, other_spellings, with_spellings
from mcp_tools_proxy.domain.document import Hit
from tests.support.builders import make_document
from tests.support.tables import each_row

FILLER = " ".join(f"filler{n}" for n in range(90))


def found(text: str, query: str, text_format: str | None = None) -> tuple[Hit, ...]:
    page = f"{FILLER} {text} {FILLER}"
    document = make_document(pages=(FILLER, page, "Other text."))
    return build_index(replace(document, text_format=text_format)).search(query, 1)


@each_row(
    ("written", "query"),
    [
        ("ESP32-C6", "ESP32C6"),
        ("ESP32C6", "ESP32-C6"),
        ("an x-ray of it", "xray"),
        ("an xray of it", "x-ray"),
        ("costs 1,250.00 in all", "1250"),
        ("costs 1.250,00 in all", "1250"),
        ("costs 1'250 in all", "1250"),
        ("costs 1250 in all", "1,250.00"),
        ("the bolt M8 x 25", "M8x25"),
        ("the bolt M8×25", "M8x25"),
        ("the bolt M8x25", "M8 x 25"),
        ("the infor-\nmation desk", "information"),
        ("a self-\ncontained text", "selfcontained"),
        ("a self-\ncontained text", "self-contained"),
        ("about H₂O and", "H2O"),
        ("about H_2O and", "H2O"),
        ("about H2O and", "H₂O"),
        ("about H2O and", "H_2O"),
        ("add 3¼ pints", "3 1/4"),
        ("add 3 1/4 pints", "3¼"),
        ("use ⅔ of it", "2/3"),
        ("in İstanbul today", "istanbul"),
        ("in Istanbul today", "İstanbul"),
        ("στην Ελλάδα σήμερα", "ελλαδα"),
        ("ὁ λόγος", "λογοσ"),
        ("臺灣國語學習", "台湾国语"),
        ("台湾国语学习", "臺灣國語"),
        ("關於中華民國的書", "中 華 民 國"),
        ("ﻣﺤﻤﺪ", "محمد"),
        ("خــلال", "خلال"),
        ("مُحَمَّد", "محمد"),
        ("أحمد", "احمد"),
        ("مكتبة", "مكتبه"),
        ("٢٠٢٤", "2024"),
        ("שָׁלוֹם", "שלום"),
    ],
)
def test_another_spelling_is_found_and_shown(written: str, query: str) -> None:
    (hit,) = found(written, query)
    assert hit.page == 2
    assert " ".join(written.split()).split()[-1] in hit.snippet


@each_row("query", ["10^3", "10³"])
@each_row(
    ("written", "text_format"), [("10^3", "plain"), ("10³", None), ("10<sup>3</sup>", "markdown")]
)
def test_an_exponent_is_found_in_all_spellings_and_is_not_a_digit(
    query: str, written: str, text_format: str | None
) -> None:
    assert found(f"about 5 x {written} units", query, text_format)[0].page == 2
    assert found("about 103 units", query) == ()
    assert found(f"about {written} units", "103", text_format) == ()


@given(st.text(st.sampled_from("aZ019-_,.x× '’\n\xa0٣éأﻻ國²\u0301"), max_size=60))
def test_spellings_are_within_the_text_and_add_to_it(text: str) -> None:
    folded = fold(text)
    for start, end, other in other_spellings(folded):
        assert 0 <= start < end <= len(folded)
        assert other
    assert len(with_spellings(folded)) >= len(folded)
