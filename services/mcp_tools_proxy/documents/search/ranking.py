"""Ranking of chunks: combines scores of chunks and pages, demotes listings, mixes pages.

Also fuses the rankings by words and by meaning.
"""

from collections.abc import Collection, Mapping, Sequence

PAGE_WEIGHT = 0.8
"""Weight of a page's score added to its chunks. On headings of manuals removed from their pages,
MRR is 0.60 without, 0.61 with 0.4, 0.62 with 0.8 and with 1.2."""

LISTING_FACTOR = 0.15
"""Factor for listings. On the same headings, MRR is 0.45 with 1, 0.61 with 0.25, 0.62 with 0.15."""

SAME_PAGE_FACTOR = 0.6
"""Factor for each further chunk of a page. Top-three hits in the tuning half of the questions: 0.92
with 1, 0.95 with 0.7 and less."""

Scores = Mapping[int, float]

KEPT = 3
"""Ranks within which an exact match keeps or improves its rank."""

_DAMPING = 60
"""Damping of reciprocal rank fusion (Cormack and others, 2009): higher values reduce the
advantage of the first ranks."""


def covered(scores: Scores, weights: Scores, total: float) -> dict[int, float]:
    """Scale scores by the covered share of the query's weight (``total``).

    Top-three hits in the tuning half of the questions: 0.96 with it, 0.92 without, 0.93 with its
    square root, 0.95 with its power of 1.5.
    """
    least = min(weights.values(), default=0)
    return {place: score * weights.get(place, least) / total for place, score in scores.items()}


def order(scores: Scores, pages: Sequence[int], max_results: int) -> Sequence[tuple[int, float]]:
    """Return the best positions with descending scores; equal scores in reading order.

    ``pages`` has the page of each position. Further positions of a page are demoted, so they
    precede other pages only if clearly better.
    """
    factors: dict[int, float] = {}
    ranked: list[tuple[float, int]] = []
    for score, place in sorted((-score, place) for place, score in scores.items()):
        page = pages[place]
        factor = factors.get(page, 1.0)
        factors[page] = factor * SAME_PAGE_FACTOR
        ranked.append((round(score * factor, 4), place))
        if len(factors) == max_results:  # later positions cannot outrank these pages
            break
    ranked.sort()
    return [(place, -score) for score, place in ranked[:max_results]]


def fuse(
    by_words: Sequence[int],
    by_meaning: Sequence[int],
    *,
    exact: Collection[int],
    pages: Sequence[int],
    max_results: int,
) -> Sequence[tuple[int, float]]:
    """Fuse two rankings; return the best positions with descending scores.

    The sum of reciprocal ranks decides, and further positions of a page are demoted; but an
    ``exact`` position in the top three by words keeps at least its rank.
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
    """Return the fused order with the kept positions no later than in ``by_words``."""
    places = list(fused)
    for rank, place in enumerate(by_words[:KEPT]):
        if place in kept and places.index(place) > rank:
            places.remove(place)
            places.insert(rank, place)
    return places


def _falling(places: Sequence[int], scores: dict[int, float]) -> Sequence[tuple[int, float]]:
    """Return positions with scores, raised if necessary to be descending."""
    ranked: list[tuple[int, float]] = []
    score = 0.0
    for place in reversed(places):
        score = max(score, scores[place])
        ranked.append((place, score))
    return ranked[::-1]
