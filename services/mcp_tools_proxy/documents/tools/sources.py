"""Where the texts of an answer stand, so that they can be cited and checked."""

from collections.abc import Iterable
from typing import NotRequired, cast

from typing_extensions import TypedDict

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.document import DocumentHead, PageSpan, RetrievedChunk
from mcp_tools_proxy.domain.json_objects import without_none


class Source(TypedDict):
    """A place in a document: characters of one page's text, ``end_char`` excluded.

    ``ocr`` is there only for a page that was read by OCR: how sure that was, in per cent.
    """

    doc_id: str
    version: str
    page: int
    start_char: int
    end_char: int
    ocr: NotRequired[int]


class WindowSource(TypedDict):
    """A place in a document, as far as Retrieval knows it."""

    doc_id: str
    version: NotRequired[str]
    page: NotRequired[int]
    start_char: NotRequired[int]
    end_char: NotRequired[int]
    ocr: NotRequired[int]


def sources_of(head: DocumentHead, spans: Iterable[PageSpan]) -> list[Source]:
    """Return the sources of a text that stands on these stretches of a document's pages."""
    return [source_of(head, span) for span in spans]


def source_of(head: DocumentHead, span: PageSpan) -> Source:
    """Return the source of a text that stands on one stretch of a page."""
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


def without_sources(value: JsonObject) -> JsonObject:
    """Return a document tool's answer without the sources of its texts.

    The places that ``verify_quote`` answers are no such sources: they are what it is called for.
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
    """Return the source of a chunk, with what Retrieval knows of it."""
    known = {
        "doc_id": doc_id,
        "version": chunk.version,
        "page": chunk.page,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "ocr": chunk.ocr,
    }
    return [cast("WindowSource", without_none(known))]
