"""Builds the index of a document."""

import ctypes
import sys
from collections.abc import Sequence

import tantivy

from mcp_tools_proxy.documents.layout import each_chunk
from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.documents.search.analysis import Analysis, analysis_of, clean, prepare
from mcp_tools_proxy.documents.search.fields import CHUNK_TEXT, PAGE_TEXT, PLACE, TOKENIZER
from mcp_tools_proxy.documents.search.languages import language_of
from mcp_tools_proxy.documents.search.listings import is_listing
from mcp_tools_proxy.documents.search.search_index import SearchIndex
from mcp_tools_proxy.documents.search.searched_text import SearchedText
from mcp_tools_proxy.domain.document import Chunk, Document
from mcp_tools_proxy.wire.text import utf8_len

_WRITER_HEAP_BYTES = 64_000_000
"""Allocated as needed; documents below it (about 15 MB of text) become a single segment."""

CHUNKS_BETWEEN_PAUSES = 16


def build_index(document: Document) -> SearchIndex:
    """Index a document's chunks and pages. Slow (0.2 s for each MB): call it in a worker thread.

    Pauses every few chunks so that other threads run, and returns freed memory to the system.
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
    """Write the chunks to ``engine``, and with the first of each page the text of all of them."""
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
    """Return memory that the writer freed to the system; glibc would keep some 30 MB."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
