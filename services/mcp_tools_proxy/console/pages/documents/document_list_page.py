"""The list of documents, of one tenant or of all."""

from collections.abc import Mapping
from typing import Any

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.page_request import PageHandler, PageRequest, PageResult, PageView
from mcp_tools_proxy.console.pages.documents.one_document import DOCUMENTS_REQUEST, address
from mcp_tools_proxy.domain.kept_errors import without_frames
from mcp_tools_proxy.wire.text import quote

ROWS = 50
"""Documents of one page; an answer of the API has twice as many."""


def or_list(show: PageHandler, *, needs_document: bool = True) -> PageHandler:
    """Return a handler that shows the list, with its form, where the named document is missing."""

    async def shown(page: PageRequest) -> PageResult:
        doc_id = page.query("doc_id")
        if needs_document and not doc_id:
            return await show_list(
                page, "Enter a document ID, or choose a document from the list.", 422
            )
        try:
            return await show(page)
        except ApiRefused as error:
            if error.status != 404:
                raise
        problem = f"This tenant has no document {quote(doc_id)}. Choose one from the list."
        return await show_list(page, problem, 404)

    return shown


async def show_list(page: PageRequest, problem: str = "", status: int = 200) -> PageResult:
    """List documents; who may see those of all tenants is asked for one where that is needed.

    ``problem`` says why the document that was named cannot be shown.
    """
    tenant_id = page.tenant()
    cursor, is_second_half = page.query("cursor"), page.query("half") == "2"
    answer: Mapping[str, Any] = {"documents": []}
    refusal, needs_tenant = None, False
    try:
        answer = await page.api.get(DOCUMENTS_REQUEST, {"tenant_id": tenant_id, "cursor": cursor})
    except ApiRefused as error:
        if error.status == 403:
            raise
        needs_tenant = error.details.get("field") == "tenant_id" and not tenant_id
        refusal = None if needs_tenant else without_frames(error)
    tenants = (
        (await page.names.suggested(page.operator, page.agents)).tenants if needs_tenant else ()
    )
    documents = answer["documents"]
    next_page = None
    if not is_second_half and len(documents) > ROWS:
        next_page = address("", tenant_id=tenant_id, cursor=cursor, half="2")
    elif "next_cursor" in answer:
        next_page = address("", tenant_id=tenant_id, cursor=answer["next_cursor"])
    return PageView(
        template="documents.html",
        suggests=True,
        context={
            "tenant_id": tenant_id,
            "own_tenant": page.tenant_id,
            "documents": documents[ROWS:] if is_second_half else documents[:ROWS],
            "problem": problem,
            "doc_id": page.query("doc_id"),
            "problems": answer.get("problems", ()),
            "is_first_page": not (cursor or is_second_half),
            "next_page": next_page,
            "refusal": refusal,
            "needs_tenant": needs_tenant,
            "tenants": tenants,
            "link": address,
        },
        status=status if refusal is None else refusal.status,
    )
