"""search_documents: full-text search across the documents that this caller may read."""

from collections.abc import Sequence
from typing import Annotated, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.search.query import words_of
from mcp_tools_proxy.documents.search.tenant_search import TenantQuery, TenantSearch
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import Hit
from mcp_tools_proxy.tools.arguments import Id, Positive
from mcp_tools_proxy.tools.list_documents import TITLE_CHARS
from mcp_tools_proxy.tools.local_search import SearchQuery, fit_snippet
from mcp_tools_proxy.tools.local_tool import Arguments, LocalTool, build_local_tool, no_document
from mcp_tools_proxy.tools.sources import Source
from mcp_tools_proxy.wire.text import estimate_tokens, utf8_len

SEARCH_DOCUMENTS = "search_documents"
"""The name of the tool."""

MAX_PLACES = 10
MAX_NARROWED = 100
"""Most tags, or ids, of one call."""


class TenantSearchArguments(Arguments):
    """What to find, and in which documents."""

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


class FoundPlace(TypedDict):
    """One place: its document, an excerpt around the best match, and where it stands."""

    doc_id: str
    title: str
    page: int
    section_id: NotRequired[str]
    chunk_id: NotRequired[str]
    snippet: str
    score: float
    sources: NotRequired[list[Source]]


class IndexProgress(TypedDict):
    """How many of the documents that you may read were searched."""

    done: int
    total: int


class FoundInDocuments(TypedDict):
    """The places found, best first."""

    places: list[FoundPlace]
    count: int
    searched_for: NotRequired[list[str]]
    indexing: NotRequired[IndexProgress]
    """Only there while documents are not indexed yet: places of these are missing."""


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
        )
        found = await search.search(query)
        places = _fit(found.places, max_text_bytes)
        result: FoundInDocuments = {"places": places, "count": len(places)}
        if not places:
            result["searched_for"] = list(words_of(arguments.query))
        if found.progress is not None:
            result["indexing"] = {"done": found.progress.done, "total": found.progress.total}
        tokens = estimate_tokens(sum(len(place["snippet"]) for place in places))
        return Result(value=result, tokens=tokens)

    return build_local_tool(
        name=SEARCH_DOCUMENTS,
        description=(
            "Search all documents that you may read, if you do not know which one has the answer. "
            "Returns the best excerpts with doc_id, page, section_id and chunk_id, best first. If "
            "there are none, no document has a word of searched_for: try other words or fewer "
            "filters. If indexing is present, results are incomplete: search again later."
        ),
        arguments=TenantSearchArguments,
        result=FoundInDocuments,
        function=find_places,
        find_document=no_document,
    )


def _fit(found: Sequence[tuple[CachedDocument, Hit]], max_text_bytes: int) -> list[FoundPlace]:
    """Return the best places whose snippets fit together; the last one may be cut."""
    places: list[FoundPlace] = []
    bytes_left = max_text_bytes
    for document, hit in found:
        snippet = fit_snippet(document, hit, bytes_left)
        if snippet is None:
            break
        bytes_left -= utf8_len(snippet["snippet"])
        head = document.head
        places.append({"doc_id": head.doc_id, "title": head.title[:TITLE_CHARS], **snippet})
    return places
