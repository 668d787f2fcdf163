"""Fuses the rank by words with the rank by meaning; exact places keep their rank by words."""

from collections.abc import Collection, Sequence

from mcp_tools_proxy.documents.search.ranking import order

KEPT = 3
"""Ranks that an exact place keeps, or betters."""

_DAMPING = 60
"""Of reciprocal rank fusion: how little the first ranks differ (Cormack and others, 2009)."""


def fuse(
    by_words: Sequence[int],
    by_meaning: Sequence[int],
    *,
    exact: Collection[int],
    pages: Sequence[int],
    max_results: int,
) -> Sequence[tuple[int, float]]:
    """Return the best places of two ranks with their scores, falling.

    A place that is ``exact`` and among the first three by words comes no later than there. Else
    the sum of the reciprocal ranks decides, and a page's second place counts less.
    """
    scores: dict[int, float] = {}
    for ranked in (by_words, by_meaning):
        for rank, place in enumerate(ranked, start=1):
            scores[place] = scores.get(place, 0) + (_DAMPING + 1) / (_DAMPING + rank)
    fused = order(scores, pages, len(scores))
    kept = [place for place in by_words[:KEPT] if place in exact]
    places = _with_kept([place for place, _ in fused], by_words, kept)[:max_results]
    return _falling(places, dict(fused))


def _with_kept(fused: Sequence[int], by_words: Sequence[int], kept: Collection[int]) -> list[int]:
    """Return the fused places in order, with those to keep no later than by words."""
    places = list(fused)
    for rank, place in enumerate(by_words[:KEPT]):
        if place in kept and places.index(place) > rank:
            places.remove(place)
            places.insert(rank, place)
    return places


def _falling(places: Sequence[int], scores: dict[int, float]) -> Sequence[tuple[int, float]]:
    """Return places with scores; one that was moved forward has the next one's at least."""
    ranked: list[tuple[int, float]] = []
    score = 0.0
    for place in reversed(places):
        score = max(score, scores[place])
        ranked.append((place, score))
    return ranked[::-1]
