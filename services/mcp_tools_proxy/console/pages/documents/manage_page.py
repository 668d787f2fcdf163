"""The list of documents, and the page that changes one: its readers, its removal."""

from collections.abc import Mapping
from typing import Any

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.page_request import (
    Done,
    PageHandler,
    PageRequest,
    PageResult,
    PageView,
)
from mcp_tools_proxy.console.pages.documents.one_document import (
    CONTENT_REQUEST,
    DOCUMENTS_REQUEST,
    RIGHTS_REQUEST,
    DocumentLoader,
    address,
    named_document,
)
from mcp_tools_proxy.console.sentences import sentence
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


CHANGED = (
    "Nothing was changed: the document has changed since you opened it. Review its current details "
    "below, then try again."
)


class ManagePage:
    """Shows the facts of a document, and changes its readers or removes it."""

    def __init__(self, loader: DocumentLoader) -> None:
        self._loader = loader

    async def show(self, page: PageRequest) -> PageResult:
        """Show facts, readers, and what can be done."""
        return await self._view(page)

    async def change(self, page: PageRequest) -> PageResult:
        """Set the readers, or remove the document."""
        action = self._remove if page.form.text("do") == "remove" else self._set_readers
        try:
            return await action(page)
        except ApiRefused as error:
            if error.status == 404:
                raise
            problem = CHANGED if error.code == "VERSION_MISMATCH" else sentence(error.message)
            return await self._view(page, problem=problem, status=error.status)

    async def _set_readers(self, page: PageRequest) -> PageResult:
        key, form = named_document(page), page.form
        users, roles = form.lines("users"), form.lines("roles")
        readers: Mapping[str, object] = {"all_users": True}
        match form.text("readers"):
            case "some" if not (users or roles):
                problem = "Enter users or roles. To deny access to everyone, choose “No users”."
                return await self._view(page, readers_problem=problem, status=422)
            case "some":
                readers = {"readers": {"users": users, "roles": roles}}
            case "nobody":
                readers = {"readers": {}}
        headers = {"if-match": form.text("rights_tag")}
        await page.api.send("PUT", RIGHTS_REQUEST, key, body=readers, headers=headers)
        return Done(
            path=address("manage", **key),
            message="Readers saved. All replicas apply them within a second.",
        )

    async def _remove(self, page: PageRequest) -> PageResult:
        key = named_document(page)
        headers = {"if-match": f'"{page.form.text("version")}"'}
        await page.api.send("DELETE", CONTENT_REQUEST, key, headers=headers)
        return Done(
            path=address("", tenant_id=key["tenant_id"]),
            message=f"Document {key['doc_id']} removed.",
        )

    async def _view(self, page: PageRequest, *, status: int = 200, **more: str) -> PageView:
        document = await self._loader.load(page)
        listed = await page.api.get(DOCUMENTS_REQUEST, document.key)
        readers = document.readers
        chosen = "all" if readers is None else "some" if any(readers.values()) else "nobody"
        context: dict[str, object] = {
            "document": document,
            "older": [it for facts in listed["documents"] for it in facts["older_versions"]],
            "chosen": page.form.text("readers") or chosen,
            "users": page.form.text("users") or "\n".join((readers or {}).get("users", ())),
            "roles": page.form.text("roles") or "\n".join((readers or {}).get("roles", ())),
            "problem": "",
            "readers_problem": "",
        }
        return PageView(template="document_manage.html", context={**context, **more}, status=status)
