"""The routes that look after documents, for operators with the right ``documents``."""

import asyncio
import base64
import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fastapi import Response
from starlette.datastructures import Headers

from mcp_tools_proxy.api.document_models import (
    DocumentContent,
    DocumentFacts,
    DocumentQuery,
    DocumentRights,
    DocumentsAnswer,
    DocumentsQuery,
    RightsChange,
    UploadQuery,
)
from mcp_tools_proxy.api.document_upload import FILES, IMPORT_RETRY_S, Uploads, media_type
from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.openapi.examples import RIGHTS_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import CHANGE_HEADERS, PUT_HEADERS, TRACED
from mcp_tools_proxy.api.openapi.responses import Answer, document_responses
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.documents.document_file import InvalidDocument, dump_document, dump_readers
from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    NoSuchDocument,
    ReadOnlyDocuments,
    TenantNeeded,
    VersionConflict,
    WriteFailed,
)
from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.import_process import ImporterBusy, ImportUnavailable
from mcp_tools_proxy.documents.versions import rights_tag, version_of
from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers
from mcp_tools_proxy.domain.errors import (
    DocumentsReadOnly,
    DocumentsUnavailable,
    ImportBusy,
    InvalidRequest,
    NoSuchDocumentHere,
    ProxyError,
    StoreUnavailable,
    VersionMismatch,
    VersionRequired,
)
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.web.envelope import JSON, json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.text import quote

CONTENT_PATH = "/internal/documents/content"
UPLOADS = (("PUT", CONTENT_PATH),)
"""The requests whose bodies are larger than others, and may take longer to arrive."""

PAGE = 100
"""Documents in one answer of the list."""

_STRONG_TAG = re.compile(r'(?:^|,)[ \t]*"([^"]*)"[ \t]*(?=,|$)')
"""An entity tag in a list of them; a weak one (W/"…") never matches (RFC 9110 §13.1.1)."""


class DocumentHandlers:
    """List, read, put and remove documents, and set who may read them; each use is recorded."""

    def __init__(
        self,
        writer: DocumentWriter,
        uploads: Uploads,
        gate: OperatorGate,
        lifecycle: Lifecycle,
        on_put: Callable[[Key], None] = lambda _: None,
    ) -> None:
        """``on_put`` is called with each document that was put."""
        self._writer = writer
        self._uploads = uploads
        self._gate = gate
        self._lifecycle = lifecycle
        self._on_put = on_put

    async def list_documents(self, parsed: ParsedRequest[None]) -> Response:
        """List the documents of a tenant, or of all."""
        query = validate(DocumentsQuery, single_values(parsed.request.query_params))
        after = None if query.cursor is None else _key_of(query.cursor)
        await self._gate.check(parsed, OperatorRight.DOCUMENTS, tenant_id=query.tenant_id)
        if query.tenant_id is not None and query.doc_id is not None:
            return await self._list_one(parsed, (query.tenant_id, query.doc_id))
        try:
            with _as_api_errors():
                heads = await self._writer.list_heads(query.tenant_id, after=after, limit=PAGE + 1)
                problems = await self._writer.problems() if query.tenant_id is None else {}
        except TenantNeeded:
            raise InvalidRequest(
                "tenant_id: is missing; with documents in PostgreSQL name the tenant whose "
                "documents to list",
                details={"field": "tenant_id"},
            ) from None
        listed: dict[str, object] = {"documents": [_facts(head) for head in heads[:PAGE]]}
        if len(heads) > PAGE:
            listed["next_cursor"] = _cursor_of(heads[PAGE - 1])
        if problems and after is None:
            listed["problems"] = [
                {"file": name, "reason": reason} for name, reason in sorted(problems.items())
            ]
        return json_response(listed, headers={TRACE_HEADER: parsed.trace_id})

    async def _list_one(self, parsed: ParsedRequest[None], key: Key) -> Response:
        """List one document with its older versions, which are not looked up for a whole list."""
        add_to_operation(parsed.request.scope, doc_id=key[1])
        with _as_api_errors():
            head = await self._writer.head(key)
            older = [] if head is None else await self._writer.older_versions(key)
        listed = [] if head is None else [{**_facts(head), "older_versions": [*older]}]
        return json_response({"documents": listed}, headers={TRACE_HEADER: parsed.trace_id})

    async def show_content(self, parsed: ParsedRequest[None]) -> Response:
        """Show a whole document in the JSON form."""
        key = await self._checked(parsed)
        with _as_api_errors():
            document = await self._writer.document(key)
        if document is None:
            raise _no_document(key)
        # of what is sent: the version of a second read may be another's, which a PUT would undo
        version = await asyncio.to_thread(version_of, document)
        # without readers: put again later, they would give back a right that was taken away
        shown = dataclasses.replace(document, readers=None)
        content = await asyncio.to_thread(dump_document, shown)
        return Response(content, 200, _headers(parsed, version), JSON)

    async def put_content(self, parsed: ParsedRequest[None]) -> Response:
        """Put a document: a new one, or a new version in place of the one that is named.

        A replica that stops waits for it as for a call.
        """
        self._lifecycle.check_serving()
        return await self._lifecycle.track(self._put_content(parsed))

    async def _put_content(self, parsed: ParsedRequest[None]) -> Response:
        request = parsed.request
        query = validate(
            UploadQuery,
            single_values(request.query_params, several=("tag", "reader_user", "reader_role")),
        )
        kind = media_type(request.headers)
        await self._gate.check(parsed, OperatorRight.DOCUMENTS, tenant_id=query.tenant_id)
        add_to_operation(request.scope, doc_id=query.doc_id)
        key = (query.tenant_id, query.doc_id)
        with _as_api_errors():
            expected = await self._expected(request.headers, key)
            async with self._uploads.document(request, kind, query) as uploaded:
                document = _with_readers(uploaded.document, query.readers())
                head = await self._writer.put(
                    document,
                    expected=expected,
                    keep_readers=document.readers is None,
                    original=uploaded.original,
                )
        self._on_put(key)
        is_new = expected is Expected.NOTHING
        _record_change("document.added" if is_new else "document.replaced", parsed, head)
        headers = _headers(parsed, head.version)
        return json_response(_facts(head), 201 if is_new else 200, headers)

    async def remove_content(self, parsed: ParsedRequest[None]) -> Response:
        """Remove a document."""
        key = await self._checked(parsed)
        with _as_api_errors():
            expected = await self._expected(parsed.request.headers, key)
            head = await self._writer.remove(key, expected=expected)
        if head is None:
            raise _no_document(key)
        _record_change("document.removed", parsed, head)
        return json_response(_facts(head), headers={TRACE_HEADER: parsed.trace_id})

    async def show_rights(self, parsed: ParsedRequest[None]) -> Response:
        """Show who may read a document."""
        key = await self._checked(parsed)
        with _as_api_errors():
            head = await self._writer.head(key)
        if head is None:
            raise _no_document(key)
        return _rights_response(parsed, head)

    async def put_rights(self, parsed: ParsedRequest[RightsChange]) -> Response:
        """Set who may read a document."""
        key = await self._checked(parsed)
        readers = None if parsed.body.readers is None else parsed.body.readers.to_readers()
        with _as_api_errors():
            old = await self._writer.head(key)
            if old is None:
                raise _no_document(key)
            expected = _matching(parsed.request.headers, rights_tag(old.readers))
            head = await self._writer.set_readers(key, readers, expected=expected)
        _record_change("document.rights_changed", parsed, head)
        return _rights_response(parsed, head)

    async def _checked(self, parsed: ParsedRequest[object]) -> Key:
        """Return the document that the query names, for an operator who may look after it."""
        query = validate(DocumentQuery, single_values(parsed.request.query_params))
        await self._gate.check(parsed, OperatorRight.DOCUMENTS, tenant_id=query.tenant_id)
        add_to_operation(parsed.request.scope, doc_id=query.doc_id)
        return query.tenant_id, query.doc_id

    async def _expected(self, headers: Headers, key: Key) -> Expected | str:
        """Return what the request expects to be there. Raises VersionRequired, VersionMismatch."""
        head = await self._writer.head(key)
        if headers.get("if-none-match", "").strip() == "*":
            if head is not None:
                raise VersionConflict(head)
            return Expected.NOTHING
        return _matching(headers, None if head is None else head.version)


@contextmanager
def _as_api_errors() -> Iterator[None]:
    """Convert what a store or an import raises to errors of the API."""
    try:
        yield
    except StoreUnavailable:
        raise
    except (
        VersionConflict,
        NoSuchDocument,
        ReadOnlyDocuments,
        WriteFailed,
        InvalidDocument,
        ImportFailed,
        ImporterBusy,
        ImportUnavailable,
        DocumentsUnavailable,
    ) as error:
        raise _api_error(error) from error


def _api_error(error: Exception) -> ProxyError:
    match error:
        case VersionConflict(head=head):
            return _mismatch(None if head is None else head.version)
        case NoSuchDocument():
            return NoSuchDocumentHere("the document no longer exists")
        case ReadOnlyDocuments(reason=reason):
            return DocumentsReadOnly(
                "the documents cannot be changed here: the folder or the database is read-only",
                reason=reason,
            )
        case WriteFailed(reason=reason) | ImportUnavailable(reason=reason):
            return StoreUnavailable(
                "the document could not be stored, and nothing was changed; try again later, or "
                "tell an operator",
                reason=reason,
            )
        case InvalidDocument(reason=reason) | ImportFailed(reason=reason):
            return InvalidRequest(f"body: {reason}", details={"field": "body"})
        case ImporterBusy(reason=reason):
            return ImportBusy(reason, retry_after_s=IMPORT_RETRY_S)
        case DocumentsUnavailable(message=message, reason=why):
            return StoreUnavailable(message, reason=why)
    raise error


def _with_readers(document: Document, readers: Readers | None) -> Document:
    return document if readers is None else dataclasses.replace(document, readers=readers)


def _matching(headers: Headers, current: str | None) -> str:
    """Return the version that is there, if ``If-Match`` names it.

    Raises VersionRequired, VersionMismatch.
    """
    wanted = headers.get("if-match")
    if wanted is None:
        raise VersionRequired(
            "the request names no version; send If-Match with the ETag of the version that you "
            "read, or If-None-Match: * for a new document"
        )
    if current is not None and (wanted.strip() == "*" or current in _STRONG_TAG.findall(wanted)):
        return current
    raise _mismatch(current)


def _mismatch(current: str | None) -> VersionMismatch:
    return VersionMismatch(
        "the current version does not match If-Match or If-None-Match; read the document again "
        "and repeat the change",
        details=None if current is None else {"version": current},
    )


def _cursor_of(head: DocumentHead) -> str:
    return base64.urlsafe_b64encode(json.dumps([head.tenant_id, head.doc_id]).encode()).decode()


def _key_of(cursor: str) -> Key:
    try:
        tenant_id, doc_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError, RecursionError):  # 3,000 brackets were an internal error
        raise InvalidRequest(
            "cursor: is not valid; leave it out to start over",
            details={"field": "cursor"},
        ) from None
    return str(tenant_id), str(doc_id)


def _facts(head: DocumentHead) -> dict[str, object]:
    facts: dict[str, object] = {
        "tenant_id": head.tenant_id,
        "doc_id": head.doc_id,
        "title": head.title,
        "tags": head.tags,
        "pages": head.page_count,
        "sections": head.section_count,
        "text_chars": head.text_chars,
        "version": head.version,
    }
    if head.language is not None:
        facts["language"] = head.language
    if head.readers is not None:
        facts["readers"] = dump_readers(head.readers)
    return facts


def _rights_response(parsed: ParsedRequest[object], head: DocumentHead) -> Response:
    rights: dict[str, object] = {"tenant_id": head.tenant_id, "doc_id": head.doc_id}
    if head.readers is not None:
        rights["readers"] = dump_readers(head.readers)
    return json_response(rights, headers=_headers(parsed, rights_tag(head.readers)))


def _headers(parsed: ParsedRequest[object], tag: str) -> dict[str, str]:
    return {TRACE_HEADER: parsed.trace_id, "ETag": f'"{tag}"'}


def _no_document(key: Key) -> NoSuchDocumentHere:
    return NoSuchDocumentHere(
        f"tenant {quote(key[0])} has no document {quote(key[1])}; GET /internal/documents lists "
        "its documents"
    )


def _record_change(event: str, parsed: ParsedRequest[object], head: DocumentHead) -> None:
    add_to_operation(parsed.request.scope, event, version=head.version)


RIGHTS_PATH = "/internal/documents/rights"


def document_routes(build: RouteBuilder, documents: DocumentHandlers) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``documents``."""
    return (
        build.get(
            "/internal/documents",
            documents.list_documents,
            operation_id="list_documents",
            tag=Tag.DOCUMENTS,
            summary="List documents",
            description=(
                "Lists the documents of one tenant or of all tenants, in pages of 100. "
                "Requires the operator right `documents`."
            ),
            query=DocumentsQuery,
            responses=document_responses(DocumentsAnswer, "The documents."),
            headers=TRACED,
            needs_token=True,
        ),
        build.get(
            CONTENT_PATH,
            documents.show_content,
            operation_id="get_document",
            tag=Tag.DOCUMENTS,
            summary="Read a whole document",
            query=DocumentQuery,
            responses=document_responses(DocumentContent, "The document.", 404),
            headers=TRACED,
            needs_token=True,
        ),
        build.change(
            "PUT",
            CONTENT_PATH,
            documents.put_content,
            operation_id="put_document",
            tag=Tag.DOCUMENTS,
            summary="Create or replace a document",
            description=(
                "`If-None-Match: *` creates a document; `If-Match` replaces the version it "
                "names. A file that is not JSON is imported in a separate process, with OCR for "
                "scans if it is configured. A replaced document keeps its readers, unless the "
                "query or the JSON document names readers."
            ),
            query=UploadQuery,
            responses={
                **document_responses(
                    DocumentFacts, "The document was replaced.", 409, 412, 413, 415, 428
                ),
                201: Answer("The document was created.", DocumentFacts, ("X-Trace-Id", "ETag")),
            },
            headers=PUT_HEADERS,
            files=FILES,
        ),
        build.change(
            "DELETE",
            CONTENT_PATH,
            documents.remove_content,
            operation_id="remove_document",
            tag=Tag.DOCUMENTS,
            summary="Delete a document",
            description="Deletes the version named in `If-Match`; `*` matches any version.",
            query=DocumentQuery,
            responses=document_responses(
                DocumentFacts, ("The deleted document."), 404, 409, 412, 428
            ),
            headers=CHANGE_HEADERS,
        ),
        build.get(
            RIGHTS_PATH,
            documents.show_rights,
            operation_id="get_document_rights",
            tag=Tag.DOCUMENTS,
            summary="Show who may read a document",
            query=DocumentQuery,
            responses=document_responses(DocumentRights, "The document's access rights.", 404),
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "PUT",
            RIGHTS_PATH,
            documents.put_rights,
            RightsChange,
            operation_id="put_document_rights",
            tag=Tag.DOCUMENTS,
            examples=RIGHTS_EXAMPLES,
            summary="Set who may read a document",
            description=(
                "Replaces the access rights: only the named users and roles can read the "
                "document, on all replicas within a second. `If-Match` takes the `ETag` of the "
                "access rights, not that of the document."
            ),
            query=DocumentQuery,
            responses=document_responses(
                DocumentRights, "The new access rights.", 404, 409, 412, 413, 428
            ),
            headers=CHANGE_HEADERS,
            needs_token=True,
            right=OperatorRight.DOCUMENTS,
        ),
    )
