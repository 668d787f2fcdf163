"""doc_local_search: the best places of one document for a query."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from mcp_tools_proxy.documents.repository import DocumentRepository
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.tool import Tool, ToolResult
from mcp_tools_proxy.policy.bounds import cut_utf8, estimate_tokens, utf8_len
from mcp_tools_proxy.tools.arguments import DocId, Positive, Tokens, tool_result
from mcp_tools_proxy.tools.bind import Arguments, bind

MAX_QUERY_CHARS = 1000
MAX_RESULTS = 5


def _query(text: str) -> str:
    trimmed = text.strip()
    if not trimmed:
        raise ValueError("should hold at least one character that is not a space")
    return trimmed[:MAX_QUERY_CHARS]


class SearchArguments(Arguments):
    """Where to look, for what, and how many places to give."""

    doc_id: DocId
    query: Annotated[
        str,
        AfterValidator(_query),
        WithJsonSchema({"type": "string", "minLength": 1}),
        Field(
            description=(
                "Words to look for, in any inflection and order, in the document's language; no "
                f"operators. What is over {MAX_QUERY_CHARS} characters is ignored."
            )
        ),
    ]
    max_results: Annotated[
        Positive,
        AfterValidator(lambda wanted: min(wanted, MAX_RESULTS)),
        Field(description=f"How many places to return; more than {MAX_RESULTS} gives 5."),
    ] = 3


class Snippet(BaseModel):
    """One place: an excerpt around the best match, and where it stands."""

    snippet: str
    page: int
    section_id: str | None = None
    chunk_id: str | None = None
    score: float


class Snippets(BaseModel):
    """The places found, best first."""

    snippets: list[Snippet]
    count: int
    doc_id: str
    tokens: Tokens


def search_tool(repository: DocumentRepository, *, max_text_bytes: int) -> Tool:
    """Build doc_local_search (contract §2, T-07)."""

    async def search(arguments: SearchArguments, call: Call) -> ToolResult:
        hits = await repository.search(
            call.caller.tenant_id,
            arguments.doc_id,
            arguments.query,
            max_results=arguments.max_results,
        )
        snippets: list[Snippet] = []
        room = max_text_bytes
        for hit in hits:
            text = cut_utf8(hit.snippet, room)
            if not text:
                break
            room -= utf8_len(text)
            snippets.append(
                Snippet(
                    snippet=text,
                    page=hit.page,
                    section_id=hit.section_id,
                    chunk_id=hit.chunk_id,
                    score=hit.score,
                )
            )
        tokens = estimate_tokens(sum(len(snippet.snippet) for snippet in snippets))
        result = Snippets(
            snippets=snippets, count=len(snippets), doc_id=arguments.doc_id, tokens=tokens
        )
        return tool_result(result, tokens)

    return bind(
        name="doc_local_search",
        description=(
            "Search inside one document and get the best matching excerpts with their page, "
            f"section_id and chunk_id, best first, at most {MAX_RESULTS}. An empty list means "
            "that nothing matches: try other words. To read around a place, call "
            "read_doc_section, read_doc_pages, or read_chunk_window with its chunk_id."
        ),
        arguments=SearchArguments,
        result=Snippets,
        function=search,
    )
