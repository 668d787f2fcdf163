"""What a query asks an index for: its words, each with the terms of every language there is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import tantivy

from mcp_tools_proxy.documents.search.analysis import Analysis, analysis_of
from mcp_tools_proxy.documents.search.languages import language_named
from mcp_tools_proxy.documents.search.query import (
    OFTEN,
    FieldQueries,
    field_queries,
    rarity,
    snippet_weights,
    words_of,
)
from mcp_tools_proxy.documents.search.vocabulary import Vocabulary
from mcp_tools_proxy.documents.tenant_search.index_entries import LANGUAGE, TEXT

MAX_WORDS = 64
"""Most words of a query that are looked up."""

_CLEARLY_MORE = 2
"""Stop words that a query has more of the language it is written in than of another."""

_BEGINNING = 3
_UNKNOWN_BEGINNING = 2
"""Letters that a term has in common with those that resemble it; one that nothing has with those
that it may be a slip for."""

_LONGEST_LIST = 20_000
"""Most terms that are compared: 3 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWord:
    """A word of a query that the index has, or has something like.

    ``weight`` is its IDF. ``terms`` has what each term that stands for it weighs in a snippet.
    """

    weight: float
    terms: Mapping[str, int]
    queries: FieldQueries


class QueryWords:
    """Finds the words of queries in one state of an index."""

    def __init__(self, schema: tantivy.Schema, searcher: tantivy.Searcher) -> None:
        self._schema = schema
        self._searcher = searcher
        names = sorted(name for name, _ in searcher.terms_with_prefix(LANGUAGE, ""))
        self._analyses = [analysis_of(language_named(name)) for name in names]

    def content(self, query: str) -> Sequence[QueryWord]:
        """Return what the index has of a query without its stop words and words that ask."""
        words = words_of(query)[:MAX_WORDS]
        deciding = self._of_its_language(words)
        kept = [word for word in words if any(it.content_terms(word) for it in deciding)]
        return self._known(kept, Analysis.content_terms)

    def every(self, query: str) -> Sequence[QueryWord]:
        """Return what the index has of all words of a query."""
        return self._known(words_of(query)[:MAX_WORDS], Analysis.terms)

    def _of_its_language(self, words: Sequence[str]) -> Sequence[Analysis]:
        """Return the analyses that decide which words are stop words: those of the language that
        has clearly most of them, else all: "die" is a word of English, too.
        """
        stops = [sum(not it.content_terms(word) for word in words) for it in self._analyses]
        if not stops or max(stops) - min(stops) < _CLEARLY_MORE:
            return self._analyses
        return [it for it, count in zip(self._analyses, stops, strict=True) if count == max(stops)]

    def _known(
        self, words: Iterable[str], terms_of: Callable[[Analysis, str], Sequence[str]]
    ) -> Sequence[QueryWord]:
        groups: dict[frozenset[str], None] = {}
        for word in words:
            by_language = {tuple(terms_of(analysis, word)) for analysis in self._analyses}
            for alternatives in zip_longest(*sorted(by_language)):
                groups[frozenset(filter(None, alternatives))] = None
        return tuple(filter(None, map(self._word, groups)))

    def _word(self, alternatives: frozenset[str]) -> QueryWord | None:
        """Return the word that one of some terms stands for; None if nothing is like it."""
        own = {term: idf for term in sorted(alternatives) if (idf := self._rarity(term))}
        boosts = dict.fromkeys(own, 1.0)
        weight = max(own.values(), default=0.0)
        if sum(self._searcher.doc_freq(TEXT, term) for term in own) <= OFTEN:
            related = self._related(own or alternatives, is_known=bool(own))
            rarities = {term: self._rarity(term) for term in related if term not in own}
            weight = weight or max(rarities.values(), default=0.0)
            for term, idf in rarities.items():
                if idf:  # a rare term that only resembles counts less than the query's own
                    boosts[term] = related[term] * weight / idf
        if not boosts:
            return None
        return QueryWord(
            weight=weight,
            terms=snippet_weights(weight, boosts),
            queries=field_queries(self._schema, TEXT, weight, boosts),
        )

    def _related(self, terms: Iterable[str], *, is_known: bool) -> Mapping[str, float]:
        related: dict[str, float] = {}
        letters = _BEGINNING if is_known else _UNKNOWN_BEGINNING
        for term in terms:
            listed = self._searcher.terms_with_prefix(TEXT, term[:letters], limit=_LONGEST_LIST)
            vocabulary = Vocabulary(other for other, _ in listed)
            for other, share in vocabulary.related(term, is_known).items():
                related[other] = max(share, related.get(other, 0.0))
        return related

    def _rarity(self, term: str) -> float:
        """Return a term's IDF among the chunks of the tenant; 0 if none has it."""
        return rarity(self._searcher.doc_freq(TEXT, term), self._searcher.num_docs)
