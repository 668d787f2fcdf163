"""read_doc_pages: the text of a span of pages."""

from typing import Annotated, NotRequired, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.layout import cut_pages, page_spans
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.errors import PagesNotFound, PageSpanTooLarge
from mcp_tools_proxy.tools.arguments import Positive, StartChar
from mcp_tools_proxy.tools.document_lookup import VersionArguments, version_finder
from mcp_tools_proxy.tools.local_tool import ConflictingArguments, LocalTool, build_local_tool
from mcp_tools_proxy.tools.sources import Source, sources_of
from mcp_tools_proxy.wire.text import estimate_tokens


class PagesArguments(VersionArguments):
    """Which pages to read (1-based, inclusive), and from where."""

    page_start: Positive
    page_end: Annotated[Positive, Field(description="Inclusive.")]
    start_char: StartChar = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.page_end < self.page_start:
            raise ConflictingArguments("page_end is before page_start", "page_start", "page_end")
        return self


class PagesText(TypedDict):
    """The pages' text, joined by a blank line; the span is clamped to the document."""

    text: str
    tokens: int
    page_start: int
    page_end: int
    doc_id: str
    truncated: bool
    next_start_char: NotRequired[int]
    sources: NotRequired[list[Source]]


def _wanted(arguments: PagesArguments) -> Wanted:
    return Wanted(pages=(arguments.page_start, arguments.page_end))


def pages_tool(
    repository: DocumentRepository, *, max_pages_per_call: int, max_text_bytes: int
) -> LocalTool[PagesArguments, CachedDocument]:
    """Build read_doc_pages (contract §2)."""

    def check_span(arguments: PagesArguments) -> None:
        span = arguments.page_end - arguments.page_start + 1
        if span > max_pages_per_call:
            raise PageSpanTooLarge(
                f"{span} pages were asked for, the limit is {max_pages_per_call}; read them in "
                "several calls",
                details={"pages": span, "max_pages_per_call": max_pages_per_call},
            )

    async def read_pages(
        arguments: PagesArguments, _call: Call, document: CachedDocument
    ) -> Result:
        page_count = document.head.page_count
        if arguments.page_start > page_count:
            raise PagesNotFound(
                f"page_start is {arguments.page_start}, but the document has {page_count} "
                "pages; use a smaller page_start",
                details={"pages": page_count},
            )
        page_end = min(arguments.page_end, page_count)
        pages = document.pages(arguments.page_start, page_end)
        part = cut_pages(
            page_spans(arguments.page_start, pages),
            pages,
            start_char=arguments.start_char,
            max_bytes=max_text_bytes,
        )
        cut = part.cut
        tokens = estimate_tokens(len(cut.text))
        result: PagesText = {
            "text": cut.text,
            "tokens": tokens,
            "page_start": arguments.page_start,
            "page_end": page_end,
            "doc_id": arguments.doc_id,
            "truncated": cut.next_start_char is not None,
            "sources": sources_of(document.head, part.spans),
        }
        if cut.next_start_char is not None:
            result["next_start_char"] = cut.next_start_char
        return Result(value=result, tokens=tokens)

    return build_local_tool(
        name="read_doc_pages",
        description=(
            f"Read consecutive pages of a document, at most {max_pages_per_call} in one call. "
            f"Returns at most {max_text_bytes} bytes of text; if truncated is true, repeat the "
            "call with start_char set to next_start_char."
        ),
        arguments=PagesArguments,
        result=PagesText,
        function=read_pages,
        find_document=version_finder(repository, _wanted),
        check=check_span,
        ignores_unknown_arguments=True,
    )
