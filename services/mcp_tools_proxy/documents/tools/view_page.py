"""view_doc_page: a page of a PDF as an image."""

import base64
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import HEAD_ONLY
from mcp_tools_proxy.documents.page_images import PageImages
from mcp_tools_proxy.documents.tools.local_tool import (
    DocumentArguments,
    LocalTool,
    Positive,
    build_local_tool,
    document_finder,
)
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.errors import PagesNotFound

PIXELS_OF_A_TOKEN = 750
"""Vendors count about this many pixels per token."""

_ENVELOPE_BYTES = 64 * 1024
"""Maximum size of a result without its image."""


class PageArguments(DocumentArguments):
    """Arguments of view_doc_page."""

    page: Positive


class ImageContent(TypedDict):
    """An image in MCP format."""

    type: Literal["image"]
    data: str
    mimeType: str


class ShownPage(TypedDict):
    """The page and the size of its image in pixels."""

    doc_id: str
    version: str
    page: int
    width: int
    height: int
    tokens: int
    content: NotRequired[list[ImageContent]]
    """The image; over MCP, this is the content of the result."""


def view_tool(
    repository: DocumentRepository, images: PageImages, *, max_image_bytes: int
) -> LocalTool[PageArguments, CachedDocument]:
    """Build view_doc_page (contract §2)."""

    async def view(arguments: PageArguments, _call: Call, document: CachedDocument) -> Result:
        head = document.head
        if arguments.page > head.page_count:
            raise PagesNotFound(
                f"page is {arguments.page}, but the document has {head.page_count} pages; use a "
                "smaller page",
                details={"pages": head.page_count},
            )
        image = await images.image(head, arguments.page)
        tokens = image.width * image.height // PIXELS_OF_A_TOKEN
        data = base64.b64encode(image.data).decode()
        result: ShownPage = {
            "doc_id": arguments.doc_id,
            "version": head.version,
            "page": arguments.page,
            "width": image.width,
            "height": image.height,
            "tokens": tokens,
            "content": [{"type": "image", "data": data, "mimeType": image.media_type}],
        }
        max_bytes = _ENVELOPE_BYTES + max_image_bytes * 4 // 3
        return Result(value=result, tokens=tokens, max_bytes=max_bytes)

    return build_local_tool(
        name="view_doc_page",
        description=(
            "Show one page of a PDF as an image, for tables, figures, formulas and handwriting. "
            "For text use read_doc_pages, which costs less."
        ),
        arguments=PageArguments,
        result=ShownPage,
        function=view,
        find_document=document_finder(repository, lambda _: HEAD_ONLY),
    )
