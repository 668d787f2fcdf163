"""Errors of document routes: descriptions, and conversion from those of stores and imports."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mcp_tools_proxy.documents.document_file import InvalidDocument
from mcp_tools_proxy.documents.document_writer import (
    NoSuchDocument,
    ReadOnlyDocuments,
    VersionConflict,
    WriteFailed,
)
from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.import_process import ImporterBusy, ImportUnavailable
from mcp_tools_proxy.domain.errors import (
    DocumentsReadOnly,
    DocumentsUnavailable,
    ImportBusy,
    InvalidRequest,
    NoSuchDocumentHere,
    ProxyError,
    StoreUnavailable,
    VersionMismatch,
)
from mcp_tools_proxy.http.api.document_upload import IMPORT_RETRY_S
from mcp_tools_proxy.http.api.openapi import (
    ETAG,
    RETRY_AFTER,
    SHARED_ANSWERS,
    Answer,
    Responses,
    SharedAnswer,
    refusal,
)
from mcp_tools_proxy.http.request_headers import TRACE_HEADER

DOCUMENT_ERRORS: Mapping[int, SharedAnswer] = {
    404: SharedAnswer("NoSuchDocument", refusal("NOT_FOUND: the tenant has no such document.")),
    409: SharedAnswer(
        "DocumentNotChanged",
        refusal(
            "DOCUMENTS_READ_ONLY: the folder or database is not writable. IMPORT_BUSY: another "
            "import of this tenant is running or waiting, no slot was free for 90 s, the import "
            "took long while other tenants waited, or there are already 32 uploads in all or 24 "
            "of the tenant; retry after Retry-After. QUOTA_EXCEEDED: the tenant's quota would be "
            "exceeded; `details` has `quota`, `unit`, `limit` and `used`.",
            RETRY_AFTER,
        ),
    ),
    412: SharedAnswer(
        "VersionMismatch",
        refusal(
            "VERSION_MISMATCH: the document does not exist, or its version is `details.version`."
        ),
    ),
    415: SharedAnswer(
        "UnsupportedFormat", refusal("UNSUPPORTED_FORMAT: the body's type is not supported.")
    ),
    428: SharedAnswer(
        "VersionRequired",
        refusal("VERSION_REQUIRED: send `If-Match` or `If-None-Match: *`."),
    ),
    503: SharedAnswer(
        "DocumentsUnavailable",
        refusal("DOCUMENTS_UNAVAILABLE: documents cannot be read or written at the moment."),
    ),
}


def document_responses(model: object, description: str, *statuses: int) -> Responses:
    """Return the responses of a document route for operators."""
    shared = {**SHARED_ANSWERS, **DOCUMENT_ERRORS}
    answer = Answer(description, model, (TRACE_HEADER, ETAG))
    return {200: answer, **{it: shared[it] for it in (401, 403, *statuses, 422, 500, 503)}}


@contextmanager
def as_api_errors() -> Iterator[None]:
    """Convert errors of stores and imports to errors of the API."""
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
            return mismatch(None if head is None else head.version)
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


def mismatch(current: str | None) -> VersionMismatch:
    """Return the error for a version that the request does not name."""
    return VersionMismatch(
        "the current version does not match If-Match or If-None-Match; read the document again "
        "and repeat the change",
        details=None if current is None else {"version": current},
    )
