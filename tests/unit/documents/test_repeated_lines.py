"""Running titles and page numbers are not searched, and nothing else is left out."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search.searched_text import MAX_PAGES, blanked, repeated_spans

BODIES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"]


def searched_pages(pages: Sequence[str]) -> tuple[str, ...]:
    """Return the pages as they are searched."""
    return tuple(
        blanked(text, spans) for text, spans in zip(pages, repeated_spans(pages), strict=True)
    )


def searched(pages: Sequence[str]) -> list[str]:
    """Return what is searched of each page, its white space folded."""
    return [" ".join(text.split()) for text in searched_pages(pages)]


def test_a_running_title_stays_on_the_first_page_only() -> None:
    pages = [f"Handbook\n{body} text\nof {body}" for body in BODIES[:4]]
    assert searched(pages) == [
        "Handbook alpha text of alpha",
        "beta text of beta",
        "gamma text of gamma",
        "delta text of delta",
    ]


def test_page_numbers_go_from_every_page_whatever_they_begin_with() -> None:
    pages = [f"{body}\n{number}" for number, body in enumerate(BODIES, start=17)]
    assert searched(pages) == BODIES


def test_a_title_with_the_number_of_the_page_is_one_line() -> None:
    pages = [
        f"Page {number} of 9 | ACME 2.3\n{body}" for number, body in enumerate(BODIES, start=1)
    ]
    assert searched(pages) == ["Page 1 of 9 | ACME 2.3 alpha", *BODIES[1:]]


def test_titles_may_differ_on_the_left_and_on_the_right() -> None:
    pages = [
        f"{'Handbook' if number % 2 else 'Travel'}\n{body}" for number, body in enumerate(BODIES)
    ]
    assert searched(pages) == ["Travel alpha", "Handbook beta", *BODIES[2:]]


def test_a_line_on_two_pages_is_text() -> None:
    pages = ["Costs\nalpha", "Costs\nbeta", "Other\ngamma", "More\ndelta"]
    assert searched_pages(pages) == tuple(pages)


def test_a_line_on_pages_far_from_each_other_is_text() -> None:
    pages = [f"{'Summary' if number % 6 == 0 else body}\nx{body}" for number, body in
             enumerate(BODIES + [f"{it}2" for it in BODIES])]  # fmt: skip
    assert searched_pages(pages) == tuple(pages)


def test_lines_that_differ_in_a_number_are_text() -> None:
    """Table 3, 7 and 20 are three tables; only what counts with the pages is a page's number."""
    pages = [
        f"Table {number}\n{body}" for number, body in zip((3, 7, 20, 4), BODIES[:4], strict=True)
    ]
    assert searched_pages(pages) == tuple(pages)


def test_a_line_in_the_middle_of_pages_is_text() -> None:
    around = [f"{body} {n}" for body in BODIES[:4] for n in ("one", "two", "three")]
    pages = [
        "\n".join([*around[3 * at : 3 * at + 3], "Warning", *around[3 * at : 3 * at + 3]])
        for at in range(4)
    ]
    assert searched_pages(pages) == tuple(pages)


def test_the_same_figures_under_tables_stay_on_one_page() -> None:
    pages = [f"{body}\n0 0 0" for body in BODIES[:4]]
    assert searched(pages) == ["alpha 0 0 0", "beta", "gamma", "delta"]


LINES = st.lists(st.sampled_from(["Handbook", "alpha", "Page 1", "7", "", " ", "0 0"]), max_size=8)


@given(st.lists(LINES.map("\n".join), max_size=9))
def test_every_other_character_stays_in_its_place(pages: list[str]) -> None:
    for text, shown, spans in zip(pages, searched_pages(pages), repeated_spans(pages), strict=True):
        assert len(shown) == len(text)
        left_out = {at for start, end in spans for at in range(start, end)}
        assert [shown[at] for at in range(len(text))] == [
            " " if at in left_out else text[at] for at in range(len(text))
        ]


@given(st.lists(LINES.map("\n".join), max_size=9))
def test_each_word_is_still_found_on_a_page(pages: list[str]) -> None:
    words = {word for text in pages for word in text.split() if not word.isdigit()}
    assert words == {
        word for text in searched_pages(pages) for word in text.split() if not word.isdigit()
    }


def test_a_page_with_nothing_else_keeps_its_lines() -> None:
    assert searched_pages(["Annex"] * 5) == ("Annex",) * 5


def test_pages_of_a_document_over_the_limit_are_searched_whole() -> None:
    pages = [f"Handbook\n{BODIES[number % len(BODIES)]}" for number in range(MAX_PAGES + 1)]
    assert set(repeated_spans(pages)) == {()}
    assert set(repeated_spans(pages[:9])) != {()}
