"""read_doc_metadata: title, pages, sections and tags of a document."""

from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.repository import DocumentRepository
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.component import Result
from mcp_tools_proxy.domain.tool import Tool
from mcp_tools_proxy.policy.bounds import estimate_tokens
from mcp_tools_proxy.tools.about_document import DocumentArguments, document_finder
from mcp_tools_proxy.tools.arguments import Tokens
from mcp_tools_proxy.tools.bind import bind


class MetadataArguments(DocumentArguments):
    """Which document to describe."""


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
    sections: list[SectionEntry]
    tags: list[str]
    tenant_id: str
    tokens: Tokens


def metadata_tool(repository: DocumentRepository) -> Tool:
    """Build read_doc_metadata (contract §2)."""
    find = document_finder(repository)

    async def read_metadata(arguments: MetadataArguments, call: Call) -> Result:
        document = await find(arguments, call)
        result: Metadata = {
            "doc_id": document.doc_id,
            "title": document.title,
            "pages": len(document.pages),
            "sections": [
                {
                    "section_id": section.section_id,
                    "title": section.title,
                    "page_start": section.page_start,
                    "page_end": section.page_end,
                }
                for section in document.sections.values()
            ],
            "tags": list(document.tags),
            "tenant_id": document.tenant_id,
            "tokens": 0,
        }
        result["tokens"] = estimate_tokens(len(to_json(result)))
        return Result(value=result, tokens=result["tokens"])

    return bind(
        name="read_doc_metadata",
        description=(
            "Describe a document: title, number of pages, tags, and its sections with their ids "
            "and pages. Start here, then read with read_doc_section or read_doc_pages, or look "
            "something up with doc_local_search."
        ),
        arguments=MetadataArguments,
        result=Metadata,
        function=read_metadata,
        find_document=find,
    )
