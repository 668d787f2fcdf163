"""All local tools, in the order of every list. Add new tools here, with an example."""

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_tools_proxy.documents.chunk_windows import Retrieval
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.page_images import PageImages
from mcp_tools_proxy.documents.search.tenant_search import TenantSearch
from mcp_tools_proxy.documents.tools.chunk_window import window_tool
from mcp_tools_proxy.documents.tools.list_available_tools import ListTools, catalog_tool
from mcp_tools_proxy.documents.tools.list_documents import documents_tool
from mcp_tools_proxy.documents.tools.local_tool import LocalTool
from mcp_tools_proxy.documents.tools.read_document import metadata_tool, pages_tool, section_tool
from mcp_tools_proxy.documents.tools.search import documents_search_tool, search_tool
from mcp_tools_proxy.documents.tools.verify_quote import quote_tool
from mcp_tools_proxy.documents.tools.view_page import view_tool
from mcp_tools_proxy.domain.fast_dataclass import dataclass

EXAMPLES: Mapping[str, Mapping[str, object]] = {
    "read_doc_section": {"doc_id": "doc_1", "section_id": "sec_intro"},
    "read_doc_pages": {"doc_id": "doc_1", "page_start": 1, "page_end": 2},
    "read_doc_metadata": {"doc_id": "doc_1"},
    "doc_local_search": {"doc_id": "doc_1", "query": "certificate", "max_results": 3},
    "read_chunk_window": {"doc_id": "doc_1", "anchor_chunk_id": "p1-c1", "radius": 1},
    "list_documents": {"query": "guide", "limit": 5},
    "search_documents": {"query": "certificate", "max_results": 3},
    "verify_quote": {"doc_id": "doc_1", "quote": "Pages 1 and 2 introduce the terms"},
    "list_available_tools": {},
}
"""Example arguments of each permanent tool, valid for the built-in document.

The OpenAPI document shows them, and tests call every tool with them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParts:
    """Dependencies and limits of the tools; without ``images``, there is no view_doc_page."""

    repository: DocumentRepository
    tenant_search: TenantSearch
    retrieval: Retrieval
    list_tools: ListTools
    images: PageImages | None = None
    windows_configured: bool
    windows_are_local: bool
    own_documents_only: bool
    retrieval_knows_caller: bool
    max_text_bytes: int
    max_pages_per_call: int
    window_radius: int
    max_image_bytes: int
    max_result_bytes: int


def build_local_tools(parts: ToolParts) -> Iterator[LocalTool[Any, Any]]:
    """Yield the tools, those for documents first."""
    repository, max_text_bytes = parts.repository, parts.max_text_bytes
    yield section_tool(repository, max_text_bytes=max_text_bytes)
    yield pages_tool(
        repository,
        max_pages_per_call=parts.max_pages_per_call,
        max_text_bytes=max_text_bytes,
    )
    yield metadata_tool(repository, max_text_bytes=max_text_bytes)
    yield search_tool(
        repository,
        max_text_bytes=max_text_bytes,
        windows_configured=parts.windows_configured,
    )
    yield window_tool(
        repository,
        parts.retrieval,
        radius=parts.window_radius,
        configured=parts.windows_configured,
        own_documents_only=parts.own_documents_only,
        windows_are_local=parts.windows_are_local,
        retrieval_knows_caller=parts.retrieval_knows_caller,
        max_text_bytes=max_text_bytes,
    )
    yield documents_tool(repository, max_text_bytes=max_text_bytes)
    yield documents_search_tool(parts.tenant_search, max_text_bytes=max_text_bytes)
    yield quote_tool(repository, max_text_bytes=max_text_bytes)
    if parts.images is not None:
        yield view_tool(repository, parts.images, max_image_bytes=parts.max_image_bytes)
    yield catalog_tool(parts.list_tools, max_result_bytes=parts.max_result_bytes)
