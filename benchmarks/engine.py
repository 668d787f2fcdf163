"""The search engine called directly: the least that indexing and searching can cost."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tantivy

from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.domain.document import Document

RESULTS = 3
_SNIPPET_CHARS = 300
_HEAP_BYTES = 64_000_000
_TEXT = "text"
_PLACE = "place"
_ANALYZER = "english_russian"


class Indexing(NamedTuple):
    """What one bulk indexing took."""

    cpu_s: float
    wall_s: float


def chunk_texts(document: Mapping[str, object]) -> list[str]:
    """Cut a document as the service does."""
    pages = document["pages"]
    assert isinstance(pages, list)
    cut = chunks_of(Document(tenant_id="", doc_id="", title="", pages=tuple(pages)))
    return [chunk.text for chunk in cut]


class Engine:
    """An index of a document's chunks, with the service's analysis, made by ``bulk_index``."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._texts = chunk_texts(document)
        self._analyzer = _analyzer()
        self._index = _new_index(self._analyzer)
        _fill(self._index, self._texts)
        self._index.reload()

    def query_cpu_ms(self, queries: Sequence[str]) -> float:
        """Return this thread's mean CPU time for a query and the snippets of its hits."""
        started = time.thread_time()
        for query in queries:
            self._search(query)
        return (time.thread_time() - started) * 1000 / len(queries)

    def _search(self, text: str) -> list[str]:
        searcher, schema = self._index.searcher(), self._index.schema
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(schema, _TEXT, term, "freq"))
                for term in self._analyzer.analyze(text)
            ]
        )
        hits = searcher.search(query, RESULTS, count=False).hits
        places = searcher.fast_field_values(_PLACE, [address for _, address in hits])
        generator = tantivy.SnippetGenerator.create(searcher, query, schema, _TEXT)
        generator.set_max_num_chars(_SNIPPET_CHARS)
        return [
            generator.snippet_from_doc(tantivy.Document(text=self._texts[int(place)])).fragment()
            for place in places
            if place is not None
        ]


def bulk_index(texts: Sequence[str]) -> Indexing:
    """Index the texts as fast as the engine can with one thread."""
    started, cpu_started = time.perf_counter(), time.process_time()
    index = _new_index(_analyzer())
    _fill(index, texts)
    index.reload()
    return Indexing(time.process_time() - cpu_started, time.perf_counter() - started)


def _fill(index: tantivy.Index, texts: Sequence[str]) -> None:
    writer = index.writer(_HEAP_BYTES, 1)
    for place, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, place=place))
    writer.commit()
    writer.wait_merging_threads()


def _new_index(analyzer: tantivy.TextAnalyzer) -> tantivy.Index:
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field(_TEXT, tokenizer_name=_ANALYZER, index_option="freq")
        .add_integer_field(_PLACE, fast=True)
        .build()
    )
    index = tantivy.Index(schema)
    index.register_tokenizer(_ANALYZER, analyzer)
    return index


def _analyzer() -> tantivy.TextAnalyzer:
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(255))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stemmer("english"))
        .filter(tantivy.Filter.stemmer("russian"))
        .build()
    )
