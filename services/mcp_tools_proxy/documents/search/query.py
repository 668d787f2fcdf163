"""What a query asks an index for: its content words, each with the terms that stand for it."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import tantivy

from mcp_tools_proxy.documents.search.analysis import WORD, Analysis, clean
from mcp_tools_proxy.documents.search.fields import CHUNK_TEXT, PAGE_TEXT

QUERY_CHARS = 10_000
"""Longest query, in characters; the rest is ignored (the tool itself allows 1,000, contract §2)."""

QUERY_TERMS = 256
"""Most different terms of a query that are looked up."""

OFTEN = 20
"""Chunks in which a term is found often enough: what resembles it is looked up no longer. That
takes longest, and finds as many of the tuning half (0.95 instead of 0.96) and of the headings."""

_KNOWN_CONCEPTS = 256
"""Concepts that an index remembers: what resembles a term takes half of a search."""

Related = Callable[[str, bool], Mapping[str, float]]
"""Returns the terms that resemble one, with their weights; whether the document has it is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldQueries:
    """The queries for a concept in one field.

    ``scoring`` scores the best of its terms (BM25), ``covering`` its weight where any of them is.
    """

    scoring: tantivy.Query
    covering: tantivy.Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """A word of a query: its term, and those that resemble it, that the document has.

    ``weight`` (IDF) is that of the rarest of what the document has of it. ``terms`` has what each
    term weighs in a snippet.
    """

    weight: float
    terms: Mapping[str, int]
    queries: Mapping[str, FieldQueries]


class Concepts:
    """Finds the concepts of queries in one index, and remembers those met last."""

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
        """Return what the document has of a query: of its content words, else of any."""
        text = query[:QUERY_CHARS]
        return self._known(self._analysis.content_terms(text)) or self._known(
            self._analysis.terms(text)
        )

    def has_all(self, query: str) -> bool:
        """Return whether the document has something of each content word of a query."""
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
        # a rare term that only resembles is to count less than the query's own, however frequent
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
        """Return a term's IDF; 0 if the document has it nowhere."""
        return rarity(self._searcher.doc_freq(CHUNK_TEXT, term), self._chunk_count)


def rarity(seen_in: int, count: int) -> float:
    """Return the IDF of a term that ``seen_in`` of ``count`` texts have; 0 if none has it."""
    if not seen_in:
        return 0
    return math.log1p((max(count - seen_in, 0) + 0.5) / (seen_in + 0.5))


def field_queries(
    schema: tantivy.Schema, field: str, weight: float, boosts: Mapping[str, float]
) -> FieldQueries:
    """Build the queries for terms that stand for one word, each with its boost."""
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
    """Return what each term that stands for a word weighs in a snippet."""
    return {term: math.ceil(weight * min(boost, 1) * 1000) for term, boost in boosts.items()}


def heaviest(of_words: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """Return the weights of all terms, each the largest that it has for any word."""
    weights: dict[str, int] = {}
    for terms in of_words:
        for term, weight in terms.items():
            weights[term] = max(weights.get(term, 1), weight)
    return weights


def words_of(query: str) -> Sequence[str]:
    """Return the different words of a query, as they are written, at most QUERY_TERMS."""
    return list(islice(dict.fromkeys(WORD.findall(clean(query[:QUERY_CHARS]))), QUERY_TERMS))


def any_of(queries: Iterable[tantivy.Query]) -> tantivy.Query:
    """Return the query that matches where any of the queries does, with the sum of the scores."""
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])
