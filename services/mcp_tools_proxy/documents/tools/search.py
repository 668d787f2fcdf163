"""Full-text search: doc_local_search in one document, search_documents across documents."""

from collections.abc import Sequence
from typing import Annotated, NotRequired, cast

from pydantic import AfterValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.search.query import words_of
from mcp_tools_proxy.documents.search.snippets import end_of_words
from mcp_tools_proxy.documents.search.tenant_search import FoundHit, TenantQuery, TenantSearch
from mcp_tools_proxy.documents.tools.list_documents import TITLE_CHARS
from mcp_tools_proxy.documents.tools.local_tool import (
    Arguments,
    Id,
    LocalTool,
    Positive,
    VersionArguments,
    WantedDocuments,
    build_local_tool,
    no_document,
    version_finder,
)
from mcp_tools_proxy.documents.tools.sources import Source, read_of, sources_of
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import DocumentHead, DocumentRead, Hit, PageSpan
from mcp_tools_proxy.wire.text import cut_utf8, estimate_tokens, utf8_len

MAX_QUERY_CHARS = 1000
MAX_RESULTS = 5


def _checked_query(text: str) -> str:
    """Trim a query and cut it to MAX_QUERY_CHARS. Raises ValueError if blank."""
    trimmed = text.strip()
    if not trimmed:
        raise ValueError("should not be blank")
    return trimmed[:MAX_QUERY_CHARS]


SearchQuery = Annotated[
    str,
    AfterValidator(_checked_query),
    WithJsonSchema({"type": "string"}),
    Field(
        description=(
            "Words in any inflection and order, in the documents' language; no operators. Only "
            f"the first {MAX_QUERY_CHARS} characters are used."
        )
    ),
]


class SearchArguments(VersionArguments):
    """Arguments of doc_local_search."""

    query: SearchQuery
    max_results: Annotated[
        Positive,
        AfterValidator(lambda wanted: min(wanted, MAX_RESULTS)),
        Field(description=f"At most {MAX_RESULTS}."),
    ] = 3


class Snippet(TypedDict):
    """A search hit: an excerpt around the best match, and its position."""

    snippet: str
    page: int
    section_id: NotRequired[str]
    chunk_id: NotRequired[str]
    score: float
    sources: NotRequired[list[Source]]


class Snippets(TypedDict):
    """The hits, best first."""

    snippets: list[Snippet]
    count: int
    doc_id: str
    tokens: int
    searched_for: NotRequired[list[str]]
    indexing: NotRequired[bool]
    """True if the index is not built yet; the hits come from a scan of the pages."""


def search_tool(
    repository: DocumentRepository, *, max_text_bytes: int, windows_configured: bool
) -> LocalTool[SearchArguments, CachedDocument]:
    """Build doc_local_search (contract §2, T-07).

    The description mentions read_chunk_window only with ``windows_configured``.
    """
    readers = "read_doc_section or read_doc_pages"
    if windows_configured:
        readers = "read_doc_section, read_doc_pages, or read_chunk_window with its chunk_id"

    async def search(arguments: SearchArguments, _call: Call, found: CachedDocument) -> Result:
        hits, is_indexed = await repository.search(
            found, arguments.query, max_results=arguments.max_results
        )
        snippets = _fit_snippets(found, hits, max_text_bytes)
        tokens = estimate_tokens(sum(len(snippet["snippet"]) for snippet in snippets))
        result: Snippets = {
            "snippets": snippets,
            "count": len(snippets),
            "doc_id": arguments.doc_id,
            "tokens": tokens,
        }
        if not snippets:
            result["searched_for"] = list(words_of(arguments.query))
        if not is_indexed:
            result["indexing"] = True
        return Result(value=result, tokens=tokens)

    return build_local_tool(
        name="doc_local_search",
        description=(
            "Search one document. Returns the best excerpts with page, section_id and chunk_id, "
            "best first. If there are none, the document has no word of searched_for: try other "
            "words. If indexing is true, results are incomplete: search again later. To read the "
            f"context, call {readers}."
        ),
        arguments=SearchArguments,
        result=Snippets,
        function=search,
        find_document=version_finder(repository, lambda _: WHOLE),
        ignores_unknown_arguments=True,
    )


def _fit_snippets(found: CachedDocument, hits: Sequence[Hit], max_text_bytes: int) -> list[Snippet]:
    """Return the best hits whose snippets fit together; the last one may be cut."""
    snippets: list[Snippet] = []
    bytes_left = max_text_bytes
    for hit in hits:
        snippet = fit_snippet(found, hit, bytes_left)
        if snippet is None:
            break
        bytes_left -= utf8_len(snippet["snippet"])
        snippets.append(snippet)
    return snippets


def fit_snippet(found: CachedDocument, hit: Hit, max_bytes: int) -> Snippet | None:
    """Return a hit for an answer, its snippet cut to ``max_bytes``; None if no text fits."""
    text = cut_utf8(hit.snippet, max_bytes)
    if not text:
        return None
    span = hit.span if text == hit.snippet else _span_of_part(found, hit, text)
    snippet: Snippet = {
        "snippet": text,
        "page": hit.page,
        "score": hit.score,
        "sources": [] if span is None else sources_of(found.head, [span]),
    }
    if hit.section_id is not None:
        snippet["section_id"] = hit.section_id
    if hit.chunk_id is not None:
        snippet["chunk_id"] = hit.chunk_id
    return snippet


def _span_of_part(found: CachedDocument, hit: Hit, part: str) -> PageSpan | None:
    """Return the page span of the first words of a hit's snippet."""
    if hit.span is None:
        return None
    page, start, whole_end = hit.span
    (text,) = found.pages(page, page)
    end = end_of_words(text, start, part.strip("…").split())
    return PageSpan(page, start, whole_end if end is None else end)


SEARCH_DOCUMENTS = "search_documents"

MAX_PLACES = 10
MAX_NARROWED = 100
"""Maximum tags, or ids, of a call."""


class TenantSearchArguments(Arguments):
    """Arguments of search_documents."""

    query: SearchQuery
    max_results: Annotated[
        Positive,
        AfterValidator(lambda wanted: min(wanted, MAX_PLACES)),
        Field(description=f"At most {MAX_PLACES}."),
    ] = 5
    tags: Annotated[
        list[str] | None,
        Field(
            max_length=MAX_NARROWED,
            description="Only documents with one of these tags.",
        ),
    ] = None
    doc_ids: Annotated[list[Id] | None, Field(max_length=MAX_NARROWED)] = None
    filter: WantedDocuments | None = None


class FoundPlace(TypedDict):
    """A search hit: its document, an excerpt around the best match, and its position."""

    doc_id: str
    title: str
    page: int
    section_id: NotRequired[str]
    chunk_id: NotRequired[str]
    snippet: str
    score: float
    sources: NotRequired[list[Source]]
    copies: NotRequired[list[str]]
    """Documents with the same pages; their hits are left out."""


class IndexProgress(TypedDict):
    """Number of searched and of readable documents; ``total`` is absent if it is not known yet."""

    done: int
    total: NotRequired[int]


class FoundInDocuments(TypedDict):
    """The hits, best first."""

    places: list[FoundPlace]
    count: int
    searched_for: NotRequired[list[str]]
    indexing: NotRequired[IndexProgress]
    """Present until all documents are indexed; hits in the others are missing."""


def documents_search_tool(
    search: TenantSearch, *, max_text_bytes: int
) -> LocalTool[TenantSearchArguments, None]:
    """Build search_documents (contract §2)."""

    async def find_places(arguments: TenantSearchArguments, call: Call, _none: None) -> Result:
        query = TenantQuery(
            caller=call.caller,
            text=arguments.query,
            max_results=arguments.max_results,
            tags=arguments.tags,
            doc_ids=arguments.doc_ids,
            filter=arguments.filter,
        )
        found = await search.search(query)
        places = _fit_places(found.places, max_text_bytes)
        copies = [doc_id for place in places for doc_id in place.get("copies", ())]
        heads = [it.document.head for it in found.places[: len(places)]]
        result: FoundInDocuments = {"places": places, "count": len(places)}
        if not places:
            result["searched_for"] = list(words_of(arguments.query))
        if found.progress is not None:
            result["indexing"] = {"done": found.progress.done}
            if found.progress.total:
                result["indexing"]["total"] = found.progress.total
        tokens = estimate_tokens(sum(len(place["snippet"]) for place in places))
        return Result(
            value=result,
            tokens=tokens,
            read=_read(heads, places) if call.run is not None else (),
            reads_untrusted=any(it.is_untrusted for it in heads)
            or (call.run is not None and await search.has_untrusted(call.caller, copies)),
        )

    return build_local_tool(
        name=SEARCH_DOCUMENTS,
        description=(
            "Search all documents that you may read, if you do not know which one has the answer. "
            "Returns the best excerpts with doc_id, page, section_id and chunk_id, best first. If "
            "there are none, no document has a word of searched_for: try other words or fewer "
            "filters. copies are documents with the same text. If indexing is present, results are "
            "incomplete: search again later."
        ),
        arguments=TenantSearchArguments,
        result=FoundInDocuments,
        function=find_places,
        find_document=no_document,
    )


def _read(heads: Sequence[DocumentHead], places: Sequence[FoundPlace]) -> tuple[DocumentRead, ...]:
    """Return the documents of places, each once with all its pages."""
    by_id = {it.doc_id: it for it in heads}
    return tuple(
        read_of(head, [it for it in places if it["doc_id"] == doc_id])
        for doc_id, head in by_id.items()
    )


def _fit_places(found: Sequence[FoundHit], max_text_bytes: int) -> list[FoundPlace]:
    """Return the best hits whose snippets fit together; the last one may be cut."""
    places: list[FoundPlace] = []
    bytes_left = max_text_bytes
    for document, hit, copies in found:
        snippet = fit_snippet(document, hit, bytes_left)
        if snippet is None:
            break
        bytes_left -= utf8_len(snippet["snippet"])
        head = document.head
        named = {"copies": list(copies)} if copies else {}
        place = {"doc_id": head.doc_id, "title": head.title[:TITLE_CHARS], **snippet, **named}
        places.append(cast("FoundPlace", place))
    return places
