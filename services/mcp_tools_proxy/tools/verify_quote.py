"""verify_quote: whether a quote stands in a document word for word."""

from typing import Annotated, NotRequired

from pydantic import AfterValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.quotes.quotable_document import MAX_MATCHES, Passage
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result, Tool
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.tools.arguments import Tokens
from mcp_tools_proxy.tools.document_lookup import VersionArguments, version_finder
from mcp_tools_proxy.tools.local_tool import build_local_tool
from mcp_tools_proxy.tools.sources import Source, Sources, source_of, sources_of
from mcp_tools_proxy.wire.text import cut_utf8, estimate_tokens

MIN_QUOTE_CHARS = 8
MAX_QUOTE_CHARS = 2_000


def _quote(text: str) -> str:
    """Refuse what is too short or too long: a part that was cut would be another quote."""
    trimmed = text.strip()
    if len(trimmed) < MIN_QUOTE_CHARS:
        raise ValueError(f"should have at least {MIN_QUOTE_CHARS} characters; quote more words")
    if len(trimmed) > MAX_QUOTE_CHARS:
        raise ValueError(
            f"should have at most {MAX_QUOTE_CHARS} characters; verify it in several parts"
        )
    return trimmed


class QuoteArguments(VersionArguments):
    """What is said to stand in which document."""

    quote: Annotated[
        str,
        AfterValidator(_quote),
        WithJsonSchema(
            {"type": "string", "minLength": MIN_QUOTE_CHARS, "maxLength": MAX_QUOTE_CHARS}
        ),
        Field(
            description=(
                "The words as they are quoted, without quotation marks around them, and without "
                "the … at the ends of an excerpt. Nothing may be left out in between."
            )
        ),
    ]


class Nearest(TypedDict):
    """The passage that is most like the quote."""

    text: str
    similarity: Annotated[float, Field(description="1 is the same, 0 has nothing in common.")]
    source: Source


class QuoteVerdict(TypedDict):
    """Whether the quote stands there, and where; else what stands there that is like it."""

    verified: Annotated[bool, Field(description="True when the quote stands there word for word.")]
    matches: Sources
    nearest: NotRequired[
        Annotated[
            Nearest,
            Field(description="Only when not verified, and something is like the quote."),
        ]
    ]
    doc_id: str
    tokens: Tokens


def quote_tool(repository: DocumentRepository, *, max_text_bytes: int) -> Tool:
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
            "Check a quotation before you show it: whether these words stand in the document, "
            "word for word and figure for figure; differences of white space, of hyphens at line "
            "ends, and of the kind of quotation marks do not count, upper and lower case does, and "
            "in a table the bars. Gives the places where they stand, at most "
            f"{MAX_MATCHES}, or else the passage that is most like them, if any: if it says the "
            "same, correct the quotation by it and check again; if not, quote another place."
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
