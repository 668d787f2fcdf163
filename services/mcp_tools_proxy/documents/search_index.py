"""Full-text search in one document: the engine (tantivy) ranks, this module builds the snippets.

One index per document, so no tenant's words affect another's ranking. An index holds no second
copy of the text: the engine stores terms only, and snippets are cut from the document itself.
"""

import ctypes
import math
import re
import string
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import tantivy

from mcp_tools_proxy.documents.layout import by_begin, each_chunk, section_at
from mcp_tools_proxy.documents.snippets import Match, best_span, snippet
from mcp_tools_proxy.domain.document import Chunk, Document, Hit
from mcp_tools_proxy.wire.text import normalize, utf8_len

QUERY_CHARS = 10_000
"""Longest query, in characters; the rest is ignored (the tool itself allows 1,000, contract §2)."""

QUERY_TERMS = 256
"""Most different terms of a query that are looked up."""

_KNOWN_WORDS = 4_096
"""Size of the cache from words to terms, for the process; takes 1.5 MB."""

_TERM_BYTES = 255
"""Longer words are neither indexed nor looked up."""

_SCANNED_CHARS = 50_000
"""Characters of a chunk searched for its snippet; only a document's own chunks are longer."""

_WRITER_HEAP_BYTES = 64_000_000
"""Allocated as needed; documents below it (about 15 MB of text) become a single segment."""

_CHUNKS_BETWEEN_PAUSES = 16
_PAUSE_S = 0.00005
"""The indexing thread pauses: if it never waits, the event loop waits 5 ms for the GIL each time.
"""

INDEX_BYTES = 64 * 1024
"""Fixed size of an index, added to its text's."""

QUICK_TEXT_BYTES = 8_000_000
QUICK_CHUNK_CHARS = 2_000
QUICK_QUERY_CHARS = 200
QUICK_QUERY_WORDS = 10
"""Limits of a quick search. Measured with 6 MB and 5 results: 0.25 ms for 3 words, 0.6 for the 5
most frequent ones, 1.0 for 10 of them; but 1.7 for 21, 3.5 for 107."""

_RUN = re.compile(
    r"[^\x00-/:-@\[-`{-©«-±»¿×÷\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u2775\u2794-\u2bff"
    r"\u3000-\u3004\u3008-\u3020\U0001f1e6-\U0001faff]+"
)
"""Matches runs of text between white space, punctuation and symbols, which no word contains.

The engine's words are letters and digits, vowel signs included. It splits a run further only at
marks and punctuation of single scripts.
"""

_PLAIN = frozenset(string.ascii_letters + string.digits + "".join(map(chr, range(0x410, 0x450))))
"""ASCII and А to я: a word that begins with one has a term that begins with it in lower case.

Stemming changes endings only. Other letters may become one of these: ё is е, é is e, ﬁ is fi.
"""

_TEXT = "text"
_PLACE = "place"
_TOKENIZER = "english_russian"


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
        text_bytes: int,
    ) -> None:
        self.text_bytes = text_bytes
        self._document = document
        self._chunks = chunks
        self._sections = by_begin(document.sections.values())
        self._schema = engine.schema
        self._searcher = engine.searcher()
        self._quick = text_bytes <= QUICK_TEXT_BYTES and all(
            chunk.end - chunk.start <= QUICK_CHUNK_CHARS for chunk in chunks
        )

    def __repr__(self) -> str:
        return (
            f"<SearchIndex {self._document.doc_id!r}:"
            f" {len(self._chunks)} chunks, {self.text_bytes} bytes of text>"
        )

    def is_quick(self, query: str) -> bool:
        """Return whether a search for ``query`` takes at most about a millisecond."""
        return (
            self._quick
            and len(query) <= QUICK_QUERY_CHARS
            and len(_RUN.findall(query)) <= QUICK_QUERY_WORDS
        )

    def search(self, query: str, max_results: int) -> tuple[Hit, ...]:
        """Rank the chunks that hold a word of ``query``, best first, at most ``max_results`` (≥ 1).

        Accepts any text; only its words count. Equal scores come in reading order. A chunk is hit
        once; its snippet shows where most of the query's rarer words stand together. Unless
        ``is_quick``, callers in an event loop use a thread (T-07).
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
        return tuple(self._hit(self._chunks[n], -score, weights) for score, n in found)

    def _weights(self, query: str) -> dict[str, int]:
        """Return the query's terms that the document has, in order, with their weights (IDF)."""
        weights: dict[str, int] = {}
        total = len(self._chunks)
        for term in dict.fromkeys(_ANALYZER.analyze(_clean(query[:QUERY_CHARS]))):
            seen_in = self._searcher.doc_freq(_TEXT, term)
            if seen_in:
                idf = math.log1p((total - seen_in + 0.5) / (seen_in + 0.5))
                weights[term] = math.ceil(idf * 1000)
            if len(weights) == QUERY_TERMS:
                break
        return weights

    def _hit(self, chunk: Chunk, score: float, weights: Mapping[str, int]) -> Hit:
        text = _clean(chunk.text[:_SCANNED_CHARS])
        start, end = best_span(_matches(text, weights), weights)
        section = section_at(self._sections, chunk.page, self._char(chunk, start))
        return Hit(
            snippet=snippet(text, start, end),
            page=chunk.page,
            score=score,
            section_id=section.section_id if section else None,
            chunk_id=chunk.chunk_id,
        )

    def _char(self, chunk: Chunk, offset: int) -> int:
        """Return the offset in the page's text of the chunk's ``offset``, 0 if it is not there."""
        pages = self._document.pages
        page = pages[chunk.page - 1] if 1 <= chunk.page <= len(pages) else ""
        if chunk.source is page:
            return chunk.start + offset
        start = page.find(chunk.text)
        return start + offset if start >= 0 else 0


def build_index(document: Document) -> SearchIndex:
    """Index the document's chunks. Slow (0.1 s for each MB): call it in a worker thread.

    Pauses every few chunks so that other threads run, and returns freed memory to the system.
    """
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field(_TEXT, tokenizer_name=_TOKENIZER, index_option="freq")
        .add_integer_field(_PLACE, fast=True)
        .build()
    )
    engine = tantivy.Index(schema)
    engine.register_tokenizer(_TOKENIZER, _ANALYZER)
    chunks, text_bytes = _fill(engine, each_chunk(document))
    _return_freed_memory()
    engine.reload()
    return SearchIndex(document=document, chunks=chunks, engine=engine, text_bytes=text_bytes)


def _fill(engine: tantivy.Index, chunks: Iterable[Chunk]) -> tuple[tuple[Chunk, ...], int]:
    """Write the chunks to ``engine``; return them, and the bytes of their text in UTF-8."""
    filled: list[Chunk] = []
    text_bytes = 0
    writer = engine.writer(_WRITER_HEAP_BYTES, 1)
    for place, chunk in enumerate(chunks):
        text = _clean(chunk.text)
        text_bytes += utf8_len(text)
        writer.add_document(tantivy.Document(text=text, place=place))
        filled.append(chunk)
        if place % _CHUNKS_BETWEEN_PAUSES == 0:
            time.sleep(_PAUSE_S)
    writer.commit()
    writer.wait_merging_threads()
    return tuple(filled), text_bytes


def _analyzer() -> tantivy.TextAnalyzer:
    """Build the analyzer that turns words into terms.

    Terms have no case and no accents (ё is е), and are cut to an English or Russian stem.
    """
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(_TERM_BYTES))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stemmer("english"))
        .filter(tantivy.Filter.stemmer("russian"))
        .build()
    )


_ANALYZER = _analyzer()


@lru_cache(_KNOWN_WORDS)
def _terms_of_run(run: str) -> tuple[str, ...]:
    """Return the terms of a run's words: nearly always one."""
    return tuple(_ANALYZER.analyze(run))


def _matches(text: str, weights: Mapping[str, int]) -> list[Match]:
    """Find the words of ``text`` whose terms have ``weights``.

    Looks up only words with the first letter of a term: a tenth of the time of looking up all.
    """
    skipped = _PLAIN.difference(*((term[0], term[0].upper()) for term in weights))
    matches: list[Match] = []
    for found in _RUN.finditer(text):
        run = found[0]
        if run[0] in skipped or len(run) > _TERM_BYTES:
            continue
        for term in _terms_of_run(run):
            if term in weights:
                matches.append((found.start(), found.end(), term))
                break
    return matches


def _return_freed_memory() -> None:
    """Return memory that the writer freed to the system; glibc would keep some 30 MB."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _clean(text: str) -> str:
    """Compose accents, and replace lone surrogates, which UTF-8 cannot encode, by ``?``."""
    if text.isascii():
        return text
    return normalize("NFC", text.encode(errors="replace").decode())
