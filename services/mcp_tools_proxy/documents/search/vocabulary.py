"""The terms of a document that resemble a query's: compounds, derivations, parts, slips."""

from collections.abc import Iterable, Iterator, Mapping

from mcp_tools_proxy.documents.search.analysis import PAIRED_RUN

_LEAST_CHARS = 4
"""Shorter terms resemble too much."""

_EDGE_CHARS = 3
"""Letters at the begin or at the end that a slip leaves alone."""

_LEAST_BEGINNING = 0.7
"""Least part of the longer of two terms that a common beginning makes up."""

_MOST_SLIPPED = 2
"""Most neighbouring letters of either term that differ by a slip of the pen."""

_WEIGHT = 0.5
"""What a term counts at most that only resembles. On the tuning half 0.95 of the questions are
among the first three with it, 0.93 with half of it, 0.91 without such terms."""

_MOST_RELATED = 4
"""Most terms that are looked up beside one."""


class Vocabulary:
    """The terms of one document, in one string: a tenth of the memory of a list."""

    def __init__(self, terms: Iterable[str]) -> None:
        self._text = "\n" + "\n".join(terms) + "\n"

    def related(self, term: str, is_known: bool) -> Mapping[str, float]:
        """Return terms that resemble one, without itself, with how much they count for it (< 1).

        For a term that the document has (``is_known``) those that contain it or begin like it; for
        another one its parts and slips, too.
        """
        if PAIRED_RUN.fullmatch(term):  # a single character is part of pairs
            found = dict.fromkeys(self._containing(term), _WEIGHT) if len(term) == 1 else {}
        elif len(term) < _LEAST_CHARS:
            return {}
        else:
            found = self._containers(term) | self._with_equal_beginning(term)
            if not is_known:
                found |= self._parts_and_slips(term)
        found.pop(term, None)
        best = sorted(found, key=lambda other: (-found[other], other))[:_MOST_RELATED]
        return {other: found[other] for other in best}

    def _containers(self, term: str) -> dict[str, float]:
        """Return compounds, and identifiers, that a term is part of."""
        return {
            other: _WEIGHT * (len(term) / len(other)) ** 0.5 for other in self._containing(term)
        }

    def _with_equal_beginning(self, term: str) -> dict[str, float]:
        """Return derivations: terms that differ in their last letters only."""
        found: dict[str, float] = {}
        beginning = term[: max(_LEAST_CHARS, round(len(term) * _LEAST_BEGINNING))]
        for other in self._containing("\n" + beginning):
            share = _common_beginning(term, other) / max(len(term), len(other))
            if share >= _LEAST_BEGINNING:
                found[other] = _WEIGHT * share
        return found

    def _parts_and_slips(self, term: str) -> dict[str, float]:
        found: dict[str, float] = {}
        edges = ("\n" + term[:_EDGE_CHARS], term[-_EDGE_CHARS:] + "\n")
        for edge in edges:
            for other in self._containing(edge):
                if len(other) >= _LEAST_CHARS and term.startswith(other) | term.endswith(other):
                    found[other] = _WEIGHT * (len(other) / len(term)) ** 0.5
                elif _is_slip(term, other):
                    found[other] = _WEIGHT
        return found

    def _containing(self, part: str) -> Iterator[str]:
        """Yield the terms that contain a part; a line break in it is an edge of the term."""
        text, place = self._text, 0
        while (place := text.find(part, place)) >= 0:
            begin = text.rfind("\n", 0, place + 1) + 1
            end = text.index("\n", max(begin, place + len(part) - 1))
            yield text[begin:end]
            place = end


def _common_beginning(one: str, other: str) -> int:
    """Return how many characters two terms have in common at their begin."""
    for n, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return n
    return min(len(one), len(other))


def _is_slip(one: str, other: str) -> bool:
    """Return whether two terms differ in one place only, by few letters."""
    if abs(len(one) - len(other)) > _MOST_SLIPPED or min(len(one), len(other)) < _LEAST_CHARS:
        return False
    begin = _common_beginning(one, other)
    end = _common_beginning(one[begin:][::-1], other[begin:][::-1])
    return max(len(one), len(other)) - begin - end <= _MOST_SLIPPED
