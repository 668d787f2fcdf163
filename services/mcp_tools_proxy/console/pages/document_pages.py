"""Pages of documents: list, details and readers, removal, and upload."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath

from pydantic_core import to_json

from mcp_tools_proxy.console.api_client import (
    DOCUMENT,
    DOCUMENTS,
    FACTS,
    READERS,
    ApiAnswer,
    ApiRefused,
)
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.page_request import (
    Done,
    ListPage,
    PageHandler,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.documents.document_facts import parse_expiry, parse_metadata
from mcp_tools_proxy.documents.document_file import dump_metadata
from mcp_tools_proxy.documents.importers.file_kind import KINDS
from mcp_tools_proxy.documents.importers.warning_advice import ImportEntry, advice_on
from mcp_tools_proxy.domain.document import ImportWarning
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.http.api.document_models import ChangedFacts, DocumentContent, DocumentsAnswer
from mcp_tools_proxy.http.api.document_upload import SUFFIXES
from mcp_tools_proxy.wire.strict_json import BODY
from mcp_tools_proxy.wire.text import quote

ROWS = 50
"""Documents per page; an API response has twice as many."""

CHANGED = (
    "Nothing was changed: the document has changed since you opened it. Review its current details "
    "below, then try again."
)

TYPES: Mapping[str, str] = {
    **dict.fromkeys(KINDS, "application/octet-stream"),
    **{suffix: kind for kind, suffix in SUFFIXES.items()},
    ".markdown": "text/markdown",
    ".text": "text/plain",
    ".htm": "text/html",
    ".json": "application/json",
}
"""Media types by file suffix; those sent by browsers differ or are missing."""

FIELDS = (
    "tenant_id",
    "doc_id",
    "version",
    "title",
    "tags",
    "language",
    "readers",
    "users",
    "roles",
    "untrusted",
)

_FIELD_OF: Mapping[str, str] = {"tag": "tags", "reader_user": "users", "reader_role": "roles"}
"""Form fields by the API parameter that they set."""

DOCUMENTS_PATH = "/console/documents"


def address(page_name: str, **query: object) -> str:
    """Return the address of a documents page; empty parameters are omitted."""
    return page_address(f"{DOCUMENTS_PATH}/{page_name}".rstrip("/"), query)


class ShownDocument(DocumentContent):
    """A document with its whole text and its readers.

    ``rights_tag`` is the ETag required to change the readers. ``agent`` is used to run tools on the
    document's pages.
    """

    version: str
    rights_tag: str
    agent: str

    @property
    def text_chars(self) -> int:
        """Total characters of all pages."""
        return sum(map(len, self.pages))

    @property
    def key(self) -> Mapping[str, str]:
        """The query parameters that identify the document."""
        return {"tenant_id": self.tenant_id, "doc_id": self.doc_id}

    def address(self, page_name: str, **query: object) -> str:
        """Return the address of a page about this document."""
        return address(page_name, **self.key, agent=self.agent, **query)

    def ocr_of(self, page: int) -> int | None:
        """Return the OCR confidence of a page, counted from 1; None for text of the file."""
        return self.ocr[page - 1] if self.ocr else None

    def citation(self, page: int, start_char: int, end_char: int) -> Mapping[str, object]:
        """Return a citable source in the format of the tools."""
        source: dict[str, object] = {
            "doc_id": self.doc_id,
            "version": self.version,
            "page": page,
            "start_char": start_char,
            "end_char": end_char,
        }
        ocr = self.ocr_of(page)
        return source if ocr is None else {**source, "ocr": ocr}


def named_document(page: PageRequest) -> Mapping[str, str]:
    """Return the tenant and document id in the query or form. Raises InvalidRequest."""
    tenant_id = page.tenant_id or page.query("tenant_id") or page.form.text("tenant_id")
    doc_id = page.query("doc_id") or page.form.text("doc_id")
    if not (tenant_id and doc_id):
        raise InvalidRequest("no document was specified; choose one from the list of documents")
    return {"tenant_id": tenant_id, "doc_id": doc_id}


async def load_document(page: PageRequest) -> ShownDocument:
    """Return the requested document. Raises ApiRefused, InvalidRequest.

    Concurrency is limited, because the API returns whole documents and parsing them is slow.
    """
    key = named_document(page)
    async with page.site.large_reads:
        rights = await page.api.send("GET", READERS.path, key)
        answer = await page.api.send("GET", DOCUMENT.path, key)
        more = {
            "version": answer.headers["etag"].strip('"'),
            "readers": rights.json.get("readers"),
            "rights_tag": rights.headers["etag"],
            "agent": page.agent(),
        }
        return await asyncio.to_thread(
            lambda: ShownDocument.model_validate({**answer.json, **more})
        )


def or_list(show: PageHandler, *, needs_document: bool = True) -> PageHandler:
    """Return a handler that shows the list with an error if the document does not exist."""

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
    """List documents. Operators of all tenants may have to choose a tenant first.

    ``problem`` is the reason why the requested document cannot be shown.
    """
    tenant_id = page.tenant()
    cursor, is_second_half = page.query("cursor"), page.query("half") == "2"
    answer = DocumentsAnswer(documents=[])
    refusal, needs_tenant = None, False
    try:
        answer = await page.api.read(DOCUMENTS, {"tenant_id": tenant_id, "cursor": cursor})
    except ApiRefused as error:
        if error.status == 403:
            raise
        needs_tenant = error.details.get("field") == "tenant_id" and not tenant_id
        refusal = None if needs_tenant else without_frames(error)
    tenants = (
        (await page.names.suggested(page.operator, page.agents)).tenants if needs_tenant else ()
    )
    documents = answer.documents
    pages = partial(address, "", tenant_id=tenant_id)
    after = None
    if not is_second_half and len(documents) > ROWS:
        after = pages(cursor=cursor, half="2")
    elif answer.next_cursor is not None:
        after = pages(cursor=answer.next_cursor)
    return PageView(
        template="documents.html",
        suggests=True,
        context={
            "tenant_id": tenant_id,
            "documents": ListPage(
                rows=documents[ROWS:] if is_second_half else documents[:ROWS],
                start=pages() if cursor or is_second_half else None,
                after=after,
            ),
            "problem": problem,
            "doc_id": page.query("doc_id"),
            "problems": answer.problems or (),
            "refusal": refusal,
            "needs_tenant": needs_tenant,
            "tenants": tenants,
            "link": address,
        },
        status=status if refusal is None else refusal.status,
    )


async def show_document(page: PageRequest) -> PageResult:
    """Show a document's details, readers and actions."""
    return await _document_view(page)


async def change_document(page: PageRequest) -> PageResult:
    """Set the readers, or remove the document."""
    actions = {"remove": _remove, "facts": _set_facts}
    try:
        return await actions.get(page.form.text("do"), _set_readers)(page)
    except ApiRefused as error:
        if error.status == 404:
            raise
        problem = CHANGED if error.code == "VERSION_MISMATCH" else sentence(error.message)
        return await _document_view(page, problem=problem, status=error.status)


async def _set_readers(page: PageRequest) -> PageResult:
    key, form = named_document(page), page.form
    users, roles = form.lines("users"), form.lines("roles")
    readers: Mapping[str, object] = {"all_users": True}
    match form.text("readers"):
        case "some" if not (users or roles):
            problem = "Enter users or roles. To deny access to everyone, choose “No users”."
            return await _document_view(page, readers_problem=problem, status=422)
        case "some":
            readers = {"readers": {"users": users, "roles": roles}}
        case "nobody":
            readers = {"readers": {}}
    headers = {"if-match": form.text("rights_tag")}
    await page.api.send("PUT", READERS.path, key, body=readers, headers=headers)
    return Done(
        path=address("manage", **key),
        message="Readers saved. All replicas apply them within a second.",
    )


async def _set_facts(page: PageRequest) -> PageResult:
    key, form = named_document(page), page.form
    expires = form.text("expires")
    field = "Own fields"
    try:
        metadata = parse_metadata(_lines(form, "metadata"))
        field = "Expires"
        expires_at = parse_expiry(expires, datetime.now(UTC)).isoformat() if expires else None
    except ValueError as error:
        return await _document_view(page, facts_problem=sentence(f"{field}: {error}"), status=422)
    facts = {
        "tags": _lines(form, "tags"),
        "date": form.text("date") or None,
        "metadata": dump_metadata(metadata),
        "expires_at": expires_at,
        "untrusted": bool(form.text("untrusted")),
    }
    headers = {"if-match": form.text("facts_tag")}
    await page.api.send("PUT", FACTS.path, key, body=facts, headers=headers)
    return Done(path=address("manage", **key), message="Facts saved.")


def _lines(form: Form, name: str) -> list[str]:
    """Return the non-blank lines of a field; commas belong to them, unlike in lists of names."""
    return [line for line in map(str.strip, form.raw(name).splitlines()) if line]


def _shown_facts(answer: ApiAnswer) -> Mapping[str, str]:
    """Return the fields of the form for the facts in an answer."""
    facts = ChangedFacts.model_validate(answer.json)
    pairs = [
        (name, it if isinstance(it, str) else to_json(it).decode())
        for name, value in (facts.metadata or {}).items()
        for it in (value if isinstance(value, list) else [value])
    ]
    return {
        "tags": "\n".join(facts.tags),
        "date": facts.date or "",
        "metadata": "\n".join(f"{name}={it}" for name, it in pairs),
        "expires": "" if facts.expires_at is None else f"{facts.expires_at:%Y-%m-%dT%H:%M:%SZ}",
        "untrusted": "1" if facts.untrusted else "",
        "facts_tag": answer.headers["etag"],
    }


async def _remove(page: PageRequest) -> PageResult:
    key = named_document(page)
    headers = {"if-match": f'"{page.form.text("version")}"'}
    await page.api.send("DELETE", DOCUMENT.path, key, headers=headers)
    return Done(
        path=address("", tenant_id=key["tenant_id"]),
        message=f"Document {key['doc_id']} removed.",
    )


async def _document_view(page: PageRequest, *, status: int = 200, **more: str) -> PageView:
    document = await load_document(page)
    listed = await page.api.read(DOCUMENTS, document.key)
    facts = _shown_facts(await page.api.send("GET", FACTS.path, document.key))
    if page.form.text("do") == "facts":
        facts = {name: page.form.raw(name) for name in facts}
    warnings = [ImportWarning(it.code, it.message) for it in document.warnings or ()]
    path = None if document.source is None else document.source.path
    readers = document.readers
    users, roles = ([], []) if readers is None else (readers.users, readers.roles)
    chosen = "all" if readers is None else "some" if users or roles else "nobody"
    context: dict[str, object] = {
        "document": document,
        "older": [it for facts in listed.documents for it in facts.older_versions or ()],
        "warnings": [(it.message, advice_on(it, ImportEntry.CONSOLE, path)) for it in warnings],
        "chosen": page.form.text("readers") or chosen,
        "users": page.form.text("users") or "\n".join(users),
        "roles": page.form.text("roles") or "\n".join(roles),
        "problem": "",
        "readers_problem": "",
        "facts": facts,
        "facts_problem": "",
    }
    return PageView(template="document_manage.html", context={**context, **more}, status=status)


async def show_upload(page: PageRequest) -> PageResult:
    """Show the upload form for a new document or a new version."""
    return _view(page, {name: page.query(name) for name in FIELDS})


async def upload(page: PageRequest) -> PageResult:
    """Upload a file; if it is refused, show the form again with the error."""
    form = page.form
    tenant_id = page.tenant_id or form.text("tenant_id")
    name = "" if form.file is None else plain_name(form.file.name)
    suffix = PurePosixPath(name).suffix.lower()
    doc_id = form.text("doc_id") or PurePosixPath(name).stem
    problems = _problems(form, tenant_id, suffix)
    if problems or form.file is None:
        return _again(page, problems)
    version = form.text("version")
    try:
        answer = await page.api.send(
            "PUT",
            DOCUMENT.path,
            {"tenant_id": tenant_id, "doc_id": doc_id, **facts_of(form)},
            headers={
                "content-type": TYPES[suffix],
                **({"if-match": f'"{version}"'} if version else {"if-none-match": "*"}),
            },
            receive=form.file.receive,
        )
    except ApiRefused as error:
        return _again(page, {_place_of(error): problem_of(error)}, error, doc_id)
    done = "New version added" if version else "Document added"
    return Done(
        path=address(
            "manage" if answer.json.get("warnings") else "read",
            tenant_id=tenant_id,
            doc_id=doc_id,
        ),
        message=f"{done}. Models can read it now.",
    )


def _problems(form: Form, tenant_id: str, suffix: str) -> dict[str, str]:
    problems: dict[str, str] = {}
    if not tenant_id:
        problems["tenant_id"] = "Enter a tenant."
    if form.file is None or not form.file.name:
        problems["file"] = "Choose a file."
    elif suffix not in TYPES:
        problems["file"] = f"Unsupported file type. Use one of: {', '.join(TYPES)}."
    if form.text("readers") == "some" and not (form.lines("users") or form.lines("roles")):
        problems["users"] = "Enter users or roles, or choose “All users of the tenant”."
    return problems


def facts_of(form: Form) -> Mapping[str, object]:
    """Return the optional document properties of the form."""
    chosen = form.text("readers") == "some"
    return {
        "title": form.text("title"),
        "tag": tuple(form.lines("tags")),
        "language": form.text("language"),
        "reader_user": tuple(form.lines("users")) if chosen else (),
        "reader_role": tuple(form.lines("roles")) if chosen else (),
        "untrusted": "true" if form.text("untrusted") else "",
    }


def _place_of(error: ApiRefused) -> str:
    """Return the field that shows a refusal."""
    if error.code == "VERSION_MISMATCH":
        return "doc_id"
    field = _FIELD_OF.get(error.field, error.field)
    return field if field in FIELDS else "file"


def problem_of(error: ApiRefused) -> str:
    """Return the error text of that field."""
    if error.code == "VERSION_MISMATCH":
        return "A document with this ID already exists."
    return sentence(error.message.removeprefix(f"{BODY}: "))


def _again(
    page: PageRequest,
    problems: Mapping[str, str],
    refusal: ApiRefused | None = None,
    doc_id: str = "",
) -> PageView:
    given = {name: page.form.text(name) for name in FIELDS}
    given["doc_id"] = given["doc_id"] or doc_id
    return _view(page, given, problems, refusal)


def _view(
    page: PageRequest,
    given: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    refusal: ApiRefused | None = None,
) -> PageView:
    tenant_id = page.tenant_id or given["tenant_id"]
    existing = None
    if refusal is not None and refusal.code == "VERSION_MISMATCH":
        existing = address("manage", tenant_id=tenant_id, doc_id=given["doc_id"])
    return PageView(
        template="document_upload.html",
        suggests=True,
        context={
            "tenant_id": tenant_id,
            "given": given,
            "problems": problems or {},
            "refusal": refusal,
            "existing": existing,
            "accepted": ",".join(TYPES),
            "several": address("uploads", tenant_id=tenant_id),
        },
        status=200 if not problems else 422 if refusal is None else refusal.status,
    )


def plain_name(name: str) -> str:
    """Return a file's name without the folders that some browsers send."""
    return PureWindowsPath(name).name


ROUTES: Routes = {
    DOCUMENTS_PATH: {"GET": show_list},
    f"{DOCUMENTS_PATH}/manage": {"GET": or_list(show_document), "POST": change_document},
}
