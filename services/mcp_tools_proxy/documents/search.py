"""Full-text search in one document: the engine (tantivy) ranks, this module quotes.

One index per document, so no tenant's words weigh in another's ranking. An index holds no second
copy of the text: the engine stores terms only, and excerpts are read from the document itself.
"""

import ctypes
import math
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import tantivy

from mcp_tools_proxy.documents.excerpt import Match, Span, densest, excerpt
from mcp_tools_proxy.domain.document import Chunk, Document, Hit
from mcp_tools_proxy.policy.bounds import utf8_len
from mcp_tools_proxy.policy.chunking import chunks_of, section_at

QUERY_CHARS = 10_000
"""What is read of a query, in characters (the tool itself reads 1,000, contract §2)."""

QUERY_TERMS = 256
"""How many different terms of a query are looked up."""

_READ_CHARS = 4_000
"""The engine marks matches in stretches of this length: it holds the GIL over each (≈ 0.5 ms)."""

_KNOWN_FORMS = 4_096
"""How many word forms an index remembers the term of."""

_TERM_BYTES = 255
"""Longer words are no words: neither indexed nor looked up."""

_WRITER_HEAP_BYTES = 64_000_000
"""Taken as needed; documents below it (about 15 MB of text) become a single segment."""

_CHUNKS_BETWEEN_PAUSES = 8
_PAUSE_S = 0.00005
"""A feeding thread that never waits makes the event loop wait 5 ms for the GIL each time."""

_TEXT = "text"
_PLACE = "place"
_ANALYZER = "english_russian"


class SearchIndex:
    """The index of one document; made by ``build_index``, safe to search from many threads.

    ``text_bytes`` is the length in UTF-8 of the text it covers.
    """

    def __init__(
        self,
        *,
        document: Document,
        chunks: Sequence[Chunk],
        engine: tantivy.Index,
        analyzer: tantivy.TextAnalyzer,
        text_bytes: int,
    ) -> None:
        self.text_bytes = text_bytes
        self._document = document
        self._chunks = chunks
        self._schema = engine.schema
        self._searcher = engine.searcher()
        self._analyzer = analyzer
        self._term = lru_cache(_KNOWN_FORMS)(lambda word: analyzer.analyze(word)[0])

    def __repr__(self) -> str:
        return (
            f"<SearchIndex {self._document.doc_id!r}:"
            f" {len(self._chunks)} chunks, {self.text_bytes} bytes of text>"
        )

    def search(self, query: str, max_results: int) -> tuple[Hit, ...]:
        """Rank the chunks that hold a word of ``query``, best first, at most ``max_results`` (≥ 1).

        Takes any text; what is not a word does not count. Equal scores come in reading order. A
        chunk is hit once; its snippet shows where most of the query's rarer words stand together.
        Takes about a millisecond, so callers in an event loop use a thread (T-07).
        """
        weights = self._weights(query)
        if not weights:
            return ()
        wanted = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, _TEXT, term, "freq"))
                for term in weights
            ]
        )
        ranked = self._searcher.search(wanted, max_results, count=False).hits
        places = self._searcher.fast_field_values(_PLACE, [address for _, address in ranked])
        found = sorted(
            (-round(score, 4), int(place))
            for (score, _), place in zip(ranked, places, strict=True)
            if place is not None
        )
        engine_marker = tantivy.SnippetGenerator.create(self._searcher, wanted, self._schema, _TEXT)
        engine_marker.set_max_num_chars(_READ_CHARS * 4)  # no excerpt of its own: all the matches
        marker = _Marker(engine_marker, self._term, weights)
        return tuple(self._hit(self._chunks[n], -score, marker) for score, n in found)

    def _weights(self, query: str) -> dict[str, int]:
        """Give the query's terms that the document has, in order, by how rare they are (IDF)."""
        weights: dict[str, int] = {}
        total = len(self._chunks)
        for term in dict.fromkeys(self._analyzer.analyze(_clean(query[:QUERY_CHARS]))):
            seen_in = self._searcher.doc_freq(_TEXT, term)
            if seen_in:
                idf = math.log1p((total - seen_in + 0.5) / (seen_in + 0.5))
                weights[term] = math.ceil(idf * 1000)
            if len(weights) == QUERY_TERMS:
                break
        return weights

    def _hit(self, chunk: Chunk, score: float, marker: "_Marker") -> Hit:
        text = _clean(chunk.text)
        start, end = marker.densest(text)
        section = section_at(self._document, chunk.page, self._char(chunk, start))
        return Hit(
            snippet=excerpt(text, start, end),
            page=chunk.page,
            score=score,
            section_id=section.section_id if section else None,
            chunk_id=chunk.chunk_id,
        )

    def _char(self, chunk: Chunk, offset: int) -> int:
        """Find where in its page's text the chunk's character ``offset`` stands, 0 if nowhere."""
        pages = self._document.pages
        page = pages[chunk.page - 1] if 1 <= chunk.page <= len(pages) else ""
        if chunk.source is page:
            return chunk.start + offset
        start = page.find(chunk.text)
        return start + offset if start >= 0 else 0


class _Marker:
    """Finds one query's terms, which have ``weights``, in the texts of its hits.

    ``engine`` marks the words, ``term`` gives a word's term.
    """

    def __init__(
        self,
        engine: tantivy.SnippetGenerator,
        term: Callable[[str], str],
        weights: Mapping[str, int],
    ) -> None:
        self._engine = engine
        self._term = term
        self._weights = weights

    def densest(self, text: str) -> Span:
        """Find where the query's terms stand closest together."""
        matches: list[Match] = []
        for start in range(0, len(text), _READ_CHARS):
            matches += self._matches(text[start : start + _READ_CHARS], start)
        return densest(matches, self._weights)

    def _matches(self, text: str, offset: int) -> list[Match]:
        words = text.lstrip()  # the engine starts at the first visible character
        char = offset + len(text) - len(words)
        marked = self._engine.snippet_from_doc(tantivy.Document(text=words)).highlighted()
        term = self._term
        if words.isascii():
            spans = [(span.start, span.end) for span in marked]
            return [(char + start, char + end, term(words[start:end])) for start, end in spans]
        encoded = words.encode()
        matches: list[Match] = []
        byte = 0
        for span in marked:
            start, end = span.start, span.end
            begin = char + len(encoded[byte:start].decode())
            word = encoded[start:end].decode()
            char, byte = begin + len(word), end
            matches.append((begin, char, term(word)))
        return matches


def build_index(document: Document) -> SearchIndex:
    """Index the document's chunks. Slow (0.1 s for each MB): call it in a worker thread.

    It lets other threads run every few chunks, and gives the memory it worked with back.
    """
    chunks = chunks_of(document)
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field(_TEXT, tokenizer_name=_ANALYZER, index_option="freq")
        .add_integer_field(_PLACE, fast=True)
        .build()
    )
    analyzer = _analyzer()
    engine = tantivy.Index(schema)
    engine.register_tokenizer(_ANALYZER, analyzer)
    text_bytes = _fill(engine, chunks)
    _return_freed_memory()
    engine.reload()
    return SearchIndex(
        document=document, chunks=chunks, engine=engine, analyzer=analyzer, text_bytes=text_bytes
    )


def _fill(engine: tantivy.Index, chunks: Sequence[Chunk]) -> int:
    """Write the chunks to ``engine``, release its writer, and count the bytes of their text."""
    text_bytes = 0
    writer = engine.writer(_WRITER_HEAP_BYTES, 1)
    for place, chunk in enumerate(chunks):
        text = _clean(chunk.text)
        text_bytes += utf8_len(text)
        writer.add_document(tantivy.Document(text=text, place=place))
        if place % _CHUNKS_BETWEEN_PAUSES == 0:
            time.sleep(_PAUSE_S)
    writer.commit()
    writer.wait_merging_threads()
    return text_bytes


def _analyzer() -> tantivy.TextAnalyzer:
    """Make terms of words: without case and accents (ё is е), cut to an English or Russian stem."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(_TERM_BYTES))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stemmer("english"))
        .filter(tantivy.Filter.stemmer("russian"))
        .build()
    )


def _return_freed_memory() -> None:
    """Make glibc give back what the writer freed; it would keep some 30 MB for itself."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _clean(text: str) -> str:
    """Compose accents, and put ``?`` for what UTF-8 cannot say (lone surrogates)."""
    return unicodedata.normalize("NFC", text.encode(errors="replace").decode())
