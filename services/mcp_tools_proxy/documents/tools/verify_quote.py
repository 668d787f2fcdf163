"""verify_quote: verbatim check of a quote."""

from typing import Annotated, NotRequired

from pydantic import AfterValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.quotable_document import Passage
from mcp_tools_proxy.documents.tools.local_tool import (
    LocalTool,
    VersionArguments,
    build_local_tool,
    version_finder,
)
from mcp_tools_proxy.documents.tools.sources import Source, source_of, sources_of
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.wire.text import cut_utf8, estimate_tokens

MIN_QUOTE_CHARS = 8
MAX_QUOTE_CHARS = 2_000


def _quote(text: str) -> str:
    """Validate the length of a quote; a cut quote would be a different one."""
    trimmed = text.strip()
    if len(trimmed) < MIN_QUOTE_CHARS:
        raise ValueError(f"should have at least {MIN_QUOTE_CHARS} characters; quote more words")
    if len(trimmed) > MAX_QUOTE_CHARS:
        raise ValueError(
            f"should have at most {MAX_QUOTE_CHARS} characters; verify it in several parts"
        )
    return trimmed


class QuoteArguments(VersionArguments):
    """Arguments of verify_quote."""

    quote: Annotated[
        str,
        AfterValidator(_quote),
        WithJsonSchema({"type": "string"}),
        Field(
            description=(
                f"{MIN_QUOTE_CHARS} to {MAX_QUOTE_CHARS} characters, without surrounding quotation "
                "marks or …, and without omissions."
            )
        ),
    ]


class Nearest(TypedDict):
    """The passage most similar to the quote."""

    text: str
    similarity: float
    source: Source


class QuoteVerdict(TypedDict):
    """Whether and where the document contains the quote, or the most similar passage."""

    verified: bool
    matches: list[Source]
    nearest: NotRequired[Nearest]
    doc_id: str
    tokens: int


def quote_tool(
    repository: DocumentRepository, *, max_text_bytes: int
) -> LocalTool[QuoteArguments, CachedDocument]:
    """Build verify_quote (contract §2)."""

    async def verify(arguments: QuoteArguments, _call: Call, document: CachedDocument) -> Result:
        check = await repository.check_quote(document, arguments.quote)
        result: QuoteVerdict = {
            "verified": bool(check.spans),
            "matches": sources_of(document.head, check.spans),
            "doc_id": arguments.doc_id,
            "tokens": 0,
        }
        if check.nearest is not None:
            nearest = _nearest(document.head, check.nearest, max_text_bytes)
            result["nearest"] = nearest
            result["tokens"] = estimate_tokens(len(nearest["text"]))
        return Result(value=result, tokens=result["tokens"])

    return build_local_tool(
        name="verify_quote",
        description=(
            "Check, before you show a quotation, that the document contains it word for word. "
            "White space, markup, hyphens at line ends and the kind of quotation marks do not "
            "count, case and figures do. Returns the places (matches), or otherwise the nearest "
            "passage: if it says the same, correct the quotation and check again."
        ),
        arguments=QuoteArguments,
        result=QuoteVerdict,
        function=verify,
        find_document=version_finder(repository, lambda _: WHOLE),
    )


def _nearest(head: DocumentHead, passage: Passage, max_text_bytes: int) -> Nearest:
    text = cut_utf8(passage.text, max_text_bytes)
    span = passage.span
    return {
        "text": text,
        "similarity": passage.similarity,
        "source": source_of(head, span._replace(end_char=span.start_char + len(text))),
    }
