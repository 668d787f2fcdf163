"""Routes that manage documents, for operators with the right ``documents``."""

import asyncio
import base64
import dataclasses
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import Response
from starlette.datastructures import Headers

from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import dump_document
from mcp_tools_proxy.documents.document_store import Key, filter_of_tag
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    TenantNeeded,
    VersionConflict,
)
from mcp_tools_proxy.documents.versions import rights_tag, version_of
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import (
    InvalidRequest,
    NoSuchDocumentHere,
    VersionRequired,
)
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.http.api.document_errors import as_api_errors, document_responses, mismatch
from mcp_tools_proxy.http.api.document_models import (
    ChangedFacts,
    DocumentContent,
    DocumentFacts,
    DocumentProblem,
    DocumentQuery,
    DocumentReaders,
    DocumentRights,
    DocumentsAnswer,
    DocumentsQuery,
    FactsChange,
    RemovalQuery,
    RemovedDocuments,
    RightsChange,
    UploadQuery,
)
from mcp_tools_proxy.http.api.document_upload import (
    FILES,
    SentType,
    Uploaded,
    Uploads,
    media_type,
)
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import (
    CHANGE_HEADERS,
    PUT_HEADERS,
    Answer,
    Examples,
    Tag,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation, response_of
from mcp_tools_proxy.http.api.upload_queue import RunningUpload, UploadQueue
from mcp_tools_proxy.http.api.upload_routes import (
    ACCEPTED,
    APPLIED,
    RESPOND_ASYNC,
    prefers_async,
    status_address,
)
from mcp_tools_proxy.http.request_headers import TRACE_HEADER
from mcp_tools_proxy.http.request_refusals import add_to_operation
from mcp_tools_proxy.http.responses import JSON
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote

CONTENT_PATH = "/internal/documents/content"
RIGHTS_PATH = "/internal/documents/rights"
FACTS_PATH = "/internal/documents/facts"
UPLOADS = (("PUT", CONTENT_PATH),)
"""Requests with larger bodies than others, which can take longer to arrive."""

PAGE = 100
"""Number of documents on a page."""

REMOVED_AT_ONCE = 500
"""Number of documents that one request removes."""

_STRONG_TAG = re.compile(r'(?:^|,)[ \t]*"([^"]*)"[ \t]*(?=,|$)')
"""A strong entity tag in a list; a weak one (W/"…") never matches (RFC 9110 §13.1.1)."""


_RIGHTS_EXAMPLES: Examples = {
    "one user and a role": {"readers": {"users": ["ann"], "roles": ["audit"]}},
    "nobody": {"readers": {}},
    "all of the tenant": {"all_users": True},
}


_FACTS_EXAMPLES: Examples = {
    "own fields and an expiry": {
        "tags": ["minutes"],
        "date": "2027-01-31",
        "metadata": {"department": "hr", "year": 2027},
        "expires_at": "2028-01-31T00:00:00Z",
    },
    "none": {},
}


_Store = Callable[[ParsedRequest[None], Uploaded], Awaitable[Response]]


class DocumentRoutes(Feature):
    """List, read, put and delete documents; set readers and facts; each use is recorded."""

    tag = Tag.DOCUMENTS

    def __init__(
        self,
        writer: DocumentWriter,
        uploads: Uploads,
        queue: UploadQueue,
        gate: OperatorGate,
        lifecycle: Lifecycle,
        on_change: Callable[[Key], Awaitable[None]],
        on_put: Callable[[Key], None],
    ) -> None:
        """Create the routes; the functions get each document that changed, or that was put."""
        self._writer = writer
        self._uploads = uploads
        self._queue = queue
        self._gate = gate
        self._lifecycle = lifecycle
        self._on_change = on_change
        self._on_put = on_put

    @operation(
        "GET",
        "/internal/documents",
        responses=document_responses(DocumentsAnswer, "The documents."),
        right=OperatorRight.DOCUMENTS,
    )
    async def list_documents(
        self, parsed: ParsedRequest[None], query: DocumentsQuery
    ) -> DocumentsAnswer:
        """List documents.

        Lists the documents of one tenant or of all tenants, in pages of 100. With documents in
        PostgreSQL `tenant_id` is required. Requires the operator right `documents`.
        """
        after = None if query.cursor is None else _key_of(query.cursor)
        if query.tenant_id is not None and query.doc_id is not None:
            return await self._list_one(parsed, (query.tenant_id, query.doc_id))
        try:
            with as_api_errors():
                heads = await self._writer.list_heads(
                    query.tenant_id, after=after, limit=PAGE + 1, filter=query.filter
                )
                problems = await self._writer.problems() if query.tenant_id is None else {}
        except TenantNeeded:
            raise InvalidRequest(
                "tenant_id: is missing; with documents in PostgreSQL name the tenant whose "
                "documents to list",
                details={"field": "tenant_id"},
            ) from None
        shown = problems if after is None else {}
        return DocumentsAnswer(
            documents=[DocumentFacts.of(head) for head in heads[:PAGE]],
            next_cursor=_cursor_of(heads[PAGE - 1]) if len(heads) > PAGE else None,
            problems=[DocumentProblem(file=it, reason=shown[it]) for it in sorted(shown)] or None,
        )

    async def _list_one(self, parsed: ParsedRequest[None], key: Key) -> DocumentsAnswer:
        """List one document with its older versions, which lists of several documents omit."""
        add_to_operation(parsed.request.scope, doc_id=key[1])
        with as_api_errors():
            head = await self._writer.head(key)
            if head is None:
                return DocumentsAnswer(documents=[])
            shown = DocumentFacts.of(head, await self._writer.warnings(key))
            shown.older_versions = [*await self._writer.older_versions(key)]
        return DocumentsAnswer(documents=[shown])

    @operation(
        "DELETE",
        "/internal/documents",
        responses=document_responses(RemovedDocuments, "The documents.", 409),
        right=OperatorRight.DOCUMENTS,
    )
    async def remove_documents(
        self, parsed: ParsedRequest[None], query: RemovalQuery
    ) -> RemovedDocuments:
        """Delete documents of a tenant.

        Deletes up to 500 documents of a tenant, or those with a tag, with their older versions. By
        default, `dry_run` only names them. Requires the operator right `documents`.
        """
        wanted = None if query.tag is None else filter_of_tag(query.tag)
        removed = []
        with as_api_errors():
            heads = await self._writer.list_heads(
                query.tenant_id, limit=REMOVED_AT_ONCE + 1, filter=wanted
            )
            for head in heads[:REMOVED_AT_ONCE]:
                if query.dry_run or await self._writer.remove_unchanged(head):
                    removed.append(head.doc_id)
                if not query.dry_run:
                    await self._on_change((head.tenant_id, head.doc_id))
        if not query.dry_run:
            add_to_operation(
                parsed.request.scope,
                "documents.removed",
                count=len(removed),
                **({} if query.tag is None else {"tag": query.tag[:QUOTE_CHARS]}),
                documents=[{"tenant_id": query.tenant_id, "doc_id": it} for it in removed],
            )
        return RemovedDocuments(
            dry_run=query.dry_run, doc_ids=removed, has_more=len(heads) > REMOVED_AT_ONCE
        )

    @operation(
        "GET",
        CONTENT_PATH,
        responses=document_responses(DocumentContent, "The document.", 404),
        right=OperatorRight.DOCUMENTS,
    )
    async def get_document(self, parsed: ParsedRequest[None], query: DocumentQuery) -> Response:
        """Read a whole document.

        Returns the JSON form without `readers`, with the version as `ETag`. Requires the operator
        right `documents`.
        """
        key = _key_named(parsed, query)
        with as_api_errors():
            document = await self._writer.document(key)
        if document is None:
            raise _no_document(key)
        # the version of this content; a second read could see a newer one
        version = await asyncio.to_thread(version_of, document)
        # without readers, as a later PUT of this content would restore revoked rights
        shown = dataclasses.replace(document, readers=None)
        content = await asyncio.to_thread(dump_document, shown)
        return Response(content, 200, {TRACE_HEADER: parsed.trace_id, **_etag(version)}, JSON)

    @operation(
        "PUT",
        CONTENT_PATH,
        responses={
            **document_responses(
                DocumentFacts, "The document was replaced.", 409, 412, 413, 415, 428
            ),
            201: Answer("The document was created.", DocumentFacts, (TRACE_HEADER, "ETag")),
            202: ACCEPTED,
        },
        headers=PUT_HEADERS,
        files=FILES,
        token_for=OperatorRight.DOCUMENTS,
    )
    async def put_document(self, parsed: ParsedRequest[None], query: UploadQuery) -> Response:
        """Create or replace a document.

        `If-None-Match: *` creates a document; `If-Match` replaces the version it names. A file that
        is not JSON is imported in a separate process, with OCR for scans if it is configured. A
        replaced document keeps its readers, unless the query or the JSON document names readers.
        The body has at most `MCP_PROXY_MAX_DOCUMENT_BYTES`, and 120 s to arrive. If the client
        disconnects, the import is cancelled and nothing is stored. With `Prefer: respond-async`
        (RFC 7240) the answer is sent before the import; its `Location` has the status. Requires the
        operator right `documents`.
        """
        # a stopping replica waits for it as for a call
        self._lifecycle.check_serving()
        return await self._lifecycle.track(self._put(parsed, query))

    async def _put(self, parsed: ParsedRequest[None], query: UploadQuery) -> Response:
        request = parsed.request
        sent_type = media_type(request.headers)
        await self._gate.check(parsed, OperatorRight.DOCUMENTS, tenant_id=query.tenant_id)
        add_to_operation(request.scope, doc_id=query.doc_id)
        key = (query.tenant_id, query.doc_id)
        with as_api_errors():
            expected = await self._expected(request.headers, key)
        store = partial(self._store, query=query, expected=expected)
        if prefers_async(request.headers):
            return await self._put_later(parsed, sent_type, query, store)
        with as_api_errors():
            async with self._uploads.document(request, sent_type, query) as uploaded:
                return await store(parsed, uploaded)

    async def _put_later(
        self, parsed: ParsedRequest[None], sent_type: SentType, query: UploadQuery, store: _Store
    ) -> Response:
        """Receive the body and answer; the queue imports and stores the document."""

        async def work(upload: RunningUpload) -> Response:
            with as_api_errors():
                reading = self._uploads.read_later(upload.file, sent_type, query, upload.show_pages)
                async with reading as uploaded:
                    upload.is_being_stored = True
                    return await store(upload.parsed, uploaded)

        self._queue.check_room(query.tenant_id)
        file = await self._uploads.receive(parsed.request, query.tenant_id)
        try:
            status = await self._queue.add(parsed, query.tenant_id, query.doc_id, file, work)
        except BaseException:
            file.close()
            raise
        headers = {"Location": status_address(status), APPLIED: RESPOND_ASYNC}
        return response_of(status, parsed, 202, headers)

    async def _store(
        self,
        parsed: ParsedRequest[None],
        uploaded: Uploaded,
        *,
        query: UploadQuery,
        expected: Expected | str,
    ) -> Response:
        document = query.apply_to(uploaded.document)
        head = await self._writer.put(
            document,
            expected=expected,
            keep_readers=document.readers is None,
            original=uploaded.original,
        )
        key = (head.tenant_id, head.doc_id)
        self._on_put(key)
        await self._on_change(key)
        is_new = expected is Expected.NOTHING
        _record_change("document.added" if is_new else "document.replaced", parsed, head)
        return response_of(
            DocumentFacts.of(head, document.warnings),
            parsed,
            201 if is_new else 200,
            _etag(head.version),
        )

    @operation(
        "DELETE",
        CONTENT_PATH,
        responses=document_responses(DocumentFacts, "The deleted document.", 404, 409, 412, 428),
        headers=CHANGE_HEADERS,
        right=OperatorRight.DOCUMENTS,
    )
    async def remove_document(
        self, parsed: ParsedRequest[None], query: DocumentQuery
    ) -> DocumentFacts:
        """Delete a document.

        Deletes the version named in `If-Match`; `*` matches any version. Requires the operator
        right `documents`.
        """
        key = _key_named(parsed, query)
        with as_api_errors():
            expected = await self._expected(parsed.request.headers, key)
            head = await self._writer.remove(key, expected=expected)
        await self._on_change(key)
        if head is None:
            raise _no_document(key)
        _record_change("document.removed", parsed, head)
        return DocumentFacts.of(head)

    @operation(
        "GET",
        RIGHTS_PATH,
        responses=document_responses(DocumentRights, "The document's access rights.", 404),
        right=OperatorRight.DOCUMENTS,
    )
    async def get_document_rights(
        self, parsed: ParsedRequest[None], query: DocumentQuery
    ) -> Response:
        """Show who may read a document.

        The access rights have a separate `ETag`. Requires the operator right `documents`.
        """
        key = _key_named(parsed, query)
        head = await self._head(key)
        return _rights_response(parsed, head)

    @operation(
        "PUT",
        RIGHTS_PATH,
        responses=document_responses(
            DocumentRights, "The new access rights.", 404, 409, 412, 413, 428
        ),
        headers=CHANGE_HEADERS,
        examples=_RIGHTS_EXAMPLES,
        right=OperatorRight.DOCUMENTS,
    )
    async def put_document_rights(
        self, parsed: ParsedRequest[RightsChange], query: DocumentQuery
    ) -> Response:
        """Set who may read a document.

        Replaces the access rights: only the named users and roles can read the document, on all
        replicas within a second. `If-Match` takes the `ETag` of the access rights, not that of the
        document. Requires the operator right `documents`.
        """
        key = _key_named(parsed, query)
        readers = None if parsed.body.readers is None else parsed.body.readers.to_readers()
        old = await self._head(key)
        with as_api_errors():
            expected = _matching(parsed.request.headers, rights_tag(old.readers))
            head = await self._writer.set_readers(key, readers, expected=expected)
        await self._on_change(key)
        _record_change("document.rights_changed", parsed, head)
        return _rights_response(parsed, head)

    @operation(
        "GET",
        FACTS_PATH,
        responses=document_responses(ChangedFacts, "The document's facts.", 404),
        right=OperatorRight.DOCUMENTS,
    )
    async def get_document_facts(
        self, parsed: ParsedRequest[None], query: DocumentQuery
    ) -> Response:
        """Show the facts that can be changed.

        Shows tags, date, own fields and expiry, which have a separate `ETag`. Requires the operator
        right `documents`.
        """
        key = _key_named(parsed, query)
        head = await self._head(key)
        return _facts_response(parsed, head)

    @operation(
        "PUT",
        FACTS_PATH,
        responses=document_responses(ChangedFacts, "The new facts.", 404, 409, 412, 413, 428),
        headers=CHANGE_HEADERS,
        examples=_FACTS_EXAMPLES,
        right=OperatorRight.DOCUMENTS,
    )
    async def put_document_facts(
        self, parsed: ParsedRequest[FactsChange], query: DocumentQuery
    ) -> Response:
        """Set tags, date, own fields and expiry.

        Replaces all of them; missing ones are removed. Other tags, dates and own fields make a new
        version of the document. `If-Match` takes the `ETag` of the facts, not that of the document.
        Requires the operator right `documents`.
        """
        key = _key_named(parsed, query)
        old = await self._head(key)
        with as_api_errors():
            expected = _matching(parsed.request.headers, EditableFacts.of(old).etag)
            facts = parsed.body.to_facts()
            head = await self._writer.set_facts(key, facts, expected=expected)
        await self._on_change(key)
        _record_change("document.facts_changed", parsed, head)
        return _facts_response(parsed, head)

    async def _head(self, key: Key) -> DocumentHead:
        """Return the head of a document. Raises NoSuchDocumentHere, and the store's API errors."""
        with as_api_errors():
            head = await self._writer.head(key)
        if head is None:
            raise _no_document(key)
        return head

    async def _expected(self, headers: Headers, key: Key) -> Expected | str:
        """Return the version expected by the request. Raises VersionRequired, VersionMismatch."""
        head = await self._writer.head(key)
        if headers.get("if-none-match", "").strip() == "*":
            if head is not None:
                raise VersionConflict(head)
            return Expected.NOTHING
        return _matching(headers, None if head is None else head.version)


def _matching(headers: Headers, current: str | None) -> str:
    wanted = headers.get("if-match")
    if wanted is None:
        raise VersionRequired(
            "the request names no version; send If-Match with the ETag of the version that you "
            "read, or If-None-Match: * for a new document"
        )
    if current is not None and (wanted.strip() == "*" or current in _STRONG_TAG.findall(wanted)):
        return current
    raise mismatch(current)


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


def _rights_response(parsed: ParsedRequest[object], head: DocumentHead) -> Response:
    rights = DocumentRights(
        tenant_id=head.tenant_id, doc_id=head.doc_id, readers=DocumentReaders.of(head.readers)
    )
    return response_of(rights, parsed, headers=_etag(rights_tag(head.readers)))


def _facts_response(parsed: ParsedRequest[object], head: DocumentHead) -> Response:
    etag = _etag(EditableFacts.of(head).etag)
    return response_of(ChangedFacts.of(head), parsed, headers=etag)


def _etag(tag: str) -> dict[str, str]:
    return {"ETag": f'"{tag}"'}


def _key_named(parsed: ParsedRequest[object], query: DocumentQuery) -> Key:
    add_to_operation(parsed.request.scope, doc_id=query.doc_id)
    return query.tenant_id, query.doc_id


def _no_document(key: Key) -> NoSuchDocumentHere:
    return NoSuchDocumentHere(
        f"tenant {quote(key[0])} has no document {quote(key[1])}; GET /internal/documents lists "
        "its documents"
    )


def _record_change(event: str, parsed: ParsedRequest[object], head: DocumentHead) -> None:
    add_to_operation(parsed.request.scope, event, version=head.version)
