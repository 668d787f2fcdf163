"""Sources of the texts in an answer, for citation and verification."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NotRequired, cast

from typing_extensions import TypedDict

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.document import (
    DocumentHead,
    DocumentRead,
    PageSpan,
    RetrievedChunk,
    page_ranges,
)
from mcp_tools_proxy.domain.json_objects import without_none


class Source(TypedDict):
    """A position in a document: characters of one page's text, ``end_char`` excluded.

    ``ocr`` is the OCR confidence in per cent, present only for pages read by OCR.
    """

    doc_id: str
    version: str
    page: int
    start_char: int
    end_char: int
    ocr: NotRequired[int]


class WindowSource(TypedDict):
    """A position in a document, as far as Retrieval knows it."""

    doc_id: str
    version: NotRequired[str]
    page: NotRequired[int]
    start_char: NotRequired[int]
    end_char: NotRequired[int]
    ocr: NotRequired[int]


def sources_of(head: DocumentHead, spans: Iterable[PageSpan]) -> list[Source]:
    """Return the sources of a text with the given page spans."""
    return [source_of(head, span) for span in spans]


def source_of(head: DocumentHead, span: PageSpan) -> Source:
    """Return the source of a text with the given page span."""
    source: Source = {
        "doc_id": head.doc_id,
        "version": head.version,
        "page": span.page,
        "start_char": span.start_char,
        "end_char": span.end_char,
    }
    confidence = head.ocr_confidence(span.page)
    if confidence is not None:
        source["ocr"] = confidence
    return source


def read_of(head: DocumentHead, value: object) -> DocumentRead:
    """Return a document in an answer, with the pages in ``value``, a part of the answer."""
    return DocumentRead(
        doc_id=head.doc_id,
        version=head.version,
        pages=page_ranges(_pages_in(value)),
        is_untrusted=head.is_untrusted,
    )


_WITH_PAGES = ("sources", "snippets", "chunks", "matches", "nearest", "source")
"""Parts of answers that have pages. Others can be long: lists of sections."""


def _pages_in(value: object) -> Iterator[int]:
    """Yield the pages of all sources and excerpts."""
    if isinstance(value, list):
        for it in value:
            yield from _pages_in(it)
    elif isinstance(value, Mapping):
        page = value.get("page")
        if isinstance(page, int):
            yield page
            return
        for name in _WITH_PAGES:
            if name in value:
                yield from _pages_in(value[name])


def without_sources(value: JsonObject) -> JsonObject:
    """Return a document tool's answer without the sources of its texts.

    The ``matches`` of ``verify_quote`` stay, because they are its result.
    """
    return {
        key: [_without(it) for it in part] if isinstance(part, list) else part
        for key, part in value.items()
        if key != "sources"
    }


def _without(item: object) -> object:
    if not isinstance(item, dict) or "sources" not in item:
        return item
    return {key: part for key, part in item.items() if key != "sources"}


def window_sources(doc_id: str, chunk: RetrievedChunk) -> list[WindowSource]:
    """Return the source of a chunk, as far as Retrieval knows it."""
    known = {
        "doc_id": doc_id,
        "version": chunk.version,
        "page": chunk.page,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "ocr": chunk.ocr,
    }
    return [cast("WindowSource", without_none(known))]
