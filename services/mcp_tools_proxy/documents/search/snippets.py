"""Finds the words of a query in a text, and cuts out the part to quote as a snippet."""

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.documents.search.analysis import (
    PAIRED_RUN,
    RUN,
    TERM_BYTES,
    Analysis,
    clean,
    original_offset,
)

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


_PLAIN = frozenset(string.ascii_letters + string.digits + "".join(map(chr, range(0x410, 0x450))))
"""ASCII and А to я: a word that begins with one has a term that begins with it in lower case.

Stemming changes endings only. Other letters may become one of these: ё is е, é is e, ﬁ is fi.
"""

SCANNED_CHARS = 50_000
"""Characters of a text searched for its snippet; only a document's own chunks are longer."""


@dataclass(frozen=True, slots=True)
class QuotedMatch:
    """A snippet of a text, and where it stands; ``match`` is where its rarest word does."""

    snippet: str
    match: int
    start: int
    end: int


class MatchFinder:
    """Finds the words of texts that have one of some terms; for one search."""

    def __init__(self, weights: Mapping[str, int], analysis: Analysis) -> None:
        self._weights = weights
        self._analysis = analysis
        self._skipped = _PLAIN.difference(*((term[0], term[0].upper()) for term in weights))
        self._pairs = [term for term in weights if PAIRED_RUN.fullmatch(term)]

    def find(self, text: str) -> list[Match]:
        """Return the matches in reading order.

        Only different runs with the first letter of a term are looked up: a tenth of the time of
        looking up all. Of words with humps ("UseCaseId") a part may have that letter.
        """
        skipped, weights, term_of_run = self._skipped, self._weights, self._analysis.term_of_run
        matches: list[Match] = []
        for run in set(RUN.findall(text)):
            if run[0] in skipped and run.isalnum() and (run.islower() or run.istitle()):
                continue
            term = term_of_run.get(run)
            if term is None:
                term = self._analysis.learn_run(run)
            if term not in weights:
                term = self._part_of(run) if not term else ""
            if term:
                matches += [(place, place + len(run), term) for place in _whole(text, run)]
        for pair in self._pairs:
            matches += [(place, place + len(pair), pair) for place in _all(text, pair)]
        matches.sort()
        return matches

    def quote(self, text: str, searched: str) -> QuotedMatch:
        """Return the snippet of a text that shows most; places are characters of that text.

        Matches are those of ``searched``, which may have spaces in place of parts of the text.
        """
        original = text[:SCANNED_CHARS]
        cleaned = clean(searched[:SCANNED_CHARS])
        matches = self.find(cleaned)
        start, end = best_span(matches, self._weights)
        shown = [it for it in matches if start <= it[0] < end]
        rarest = max(shown, key=lambda it: self._weights[it[2]])[0] if shown else start
        first, last, match = (original_offset(original, cleaned, it) for it in (start, end, rarest))
        found = excerpt(original, first, last)
        return QuotedMatch(clean(found.snippet), match, found.start, found.end)

    def _part_of(self, run: str) -> str:
        """Return the first term of a run of several words that has a weight; "" without."""
        terms = self._analysis.terms(run) if len(run) <= TERM_BYTES else ()
        return next((term for term in terms if term in self._weights), "")


def _whole(text: str, run: str) -> Iterator[int]:
    """Yield the places of a run that is no part of a longer one."""
    for place in _all(text, run):
        end = place + len(run)
        if not (place and RUN.match(text, place - 1, place)) and not RUN.match(text, end, end + 1):
            yield place


def _all(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)
