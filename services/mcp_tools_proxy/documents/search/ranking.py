"""Which chunks come first: scores of chunks and pages fused, listings last, pages by turns.

Ranks by words and by meaning are fused as well.
"""

from collections.abc import Collection, Mapping, Sequence

PAGE_WEIGHT = 0.8
"""What a page's score counts beside its chunk's. On the headings of the manuals, taken out of their
pages, MRR is 0.60 without, 0.61 with 0.4, 0.62 with 0.8 and with 1.2."""

LISTING_FACTOR = 0.15
"""What a listing counts. On the headings as above MRR is 0.45 with 1, 0.61 with 0.25, 0.62 with
0.15."""

SAME_PAGE_FACTOR = 0.6
"""What each further chunk of a page counts. On the tuning half 0.92 of the questions are among the
first three with 1, 0.95 with 0.7 and less."""

Scores = Mapping[int, float]

KEPT = 3
"""Ranks that an exact place keeps, or betters."""

_DAMPING = 60
"""Of reciprocal rank fusion: how little the first ranks differ (Cormack and others, 2009)."""


def covered(scores: Scores, weights: Scores, total: float) -> dict[int, float]:
    """Return scores by how much of the query's weight (``total``) each place covers.

    On the tuning half 0.96 of the questions are among the first three with it, 0.92 without; with
    the square root of it 0.93, with its power of 1.5 0.95.
    """
    least = min(weights.values(), default=0)
    return {place: score * weights.get(place, least) / total for place, score in scores.items()}


def order(scores: Scores, pages: Sequence[int], max_results: int) -> Sequence[tuple[int, float]]:
    """Return the best places with their scores, falling; those of equal score in reading order.

    ``pages`` has the page of each place. A page's second place counts less than its first, so it
    comes before other pages only where it is clearly better.
    """
    factors: dict[int, float] = {}
    ranked: list[tuple[float, int]] = []
    for score, place in sorted((-score, place) for place, score in scores.items()):
        page = pages[place]
        factor = factors.get(page, 1.0)
        factors[page] = factor * SAME_PAGE_FACTOR
        ranked.append((round(score * factor, 4), place))
        if len(factors) == max_results:  # no later place can come before the first of these pages
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
