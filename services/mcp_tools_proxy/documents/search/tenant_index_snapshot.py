"""Searches one state of a tenant's index, filtered by access."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import tantivy

from mcp_tools_proxy.documents.search.analysis import Analysis, analysis_of, language_named
from mcp_tools_proxy.documents.search.query import (
    OFTEN,
    FieldQueries,
    Vocabulary,
    any_of,
    field_queries,
    heaviest,
    rarity,
    snippet_weights,
    words_of,
)
from mcp_tools_proxy.documents.search.ranking import LISTING_FACTOR, SAME_PAGE_FACTOR
from mcp_tools_proxy.documents.search.tenant_index_entries import (
    DOCUMENT,
    GROUP,
    HEAD,
    HEAD_READER,
    KEY,
    LANGUAGE,
    LISTING,
    PAGE,
    READER,
    TAG,
    TEXT,
    DocumentState,
    IndexedPlace,
    read_place,
    read_state,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass

CANDIDATES = 64
"""Best chunks whose coverage of the query is computed."""

MANY_TERMS = 64
"""Filters with more terms use a set lookup, which takes 4 ms."""

SAME_DOCUMENT_FACTOR = 0.75
"""Factor for each further page of a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filter terms: a hit matches one of each list that is not None, and none of ``excluded``."""

    readers: Sequence[str]
    documents: Sequence[Sequence[str]] = ()
    """Lists of documents; a hit is in all of them."""
    tags: Sequence[str] | None = None
    excluded: Sequence[str] = ()


class Candidate(NamedTuple):
    """A found chunk and its score; ``address`` is its address in the index."""

    score: float
    group: int
    page: int
    address: tantivy.DocAddress


@dataclass(frozen=True, slots=True)
class Candidates:
    """The found chunks, best first, and the snippet weight of each term."""

    ranked: Sequence[Candidate]
    weights: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWord:
    """A word of a query with matching or similar terms in the index.

    ``weight`` is its IDF; ``terms`` has the snippet weight of each term.
    """

    weight: float
    terms: Mapping[str, int]
    queries: FieldQueries


class IndexSnapshot:
    """One immutable state of an index; thread-safe. Blocking: call in a thread.

    Term statistics cover all documents of the tenant.
    """

    def __init__(self, engine: tantivy.Index) -> None:
        self._schema = engine.schema
        self._searcher = engine.searcher()
        self._words = QueryWords(self._schema, self._searcher)

    def search(self, query: str, filters: Filters) -> Candidates:
        """Rank the best chunks that match a word of a query and pass the filters."""
        for words in (self._words.content(query), self._words.every(query)):
            ranked = self._ranked(words, filters) if words else ()
            if ranked:
                return Candidates(ranked, heaviest(word.terms for word in words))
        return Candidates((), {})

    def place(self, candidate: Candidate) -> IndexedPlace:
        """Return the position of a candidate."""
        return read_place(self._searcher.doc(candidate.address))

    def states(self) -> Iterator[DocumentState]:
        """Yield the state of each document."""
        query = tantivy.Query.regex_query(self._schema, HEAD, "[0-9a-f]*")
        limit = max(1, self._searcher.num_docs)
        for _, address in self._searcher.search(query, limit, count=False).hits:
            yield read_state(self._searcher.doc(address))

    def count_documents(self, readers: Sequence[str], documents: Sequence[str] | None) -> int:
        """Return the number of documents with one of the readers, among some or all."""
        wanted = [self._one_of(HEAD_READER, readers)]
        if documents is not None:
            wanted.append(self._one_of(HEAD, documents))
        found = self._searcher.search(_all_of(wanted), 1, count=True)
        return int(found.count)  # type: ignore[attr-defined] # the stubs lack it

    def _ranked(self, words: Sequence[QueryWord], filters: Filters) -> Sequence[Candidate]:
        scoring = [word.queries.scoring for word in words]
        if len(words) > 1:  # so that chunks with the best coverage become candidates
            scoring += [word.queries.covering for word in words]
        wanted = [(tantivy.Occur.Must, any_of(scoring)), *self._clauses(filters)]
        found = self._searcher.search(
            tantivy.Query.boolean_query(wanted), CANDIDATES, count=False
        ).hits
        if not found:
            return ()
        scores = [score for score, _ in found]
        addresses = [address for _, address in found]
        keys = self._searcher.fast_field_values(KEY, addresses)
        if len(words) > 1:
            covered = self._coverages(words, keys)
            total = sum(word.weight for word in words)
            scores = [
                (score - covered.get(key, 0.0)) * covered.get(key, 0.0) / total
                for score, key in zip(scores, keys, strict=True)
            ]
        read = (
            self._searcher.fast_field_values(name, addresses) for name in (GROUP, PAGE, LISTING)
        )
        rows = zip(scores, addresses, *read, strict=True)
        return _ordered(
            Candidate(score * LISTING_FACTOR if listing else score, int(group), int(page), address)
            for score, address, group, page, listing in rows
        )

    def _coverages(
        self, words: Sequence[QueryWord], keys: Sequence[int | float | bool | None]
    ) -> Mapping[object, float]:
        chosen = any_of(tantivy.Query.term_query(self._schema, KEY, key) for key in keys)
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, tantivy.Query.const_score_query(chosen, 0.0)),
                (tantivy.Occur.Must, any_of(word.queries.covering for word in words)),
            ]
        )
        found = self._searcher.search(query, len(keys), count=False).hits
        covered_keys = self._searcher.fast_field_values(KEY, [address for _, address in found])
        return {key: score for key, (score, _) in zip(covered_keys, found, strict=True)}

    def _clauses(self, filters: Filters) -> Iterator[tuple[tantivy.Occur, tantivy.Query]]:
        wanted = [self._one_of(READER, filters.readers)]
        wanted += [self._one_of(DOCUMENT, terms) for terms in filters.documents]
        if filters.tags is not None:
            wanted.append(self._one_of(TAG, filters.tags))
        for query in wanted:
            yield tantivy.Occur.Must, tantivy.Query.const_score_query(query, 0.0)
        if filters.excluded:
            yield tantivy.Occur.MustNot, self._one_of(DOCUMENT, filters.excluded)

    def _one_of(self, field: str, terms: Sequence[str]) -> tantivy.Query:
        if len(terms) > MANY_TERMS:
            return tantivy.Query.term_set_query(self._schema, field, terms)
        return any_of(
            tantivy.Query.term_query(self._schema, field, term, "basic") for term in terms
        )


def _all_of(queries: Iterable[tantivy.Query]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in queries])


def _ordered(candidates: Iterable[Candidate]) -> Sequence[Candidate]:
    """Return candidates best first; further ones of a page and of a document are demoted."""
    of_page: dict[tuple[int, int], float] = {}
    of_document: dict[int, float] = {}
    ranked: list[Candidate] = []
    for found in sorted(candidates, key=lambda it: -it.score):
        page = (found.group, found.page)
        if page not in of_page:
            of_page[page] = of_document.get(found.group, 1.0)
            of_document[found.group] = of_page[page] * SAME_DOCUMENT_FACTOR
        score = found.score * of_page[page]
        of_page[page] *= SAME_PAGE_FACTOR
        ranked.append(found._replace(score=round(score, 4)))
    ranked.sort(key=lambda it: (-it.score, it.group, it.page))
    return ranked


MAX_WORDS = 64
"""Maximum words of a query."""

_CLEARLY_MORE = 2
"""Stop words by which one language must exceed another to decide."""

_BEGINNING = 3
_UNKNOWN_BEGINNING = 2
"""Letters that similar terms share with a term, and possible corrections with an unknown one."""

_LONGEST_LIST = 20_000
"""Maximum terms compared, which takes 3 ms."""


class QueryWords:
    """Finds the words of queries in one state of an index."""

    def __init__(self, schema: tantivy.Schema, searcher: tantivy.Searcher) -> None:
        self._schema = schema
        self._searcher = searcher
        names = sorted(name for name, _ in searcher.terms_with_prefix(LANGUAGE, ""))
        self._analyses = [analysis_of(language_named(name)) for name in names]

    def content(self, query: str) -> Sequence[QueryWord]:
        """Return the matched words of a query without stop words and question words."""
        words = words_of(query)[:MAX_WORDS]
        deciding = self._of_its_language(words)
        kept = [word for word in words if any(it.content_terms(word) for it in deciding)]
        return self._known(kept, Analysis.content_terms)

    def every(self, query: str) -> Sequence[QueryWord]:
        """Return all matched words of a query."""
        return self._known(words_of(query)[:MAX_WORDS], Analysis.terms)

    def _of_its_language(self, words: Sequence[str]) -> Sequence[Analysis]:
        """Return the analyses that decide about stop words: all, or those of a clear language.

        A clear language has several more of the query's words as stop words: "die" is a word of
        English, too.
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
        """Return the word of alternative terms; None without a match or similar term."""
        own = {term: idf for term in sorted(alternatives) if (idf := self._rarity(term))}
        boosts = dict.fromkeys(own, 1.0)
        weight = max(own.values(), default=0.0)
        if sum(self._searcher.doc_freq(TEXT, term) for term in own) <= OFTEN:
            related = self._related(own or alternatives, is_known=bool(own))
            rarities = {term: self._rarity(term) for term in related if term not in own}
            weight = weight or max(rarities.values(), default=0.0)
            for term, idf in rarities.items():
                if idf:  # so that a rare similar term counts less than the query's own
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
        return rarity(self._searcher.doc_freq(TEXT, term), self._searcher.num_docs)
