"""Full-text search in one document: the engine (tantivy) matches and scores, hits are built here.

Each document has its own index, so tenants do not affect each other's ranking. The engine stores
terms only; snippets are cut from the document.
"""

import ctypes
import sys
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import tantivy

from mcp_tools_proxy.documents.layout import by_begin, each_chunk, section_at, span_of_chunk
from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.documents.search.analysis import (
    Analysis,
    analysis_of,
    clean,
    language_of,
    prepare,
    term_count,
)
from mcp_tools_proxy.documents.search.query import (
    CHUNK_TEXT,
    PAGE_TEXT,
    PLACE,
    TOKENIZER,
    Concept,
    Concepts,
    Vocabulary,
    any_of,
    heaviest,
)
from mcp_tools_proxy.documents.search.ranking import (
    LISTING_FACTOR,
    PAGE_WEIGHT,
    covered,
    fuse,
    order,
)
from mcp_tools_proxy.documents.search.searched_text import SearchedText, is_listing
from mcp_tools_proxy.documents.search.snippets import SCANNED_CHARS, MatchFinder
from mcp_tools_proxy.domain.document import Chunk, Document, Hit, PageSpan
from mcp_tools_proxy.wire.text import utf8_len

_WRITER_HEAP_BYTES = 64_000_000
"""Allocated as needed; documents below it (about 15 MB of text) become a single segment."""

CHUNKS_BETWEEN_PAUSES = 16

_CANDIDATES = 16
"""Chunks, and pages, whose scores are fused; 24, 40 and 80 find the same on the tuning half."""

_COVERAGES = 32
"""Best chunks whose coverage of the query is computed."""

_WHOLE = 0.999
"""Share of a query's weight that counts as all of it: the engine adds in 32 bits."""

NOTHING_SIMILAR: Mapping[int, float] = MappingProxyType({})

INDEX_BYTES = 64 * 1024
"""Fixed size of an index, without its text."""

QUICK_TEXT_BYTES_OF_A_WORD = 32_000_000
"""Limit for bytes of text times words of the query."""

QUICK_CHUNK_CHARS = 2_000
QUICK_QUERY_CHARS = 200
QUICK_QUERY_WORDS = 8
"""Limits of a quick search. With 6 MB and 5 results, its time relative to a plain query of the
engine is 1.6 for 3 words (0.25 ms), 1.8 for the 5 most frequent ones (0.6 ms), 2 for 10 of them
(1.0 ms) and for 21 (1.7 ms); it is proportional to the text."""


class SearchIndex:
    """The index of one document, built by ``build_index``; thread-safe.

    ``text_bytes`` is the UTF-8 length of the indexed text. ``listings`` are the positions of chunks
    with entries of a table of contents or a back-of-book index.
    """

    def __init__(
        self,
        *,
        document: Document,
        chunks: Sequence[Chunk],
        searched: SearchedText,
        engine: tantivy.Index,
        analysis: Analysis,
        listings: frozenset[int],
        text_bytes: int,
    ) -> None:
        self.text_bytes = text_bytes
        self._document = document
        self._chunks = chunks
        self._searched = searched
        self._sections = by_begin(document.sections.values())
        self._analysis = analysis
        self._listings = listings
        self._searcher = engine.searcher()
        self._places = _places_of(self._searcher, len(chunks))
        self._concepts = Concepts(
            schema=engine.schema,
            searcher=self._searcher,
            chunk_count=len(chunks),
            analysis=analysis,
            related=Vocabulary(
                term for term, _ in self._searcher.terms_with_prefix(CHUNK_TEXT, "")
            ).related,
        )
        self._pages = array("I", (chunk.page for chunk in chunks))
        self._has_quick_chunks = all(
            chunk.end - chunk.start <= QUICK_CHUNK_CHARS for chunk in chunks
        )

    def __repr__(self) -> str:
        return (
            f"<SearchIndex {self._document.doc_id!r}:"
            f" {len(self._chunks)} chunks, {self.text_bytes} bytes of text>"
        )

    def is_quick(self, query: str) -> bool:
        """Return whether a search for ``query`` takes at most about a millisecond."""
        if not self._has_quick_chunks or len(query) > QUICK_QUERY_CHARS:
            return False
        words = term_count(query)
        is_small = self.text_bytes * words <= QUICK_TEXT_BYTES_OF_A_WORD
        return is_small and words <= QUICK_QUERY_WORDS

    @property
    def chunk_count(self) -> int:
        """Number of chunks in the document."""
        return len(self._chunks)

    def search(
        self, query: str, max_results: int, similar: Mapping[int, float] = NOTHING_SIMILAR
    ) -> tuple[Hit, ...]:
        """Rank the chunks that match words of ``query``, best first, up to ``max_results`` (≥ 1).

        Accepts any text; only its words count. Equal scores are in reading order. Each chunk has
        one hit; its snippet shows the passage with the most weight of the query's words.
        ``similar`` has the positions and similarities of chunks with a similar meaning, which are
        hits too. Unless ``is_quick``, call in a thread (T-07).
        """
        concepts = self._concepts.of(query)
        if not concepts and not similar:
            return ()
        scores = self._scores(concepts) if concepts else {}
        found = scores.keys() | similar.keys()
        by_words = self._fuse(scores, concepts) if concepts else {}
        if similar:
            ranked = self._with_similar(by_words, similar, query, concepts, max_results)
        else:
            ranked = order(by_words, self._pages, max_results)
        weights = heaviest(concept.terms for concept in concepts)
        finder = MatchFinder(weights, self._analysis)
        hits: list[Hit] = []
        for place, score in ranked:
            shown = place if place in found else self._best_place(place, finder, weights)
            hits.append(self._hit(self._chunks[shown], score, finder))
        return tuple(hits)

    def _with_similar(
        self,
        by_words: Mapping[int, float],
        similar: Mapping[int, float],
        query: str,
        concepts: Sequence[Concept],
        max_results: int,
    ) -> Sequence[tuple[int, float]]:
        """Fuse the rankings by words and by meaning; the latter excludes listings."""
        pages = self._pages
        texts = {place: score for place, score in similar.items() if place not in self._listings}
        return fuse(
            [place for place, _ in order(by_words, pages, _CANDIDATES)],
            [place for place, _ in order(texts, pages, _CANDIDATES)],
            exact=self._exact(concepts) if self._concepts.has_all(query) else (),
            pages=pages,
            max_results=max_results,
        )

    def _exact(self, concepts: Sequence[Concept]) -> Collection[int]:
        """Return the positions that match every concept."""
        queries = (concept.queries[CHUNK_TEXT].covering for concept in concepts)
        total = sum(concept.weight for concept in concepts)
        weights = self._run(queries, _COVERAGES)
        return {place for place, weight in weights.items() if weight >= total * _WHOLE}

    def _fuse(self, scores: dict[int, float], concepts: Sequence[Concept]) -> Mapping[int, float]:
        """Add page scores to their chunks; a page without a scored chunk adds its first chunk."""
        pages = self._pages
        queries = (concept.queries[PAGE_TEXT].scoring for concept in concepts)
        of_page = {
            pages[place]: (place, PAGE_WEIGHT * score)
            for place, score in self._run(queries, _CANDIDATES).items()
        }
        missing = set(of_page)
        for place in scores:
            page = pages[place]
            if page in of_page:
                scores[place] += of_page[page][1]
                missing.discard(page)
        scores |= (of_page[page] for page in missing)
        for place in self._listings & scores.keys():
            scores[place] *= LISTING_FACTOR
        return scores

    def _scores(self, concepts: Sequence[Concept]) -> dict[int, float]:
        """Return the best chunks by BM25 score and coverage."""
        queries = [concept.queries[CHUNK_TEXT] for concept in concepts]
        scores = self._run((query.scoring for query in queries), _CANDIDATES)
        if len(concepts) == 1:
            return scores
        weights = self._run((query.covering for query in queries), _COVERAGES)
        return covered(scores, weights, sum(concept.weight for concept in concepts))

    def _run(self, queries: Iterable[tantivy.Query], limit: int) -> dict[int, float]:
        """Return the positions that match any query, with the sum of their scores."""
        ranked = self._searcher.search(any_of(queries), limit, count=False).hits
        places = self._places
        return {places[address.segment_ord][address.doc]: score for score, address in ranked}

    def _best_place(self, first: int, finder: MatchFinder, weights: Mapping[str, int]) -> int:
        """Return the position of the page's chunk with the most weight of the query."""
        best, most = first, 0
        for place in range(first, len(self._chunks)):
            if self._pages[place] != self._pages[first]:
                break
            terms = {term for _, _, term in finder.find(self._text(self._chunks[place]))}
            weight = sum(weights[term] for term in terms)
            if weight > most:
                best, most = place, weight
        return best

    def _hit(self, chunk: Chunk, score: float, finder: MatchFinder) -> Hit:
        found = finder.quote(*self._searched.part(chunk))
        place = span_of_chunk(chunk, self._document.pages)
        begin = 0  # positions are those of the page, or of a chunk from the file
        if place is not None and chunk.source is not self._document.pages[chunk.page - 1]:
            begin = place.start_char
        section = section_at(
            self._sections, chunk.page, 0 if place is None else begin + found.match
        )
        span = None
        if place is not None:
            span = PageSpan(chunk.page, begin + found.start, begin + found.end)
        return Hit(
            snippet=found.snippet,
            page=chunk.page,
            score=score,
            section_id=section.section_id if section else None,
            chunk_id=chunk.chunk_id,
            span=span,
        )

    def _text(self, chunk: Chunk) -> str:
        return clean(self._searched.of(chunk)[:SCANNED_CHARS])


def _places_of(searcher: tantivy.Searcher, chunk_count: int) -> Sequence[Sequence[int]]:
    """Map the engine's addresses (segment, number) to positions of chunks."""
    places: list[array[int]] = [array("I") for _ in range(searcher.num_segments)]
    everything = searcher.search(tantivy.Query.all_query(), chunk_count or 1, count=False).hits
    addresses = sorted((hit[1] for hit in everything), key=lambda it: (it.segment_ord, it.doc))
    for address, place in zip(addresses, searcher.fast_field_values(PLACE, addresses), strict=True):
        places[address.segment_ord].append(int(place or 0))
    return places


def build_index(document: Document) -> SearchIndex:
    """Index a document's chunks and pages. Slow (0.2 s per MB): call in a worker thread.

    Pauses every few chunks for other threads, and returns freed memory to the system.
    """
    analysis = analysis_of(language_of(document))
    engine = _new_engine(analysis)
    chunks = tuple(each_chunk(document))
    searched = SearchedText(document)
    _fill(engine, chunks, searched)
    _return_freed_memory()
    engine.reload()
    last_page = len(document.pages)
    listings: set[int] = set()
    text_bytes = 0
    for place, chunk in enumerate(paced(chunks, every=CHUNKS_BETWEEN_PAUSES)):
        text = clean(chunk.text)
        text_bytes += utf8_len(text)
        if is_listing(text, last_page):
            listings.add(place)
    return SearchIndex(
        document=document,
        chunks=chunks,
        searched=searched,
        engine=engine,
        analysis=analysis,
        listings=frozenset(listings),
        text_bytes=text_bytes,
    )


def _new_engine(analysis: Analysis) -> tantivy.Index:
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field(CHUNK_TEXT, tokenizer_name=TOKENIZER, index_option="freq")
        .add_text_field(PAGE_TEXT, tokenizer_name=TOKENIZER, index_option="freq")
        .add_integer_field(PLACE, fast=True)
        .build()
    )
    engine = tantivy.Index(schema)
    engine.register_tokenizer(TOKENIZER, analysis.analyzer)
    return engine


def _fill(engine: tantivy.Index, chunks: Sequence[Chunk], searched: SearchedText) -> None:
    """Index the chunks; the first chunk of each page also has the text of the page."""
    prepared: list[str] = []
    of_page: dict[int, list[str]] = {}
    for chunk in paced(chunks, every=CHUNKS_BETWEEN_PAUSES):
        prepared.append(prepare(searched.of(chunk)))
        of_page.setdefault(chunk.page, []).append(prepared[-1])
    writer = engine.writer(_WRITER_HEAP_BYTES, 1)
    for place, chunk in enumerate(paced(chunks, every=CHUNKS_BETWEEN_PAUSES)):
        fields: dict[str, object] = {CHUNK_TEXT: prepared[place], PLACE: place}
        texts = of_page.pop(chunk.page, None)
        if texts is not None:
            fields[PAGE_TEXT] = "\n".join(texts)
        writer.add_document(tantivy.Document(**fields))
    writer.commit()
    writer.wait_merging_threads()


def _return_freed_memory() -> None:
    """Return memory freed by the writer to the system; glibc would keep some 30 MB."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
