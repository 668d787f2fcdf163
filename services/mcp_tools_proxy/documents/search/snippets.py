"""Chooses the part of a text to quote for a query, and cuts it out as a snippet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SNIPPET_CHARS = 300
"""A snippet's largest length in characters, ellipses included."""

CLUSTER_CHARS = 240
"""Largest span of the matches that one snippet quotes; the rest of a snippet is context."""

Span = tuple[int, int]
"""Start and end (exclusive) in a text, in characters."""

Match = tuple[int, int, str]
"""Start and end (exclusive) of a word, in characters, and the query's term it is a form of.

A plain tuple: a search makes hundreds, and they would take longer than the engine's own work.
"""


def best_span(matches: Sequence[Match], weights: Mapping[str, int]) -> Span:
    """Return the span whose different terms weigh most; of equal ones that with most matches.

    ``matches`` are in reading order; each one's term has a weight ≥ 1. Of spans that are equal in
    both the first one is returned; (0, 0) without matches.
    """
    if not matches:
        return 0, 0
    inside = dict.fromkeys(weights, 0)
    weight = first = 0
    best_weight = best_count = best_first = best_last = 0
    begin = matches[0][0]
    for last, (_, end, term) in enumerate(matches):
        if not inside[term]:
            weight += weights[term]
        inside[term] += 1
        while end - begin > CLUSTER_CHARS and first < last:
            dropped = matches[first][2]
            inside[dropped] -= 1
            if not inside[dropped]:
                weight -= weights[dropped]
            first += 1
            begin = matches[first][0]
        count = last - first + 1
        if weight > best_weight or (weight == best_weight and count > best_count):
            best_weight, best_count, best_first, best_last = weight, count, first, last
    return matches[best_first][0], matches[best_last][1]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A snippet, and where its words stand in the text; the ellipses stand nowhere."""

    snippet: str
    start: int
    end: int


def excerpt(text: str, start: int, end: int) -> Excerpt:
    """Return the surroundings of ``text[start:end]`` in one line, whole words, centred.

    At most SNIPPET_CHARS long; "…" marks omitted text. A word that does not fit is cut.
    """
    width = SNIPPET_CHARS - 2
    left = max(0, min((start + end - width) // 2, len(text) - width))
    right = min(len(text), left + width)
    words = text[left:right].split()
    first, last = left, right
    if _inside_word(text, left) and len(words[0]) <= start - left:
        first += len(words.pop(0))
    if _inside_word(text, right) and len(words[-1]) <= right - end and len(words) > 1:
        last -= len(words.pop())
    before = "…" if left and not text[:left].isspace() else ""
    after = "…" if right < len(text) and not text[right:].isspace() else ""
    shown = text[first:last]
    return Excerpt(
        snippet=before + " ".join(words) + after,
        start=first + len(shown) - len(shown.lstrip()),
        end=first + len(shown.rstrip()) if words else first,
    )


def end_of_words(text: str, start: int, words: Sequence[str]) -> int | None:
    """Return where words end that stand from ``start`` on with white space between; else None."""
    end = start
    for word in words:
        while end < len(text) and text[end].isspace():
            end += 1
        if not text.startswith(word, end):
            return None
        end += len(word)
    return end


def _inside_word(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    return not (text[place - 1].isspace() or text[place].isspace())
