"""Running titles and page numbers are excluded from search; other text is not."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search.searched_text import MAX_PAGES, blanked, repeated_spans

BODIES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"]


def searched_pages(pages: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        blanked(text, spans) for text, spans in zip(pages, repeated_spans(pages), strict=True)
    )


def searched(pages: Sequence[str]) -> list[str]:
    """Return the searchable text of each page with white space collapsed."""
    return [" ".join(text.split()) for text in searched_pages(pages)]


def test_a_running_title_stays_on_the_first_page_only() -> None:
    pages = [f"Handbook\n{body} text\nof {body}" for body in BODIES[:4]]
    assert searched(pages) == [
        "Handbook alpha text of alpha",
        "beta text of beta",
        "gamma text of gamma",
        "delta text of delta",
    ]


def test_page_numbers_are_removed_from_every_page_with_any_first_number() -> None:
    pages = [f"{body}\n{number}" for number, body in enumerate(BODIES, start=17)]
    assert searched(pages) == BODIES


def test_a_running_title_with_the_page_number_is_recognized() -> None:
    pages = [
        f"Page {number} of 9 | ACME 2.3\n{body}" for number, body in enumerate(BODIES, start=1)
    ]
    assert searched(pages) == ["Page 1 of 9 | ACME 2.3 alpha", *BODIES[1:]]


def test_running_titles_of_left_and_right_pages_can_differ() -> None:
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
    """Tables 3, 7 and 20 are different tables; a page number increases with the pages."""
    pages = [
        f"Table {number}\n{body}" for number, body in zip((3, 7, 20, 4), BODIES[:4], strict=True)
    ]
    assert searched_pages(pages) == tuple(pages)


def test_a_repeated_line_in_the_middle_of_pages_is_text() -> None:
    around = [f"{body} {n}" for body in BODIES[:4] for n in ("one", "two", "three")]
    pages = [
        "\n".join([*around[3 * at : 3 * at + 3], "Warning", *around[3 * at : 3 * at + 3]])
        for at in range(4)
    ]
    assert searched_pages(pages) == tuple(pages)


def test_repeated_figures_under_tables_stay_on_one_page() -> None:
    pages = [f"{body}\n0 0 0" for body in BODIES[:4]]
    assert searched(pages) == ["alpha 0 0 0", "beta", "gamma", "delta"]


LINES = st.lists(st.sampled_from(["Handbook", "alpha", "Page 1", "7", "", " ", "0 0"]), max_size=8)


@given(st.lists(LINES.map("\n".join), max_size=9))
def test_all_other_characters_keep_their_positions(pages: list[str]) -> None:
    for text, shown, spans in zip(pages, searched_pages(pages), repeated_spans(pages), strict=True):
        assert len(shown) == len(text)
        left_out = {at for start, end in spans for at in range(start, end)}
        assert [shown[at] for at in range(len(text))] == [
            " " if at in left_out else text[at] for at in range(len(text))
        ]


@given(st.lists(LINES.map("\n".join), max_size=9))
def test_each_word_is_still_found_on_at_least_one_page(pages: list[str]) -> None:
    words = {word for text in pages for word in text.split() if not word.isdigit()}
    assert words == {
        word for text in searched_pages(pages) for word in text.split() if not word.isdigit()
    }


def test_a_page_with_only_repeated_lines_keeps_them() -> None:
    assert searched_pages(["Annex"] * 5) == ("Annex",) * 5


def test_documents_over_the_limit_are_searched_completely() -> None:
    pages = [f"Handbook\n{BODIES[number % len(BODIES)]}" for number in range(MAX_PAGES + 1)]
    assert set(repeated_spans(pages)) == {()}
    assert set(repeated_spans(pages[:9])) != {()}
