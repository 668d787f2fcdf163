"""Fusion of two rankings: an exact match keeps its rank regardless of vectors."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search.ranking import KEPT, fuse
from tests.support.tables import each_row

PLACES = st.lists(st.integers(0, 40), unique=True, max_size=24)


@given(
    by_words=PLACES,
    by_meaning=PLACES,
    exact=st.sets(st.integers(0, 40)),
    pages=st.lists(st.integers(1, 12), min_size=41, max_size=41),
    max_results=st.integers(1, 10),
)
def test_an_exact_match_among_the_first_three_stays_there(
    by_words: list[int],
    by_meaning: list[int],
    exact: set[int],
    pages: list[int],
    max_results: int,
) -> None:
    fused = fuse(by_words, by_meaning, exact=exact, pages=pages, max_results=max_results)

    places = [place for place, _ in fused]
    scores = [score for _, score in fused]
    for rank, place in enumerate(by_words[: min(KEPT, max_results)]):
        assert place not in exact or place in places[: rank + 1]
    assert len(set(places)) == len(places) == min(max_results, len({*by_words, *by_meaning}))
    assert set(places) <= {*by_words, *by_meaning}
    assert scores == sorted(scores, reverse=True)


def test_without_exact_matches_both_ranks_have_equal_weight() -> None:
    fused = fuse([1, 2, 3], [3, 4], exact=(), pages=range(10), max_results=4)

    assert [place for place, _ in fused] == [3, 1, 2, 4]


def test_fewer_results_are_a_prefix_of_more_results() -> None:
    more = fuse([1, 2, 3], [9, 8, 7], exact={2}, pages=range(10), max_results=5)
    fewer = fuse([1, 2, 3], [9, 8, 7], exact={2}, pages=range(10), max_results=2)

    assert [place for place, _ in fewer] == [place for place, _ in more][:2]


@each_row("by_words", [[], [5]])
def test_a_place_not_found_by_words_is_found_by_meaning(by_words: list[int]) -> None:
    fused = fuse(by_words, [7], exact=(), pages=range(10), max_results=3)

    assert 7 in [place for place, _ in fused]
