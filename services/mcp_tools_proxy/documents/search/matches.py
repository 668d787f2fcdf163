"""Finds the words of a text whose terms were searched for."""

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mcp_tools_proxy.documents.search.analysis import (
    PAIRED_RUN,
    RUN,
    TERM_BYTES,
    Analysis,
    clean,
    original_offset,
)
from mcp_tools_proxy.documents.search.snippets import Match, best_span, excerpt

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
