"""Conversion of queries to content words with their matching terms.

These include similar terms of the document: compounds, derivations, parts and misspellings.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import tantivy

from mcp_tools_proxy.documents.search.analysis import (
    PAIRED_RUN,
    WORD,
    Analysis,
    clean,
    without_letter_spaces,
)
from mcp_tools_proxy.documents.search.spellings import with_spellings
from mcp_tools_proxy.domain.fast_dataclass import dataclass

CHUNK_TEXT = "text"
PAGE_TEXT = "page_text"
"""Text of a whole page, in the entry of its first chunk."""

PLACE = "place"
TOKENIZER = "words"

QUERY_CHARS = 10_000
"""Longest query in characters; the rest is ignored (the tool allows 1,000, contract §2)."""

QUERY_TERMS = 256
"""Maximum distinct terms of a query."""

OFTEN = 20
"""Similar terms are not looked up for a term in more chunks than this. The lookup takes most of the
search time, and skipping it costs little: 0.95 instead of 0.96 of the questions in the tuning half,
none of the headings."""

_KNOWN_CONCEPTS = 256
"""Cached concepts per index: the lookup of similar terms takes half of a search."""

Related = Callable[[str, bool], Mapping[str, float]]
"""Returns similar terms with weights; the second argument says whether the document contains the
term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldQueries:
    """The queries for a concept in one field.

    ``scoring`` has the BM25 score of the best term, ``covering`` the concept's weight for any
    match.
    """

    scoring: tantivy.Query
    covering: tantivy.Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """A query word with its term and the similar terms in the document.

    ``weight`` is the IDF of the word's own term, or the highest IDF of the similar terms. ``terms``
    has the weight of each term in snippets.
    """

    weight: float
    terms: Mapping[str, int]
    queries: Mapping[str, FieldQueries]


class Concepts:
    """Finds, and caches, the concepts of queries in one index."""

    def __init__(
        self,
        *,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        chunk_count: int,
        analysis: Analysis,
        related: Related,
    ) -> None:
        self._schema = schema
        self._searcher = searcher
        self._chunk_count = chunk_count
        self._analysis = analysis
        self._related = related
        self._concept = lru_cache(_KNOWN_CONCEPTS)(self._new_concept)

    def of(self, query: str) -> Sequence[Concept]:
        """Return the concepts of a query's content words, or of all words if none match."""
        text = query[:QUERY_CHARS]
        return self._known(self._analysis.content_terms(text)) or self._known(
            self._analysis.terms(text)
        )

    def has_all(self, query: str) -> bool:
        """Return whether every content word of a query has a match."""
        terms = self._analysis.content_terms(query[:QUERY_CHARS])
        return all(self._concept(term) is not None for term in terms)

    def _known(self, terms: Iterable[str]) -> Sequence[Concept]:
        concepts = filter(None, map(self._concept, dict.fromkeys(terms)))
        return tuple(islice(concepts, QUERY_TERMS))

    def _new_concept(self, term: str) -> Concept | None:
        own = self._weight(term)
        seen_in = self._searcher.doc_freq(CHUNK_TEXT, term)
        related = self._related(term, own > 0) if seen_in <= OFTEN else {}
        others = {other: (share, self._weight(other)) for other, share in related.items()}
        weight = own or max((idf for _, idf in others.values()), default=0)
        # so that a rare similar term does not outweigh the query's own term
        boosts = {term: 1.0} if own else {}
        boosts |= {other: share * weight / idf for other, (share, idf) in others.items()}
        if not boosts:
            return None
        return Concept(
            weight=weight,
            terms=snippet_weights(weight, boosts),
            queries={
                field: field_queries(self._schema, field, weight, boosts)
                for field in (CHUNK_TEXT, PAGE_TEXT)
            },
        )

    def _weight(self, term: str) -> float:
        return rarity(self._searcher.doc_freq(CHUNK_TEXT, term), self._chunk_count)


def rarity(seen_in: int, count: int) -> float:
    """Return the IDF of a term in ``seen_in`` of ``count`` texts; 0 if in none."""
    if not seen_in:
        return 0
    return math.log1p((max(count - seen_in, 0) + 0.5) / (seen_in + 0.5))


def field_queries(
    schema: tantivy.Schema, field: str, weight: float, boosts: Mapping[str, float]
) -> FieldQueries:
    """Build the queries for the terms of one word, each with its boost."""
    terms = {term: tantivy.Query.term_query(schema, field, term, "freq") for term in boosts}
    scoring = [
        terms[term] if boost == 1 else tantivy.Query.boost_query(terms[term], boost)
        for term, boost in boosts.items()
    ]
    if len(scoring) == 1:
        (own,) = terms.values()
        return FieldQueries(
            scoring=scoring[0], covering=tantivy.Query.const_score_query(own, weight)
        )
    return FieldQueries(
        scoring=tantivy.Query.disjunction_max_query(scoring),
        covering=tantivy.Query.const_score_query(any_of(terms.values()), weight),
    )


def snippet_weights(weight: float, boosts: Mapping[str, float]) -> Mapping[str, int]:
    """Return the snippet weight of each term of a word."""
    return {term: math.ceil(weight * min(boost, 1) * 1000) for term, boost in boosts.items()}


def heaviest(of_words: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """Merge the snippet weights of several words; the largest weight of a term wins."""
    weights: dict[str, int] = {}
    for terms in of_words:
        for term, weight in terms.items():
            weights[term] = max(weights.get(term, 1), weight)
    return weights


def words_of(query: str) -> Sequence[str]:
    """Return the distinct words of a query in all spellings, at most QUERY_TERMS."""
    text = with_spellings(without_letter_spaces(clean(query[:QUERY_CHARS])))
    return list(islice(dict.fromkeys(WORD.findall(text)), QUERY_TERMS))


def any_of(queries: Iterable[tantivy.Query]) -> tantivy.Query:
    """Return a query that matches any of the queries and adds their scores."""
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


_LEAST_CHARS = 4
"""Shorter terms have too many similar ones."""

_EDGE_CHARS = 3
"""Letters at the start or end that a misspelling keeps."""

_LEAST_BEGINNING = 0.7
"""Minimum share of a common beginning in the longer of two terms."""

_MOST_SLIPPED = 2
"""Maximum adjacent letters that differ in a misspelling."""

_WEIGHT = 0.5
"""Maximum weight of a similar term. Top-three hits in the tuning half of the questions: 0.95 with
it, 0.93 with half of it, 0.91 without similar terms."""

_MOST_RELATED = 4
"""Maximum similar terms per term."""


class Vocabulary:
    """The terms of one document in one string: a tenth of the memory of a list."""

    def __init__(self, terms: Iterable[str]) -> None:
        self._text = "\n" + "\n".join(terms) + "\n"

    def related(self, term: str, is_known: bool) -> Mapping[str, float]:
        """Return terms similar to ``term``, without itself, with weights (< 1).

        For a term in the document (``is_known``): terms that contain it or share its beginning.
        Otherwise also its parts and misspellings.
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
        """Return compounds and identifiers that contain a term."""
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
        """Yield the terms that contain ``part``; a line break in it matches the edge of a term."""
        text, place = self._text, 0
        while (place := text.find(part, place)) >= 0:
            begin = text.rfind("\n", 0, place + 1) + 1
            end = text.index("\n", max(begin, place + len(part) - 1))
            yield text[begin:end]
            place = end


def _common_beginning(one: str, other: str) -> int:
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
