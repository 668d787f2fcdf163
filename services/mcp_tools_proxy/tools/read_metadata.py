"""read_doc_metadata: title, pages, sections and tags of a document."""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, NotRequired

from pydantic import Field
from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import Section
from mcp_tools_proxy.tools.arguments import Natural
from mcp_tools_proxy.tools.document_lookup import VersionArguments, version_finder
from mcp_tools_proxy.tools.local_tool import LocalTool, build_local_tool
from mcp_tools_proxy.wire.text import estimate_tokens


class MetadataArguments(VersionArguments):
    """Which document to describe, and from which section on."""

    start_section: Annotated[
        Natural, Field(description="To continue: next_start_section of the previous answer.")
    ] = 0


class SectionEntry(TypedDict):
    """One section; pages are 1-based and inclusive."""

    section_id: str
    title: str
    page_start: int
    page_end: int


class Metadata(TypedDict):
    """What a document is; ``pages`` is their number."""

    doc_id: str
    title: str
    pages: int
    section_count: int
    sections: list[SectionEntry]
    truncated: bool
    next_start_section: NotRequired[int]
    tags: list[str]
    tenant_id: str
    tokens: int


def metadata_tool(
    repository: DocumentRepository, *, max_text_bytes: int
) -> LocalTool[MetadataArguments, CachedDocument]:
    """Build read_doc_metadata (contract §2)."""

    async def read_metadata(
        arguments: MetadataArguments, _call: Call, document: CachedDocument
    ) -> Result:
        head = document.head
        listed = document.sections or {}
        count = len(listed)
        first = min(arguments.start_section, count)
        sections = _fit_sections(islice(listed.values(), first, None), max_text_bytes)
        end = first + len(sections)
        result: Metadata = {
            "doc_id": arguments.doc_id,
            "title": head.title,
            "pages": head.page_count,
            "section_count": count,
            "sections": sections,
            "truncated": end < count,
            "tags": list(head.tags),
            "tenant_id": head.tenant_id,
            "tokens": 0,
        }
        if end < count:
            result["next_start_section"] = end
        result["tokens"] = estimate_tokens(len(to_json(result)))
        return Result(value=result, tokens=result["tokens"])

    return build_local_tool(
        name="read_doc_metadata",
        description=(
            "Describe a document: title, number of pages, tags, and sections with ids and pages. "
            f"Returns at most {max_text_bytes} bytes of sections; if truncated is true, "
            "repeat the call with start_section set to next_start_section, or search instead."
        ),
        arguments=MetadataArguments,
        result=Metadata,
        function=read_metadata,
        find_document=version_finder(repository, lambda _: Wanted(sections=True)),
        ignores_unknown_arguments=True,
    )


def _fit_sections(sections: Iterable[Section], max_bytes: int) -> list[SectionEntry]:
    """Return the first sections whose JSON list fits in ``max_bytes``, but at least one."""
    entries: list[SectionEntry] = []
    bytes_left = max_bytes - 1  # the opening bracket; each entry has a comma or the closing one
    for section in sections:
        entry: SectionEntry = {
            "section_id": section.section_id,
            "title": section.title,
            "page_start": section.page_start,
            "page_end": section.page_end,
        }
        bytes_left -= len(to_json(entry)) + 1
        if bytes_left < 0 and entries:
            break
        entries.append(entry)
    return entries
