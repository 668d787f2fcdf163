from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.quotable_document import (
    MAX_MATCHES,
    MAX_TRIED,
    QuotableDocument,
)
from mcp_tools_proxy.domain.document import PageSpan
from tests.support.builders import make_document
from tests.support.examples import at_most
from tests.support.quotations import make_quotations
from tests.support.tables import each_row

FIRST = (
    "The instal-\nlation of the “ﬁrst”  well-known\nserver can't fail. It costs 10.5% of 1,000—as "
    "planned, at -5 degrees, in 2019–\n2020 and 10² times"
)
SECOND = (
    "in non-compliant cafe\u0301s.\n1. Then the “dog’s” tail co\xadmes.\n"
    "中文文字\n这里有 3 个，\n很多。"
)
PAGES = (FIRST, SECOND, "", "  On the last page the end-\n", "\nless text stands.")


def quoted(quote: str, pages: tuple[str, ...] = PAGES) -> list[str]:
    """Return the text of each match per page."""
    spans = QuotableDocument(make_document(pages=pages)).find(quote)
    return [pages[it.page - 1][it.start_char : it.end_char] for it in spans]


@each_row(
    ("quote", "text"),
    [
        ("It costs 10.5% of", "It costs 10.5% of"),
        ("  It   costs\n10.5%\tof ", "It costs 10.5% of"),
        ("installation of the", "instal-\nlation of the"),
        ("instal-lation of the", "instal-\nlation of the"),
        ("instal- lation of the", "instal-\nlation of the"),
        ('the "first" well-known server', "the “ﬁrst”  well-known\nserver"),
        ("the «first» well\u2011known server", "the “ﬁrst”  well-known\nserver"),
        ("server can’t fail", "server can't fail"),
        ("1,000-as planned", "1,000—as planned"),
        ("as planned, at", "as planned, at"),
        ("at −5 degrees", "at -5 degrees"),
        ("in 2019-2020 and", "in 2019–\n2020 and"),
        ("non-compliant cafés", "non-compliant cafe\u0301s"),
        ("dog's\" tail comes", "dog’s” tail co\xadmes"),
        ("中文文字这里有3个", "中文文字\n这里有 3 个"),
        ("有 3 个，很多。", "有 3 个，\n很多。"),
    ],
)
def test_a_quote_is_found_despite_different_typesetting(quote: str, text: str) -> None:
    assert quoted(quote) == [text]


@each_row(
    ("text", "quote"),
    [
        (text, quote)
        for text in ("Add 3 1/4 pints", "Add 3¼ pints", "Add 3\xa0¼ pints", "Add 3\n1⁄4 pints")
        for quote in ("3¼ pints", "Add 3 1/4", "3 ¼ pints")
    ]
    + [
        ("Use ¾ of it", "3/4 of"),
        ("Use 3/4 of it", "¾ of"),
        ("In 1998 1/3 of us", "⅓ of us"),
        ("On 5 10/12/2026", "10/12/2026"),
        ("1/4 1/2 3/4", "3/4"),
    ],
)
def test_a_fraction_is_found_in_each_spelling(text: str, quote: str) -> None:
    assert quoted(quote, (text,))


@each_row("text", ["Add 3 1/4 pints", "Add 3¼ pints", "Add 3 ¼ pints"])
def test_another_or_a_cut_fraction_is_not_found(text: str) -> None:
    others = ("3¾ pints", "2¼ pints", "31/4 pints", "¼ pints", "1/4 pints", "Add 3", "3 1/2 pints")
    assert not [quote for quote in others if quoted(quote, (text,))]


def test_a_fraction_in_a_cell_of_its_own_is_quoted_alone_or_with_the_row() -> None:
    page = "| n | size |\n| --- | --- |\n| 12 | 1/4 |"
    check = QuotableDocument(replace(make_document(pages=(page,)), text_format="markdown"))
    assert all(check.find(quote) for quote in ("¼", "12 1/4", "| 12 | ¼ |"))


@each_row(
    "quote",
    [
        "It costs 10.5",
        "It costs 10",
        "costs 10.5% of 1",
        "costs 11.5% of 1,000",
        "5 degrees, in",
        "5% of 1,000",
        "000—as planned",
        "2020 and 10²",
        "in 20192020 and",
        "and 102 times",
        "fail. It can",
        "server can fail",
        "server can",
        "compliant cafés",
        "noncompliant cafés",
        "in non-compliant cafe",
        "well known server",
        "wellknown server",
        "install-ation of the",
        "he instal-lation",
        ". Then the",
        "The first well-known",
        "the 'first' well-known",
        "It costs ... of 1,000",
        "it costs 10.5%",
        "\u200b" * 9,
    ],
)
def test_a_quote_with_other_words_is_not_found(quote: str) -> None:
    assert quoted(quote) == []


def test_a_quote_across_two_pages_has_a_place_on_both() -> None:
    assert quoted("as planned, at -5 degrees, in 2019-2020 and 10² times in non-compliant") == [
        FIRST[FIRST.index("as planned") :],
        "in non-compliant",
    ]


def test_a_word_hyphenated_across_two_pages_is_found() -> None:
    assert quoted("the endless text") == ["the end-", "less text"]


PRINTED = replace(
    make_document(pages=("They re-elect the coordinator of the A-B line.",)), text_format="plain"
)
"""A page like those of a PDF, whose divided words were joined, rightly or not."""


@each_row(
    ("quote", "is_found"),
    [
        ("They reelect the coordinator", True),
        ("re-elect the co-ordinator of", True),
        ("They re elect the", False),
        ("They elect the", False),
        ("the AB line", False),
        ("elect the coordinator", False),
    ],
)
def test_a_word_divided_at_the_end_of_a_line_matches_with_and_without_hyphen(
    quote: str, *, is_found: bool
) -> None:
    assert bool(QuotableDocument(PRINTED).find(quote)) == is_found


@each_row(
    ("quote", "is_found"),
    [
        ("players re-sign, they do not resign", True),
        ("players resign", False),
        ("do not re-sign", False),
        ("do not recover the sofa", True),
    ],
)
def test_words_that_a_document_has_with_and_without_hyphen_differ(
    quote: str, *, is_found: bool
) -> None:
    text = "The players re-sign, they do not resign. We re-cover it and do not recover the sofa."
    document = replace(make_document(pages=(text,)), text_format="plain")
    assert bool(QuotableDocument(document).find(quote)) == is_found


@each_row("space", [" ", "\n", " \n"])
@each_row("count", [2, 999, 1_000, 1_001, 1_002, 1_003, 2_002, 50_000])
def test_a_quote_matches_across_any_amount_of_white_space(space: str, count: int) -> None:
    page = f"The end.{space * count}A begin."
    assert quoted("The end. A begin.", (page,)) == [page]


@each_row("count", [2, 1_000, 1_001, 1_002, 2_003])
def test_words_around_a_line_of_hyphens_are_not_joined(count: int) -> None:
    page = f"A so{'-' * count}so-so end—with {'-' * count} “marks”."
    assert quoted(page.replace("—", "-").replace("“", '"'), (page,)) == [page]
    assert quoted(page.replace("so-so", "soso"), (page,)) == []
    assert quoted(page.replace("--", "-", 1), (page,)) == []


@each_row("words", ["ab- ", "a  b", "ab-\n", "a\u00a0 "])
def test_the_size_of_a_document_is_below_eight_times_its_text(words: str) -> None:
    page = words * 20_000
    assert QuotableDocument(make_document(pages=(page,))).size_bytes < 8 * len(page)


def test_only_the_first_places_of_a_frequent_quote_are_returned() -> None:
    pages = ("again and again. " * 9,) * 2
    places = [(1, 17 * at, 17 * at + 16) for at in range(9)] + [(2, 0, 16)]
    spans = QuotableDocument(make_document(pages=pages)).find("again and again.")
    assert (len(spans), spans) == (MAX_MATCHES, [PageSpan(*it) for it in places])


WORDS = st.lists(
    st.sampled_from(["und", "naïve", "cafe\u0301", "ﬂow", "10,5", "so-so", "中文", "“ja”", "it’s"]),
    min_size=3,
    max_size=30,
)
BREAKS = st.lists(
    st.sampled_from([" ", "\n", "  ", "\xa0", " \n ", "\f"]), min_size=30, max_size=30
)


@at_most(40)
@given(words=WORDS, breaks=BREAKS, data=st.data())
def test_whole_words_of_a_page_are_found_at_their_position(
    words: list[str], breaks: list[str], data: st.DataObject
) -> None:
    page = "".join(word + gap for word, gap in zip(words, breaks, strict=False))
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first + 1, len(words)))
    quote = " ".join(words[first:last])
    found = quoted(quote, (page,))
    assert quote in [" ".join(text.split()) for text in found] or len(found) == MAX_MATCHES


def test_almost_all_true_quotes_and_zero_altered_quotes_are_found() -> None:
    quotations = make_quotations(6_000)
    document = QuotableDocument(quotations.document)
    wrong = [(kind, it) for kind, it in quotations.false_quotes(300) if document.find(it)]
    missed = [it for it in quotations.true_quotes(300) if not document.find(it)]
    assert (wrong, missed[2:]) == ([], [])


def test_the_closest_passage_consists_of_whole_words() -> None:
    document = QuotableDocument(make_document(pages=PAGES))
    start = FIRST.index("costs")
    found = document.nearest("It costs 11.5% of 1,000", [PageSpan(1, start, start + 5)])
    assert found is not None
    assert (found.text, 0.9 < found.similarity < 1) == ("It costs 10.5% of 1,000", True)
    assert FIRST[found.span.start_char : found.span.end_char] == found.text


def test_the_most_similar_of_several_places_is_the_closest() -> None:
    pages = ("The pump holds 5 bar.", "The valve holds 6 bar at most.")
    document = QuotableDocument(make_document(pages=pages))
    near = [PageSpan(page, 0, 3) for page in (1, 2)]
    found = document.nearest("The valve holds 7 bar at most.", near)
    assert found is not None
    assert found.text == pages[1]


def test_a_quote_longer_than_the_document_has_a_closest_passage() -> None:
    document = QuotableDocument(make_document(pages=("A short text.",)))
    found = document.nearest("A short text. And more", [PageSpan(1, 0, 7)])
    assert found is not None
    assert found.text == "A short text."


def test_an_unrelated_quote_does_not_have_a_closest_passage() -> None:
    document = QuotableDocument(make_document(pages=PAGES))
    assert document.nearest("zzzz qqqq xxxx jjjj", [PageSpan(1, 0, 9)]) is None


@each_row(("others", "places"), [(MAX_TRIED - 1, 1), (MAX_TRIED, 0)])
def test_the_number_of_checked_candidates_is_bounded(others: int, places: int) -> None:
    page = "re-cover it all. " * others + "recover it all."
    assert quoted("recover it all.", (page,)) == ["recover it all."] * places


@each_row("quote", ["one two, " * 180 + "end", "一二三，" * 450 + "四"])
def test_a_long_quote_has_a_closest_passage_if_a_part_of_it_matches(quote: str) -> None:
    words = [f"{number} {quote[number % 9 :][:7]}." for number in range(200)]
    page = " ".join(words)
    passage = page[900:2800]
    document = QuotableDocument(make_document(pages=(page,)))
    changed = passage[:500] + "and this is new " + passage[500:1300] + passage[1320:]
    found = document.nearest(changed, [PageSpan(1, 1500, 2000)])
    assert found is not None
    assert found.similarity > 0.95
    assert abs(found.span.start_char - 900) < 40


@each_row("mark", ["6- ", "12- ", "a- ", "(b- ", "§6- ", "6 - ", "a) ", "6. "])
def test_a_quote_can_start_after_the_mark_of_its_line(mark: str) -> None:
    pages = (f"The rules\n  {mark}Each late return costs a fee.\n",)
    assert quoted("Each late return costs", pages) == ["Each late return costs"]


@each_row("text", ["a 6- to 8-week plan", "a 6-\nmonth plan", "6-month plan", "6- 8 months"])
def test_a_quote_cannot_start_within_a_word_with_a_number(text: str) -> None:
    for quote in ("to 8-week plan", "month plan", "8 months"):
        assert quoted(quote, (text,)) == []
