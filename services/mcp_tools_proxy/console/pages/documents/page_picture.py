"""The picture of a page, as the tool view_doc_page draws it for models."""

from base64 import b64decode

from starlette.responses import Response

from mcp_tools_proxy.console.page_endpoint import refusal_view
from mcp_tools_proxy.console.page_headers import PAGE_HEADERS
from mcp_tools_proxy.console.page_request import PageRequest, PageResult
from mcp_tools_proxy.console.pages.documents.one_document import (
    RIGHTS_REQUEST,
    named_document,
)
from mcp_tools_proxy.console.pages.documents.tool_runs import reader_of, run_tool
from mcp_tools_proxy.domain.errors import Forbidden

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
"""What a page may be sent as: never HTML or SVG, which could hold a script."""


async def show_picture(page: PageRequest) -> PageResult:
    """Send the picture of a page. Raises ApiRefused, whose page says why there is none."""
    if page.is_from_elsewhere:
        raise Forbidden("this image was requested from another site; open it in the console")
    key = named_document(page)
    readers = (await page.api.get(RIGHTS_REQUEST, key)).get("readers")
    number = page.query("page")
    arguments = {"doc_id": key["doc_id"], "page": int(number[:9]) if number.isdecimal() else 1}
    run = await run_tool(
        page, "view_doc_page", arguments, reader_of(page, key["tenant_id"], readers)
    )
    (image,) = run.result["content"]
    if image["mimeType"] not in IMAGE_TYPES:
        return refusal_view(
            404, "PAGE_IMAGE_UNAVAILABLE", "the tool did not return an image of the page", {}
        )
    return Response(b64decode(image["data"]), 200, PAGE_HEADERS, image["mimeType"])
