"""read_doc_section: the text of one section."""

from collections.abc import Iterable
from typing import NotRequired

from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.layout import cut_pages, section_spans
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.errors import SectionNotFound
from mcp_tools_proxy.tools.arguments import Id, StartChar
from mcp_tools_proxy.tools.document_lookup import VersionArguments, version_finder
from mcp_tools_proxy.tools.local_tool import LocalTool, build_local_tool
from mcp_tools_proxy.tools.sources import Source, sources_of
from mcp_tools_proxy.wire.text import estimate_tokens, quote

SHOWN_SECTION_IDS = 50


class SectionArguments(VersionArguments):
    """Which section to read, and from where."""

    section_id: Id
    start_char: StartChar = 0


class SectionText(TypedDict):
    """A section's text; pages are 1-based and inclusive."""

    text: str
    tokens: int
    section_id: str
    doc_id: str
    truncated: bool
    next_start_char: NotRequired[int]
    title: str
    page_start: int
    page_end: int
    sources: NotRequired[list[Source]]


def _wanted(arguments: SectionArguments) -> Wanted:
    return Wanted(section_id=arguments.section_id)


def section_tool(
    repository: DocumentRepository, *, max_text_bytes: int
) -> LocalTool[SectionArguments, CachedDocument]:
    """Build read_doc_section (contract §2)."""

    async def read_section(
        arguments: SectionArguments, _call: Call, document: CachedDocument
    ) -> Result:
        sections = document.sections or {}
        section = sections.get(arguments.section_id)
        if section is None:
            raise _no_section(arguments, sections)
        pages = document.pages(section.page_start, section.page_end)
        part = cut_pages(
            section_spans(section, pages),
            pages,
            start_char=arguments.start_char,
            max_bytes=max_text_bytes,
        )
        cut = part.cut
        tokens = estimate_tokens(len(cut.text))
        result: SectionText = {
            "text": cut.text,
            "tokens": tokens,
            "section_id": section.section_id,
            "doc_id": arguments.doc_id,
            "truncated": cut.next_start_char is not None,
            "title": section.title,
            "page_start": section.page_start,
            "page_end": section.page_end,
            "sources": sources_of(document.head, part.spans),
        }
        if cut.next_start_char is not None:
            result["next_start_char"] = cut.next_start_char
        return Result(value=result, tokens=tokens)

    return build_local_tool(
        name="read_doc_section",
        description=(
            "Read one section of a document; read_doc_metadata lists the section ids. Returns at "
            f"most {max_text_bytes} bytes of text; if truncated is true, repeat the call with "
            "start_char set to next_start_char."
        ),
        arguments=SectionArguments,
        result=SectionText,
        function=read_section,
        find_document=version_finder(repository, _wanted),
        ignores_unknown_arguments=True,
    )


def _no_section(arguments: SectionArguments, sections: Iterable[str]) -> SectionNotFound:
    known = list(sections)
    named = f"document {quote(arguments.doc_id)} has no"
    return SectionNotFound(
        f"{named} section {quote(arguments.section_id)}; read_doc_metadata lists its sections"
        if known
        else f"{named} sections; use read_doc_pages",
        details={"section_ids": known[:SHOWN_SECTION_IDS]},
    )
