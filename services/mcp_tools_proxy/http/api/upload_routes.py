"""Routes of the status of uploads that are answered before they are stored (RFC 7240)."""

from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.errors import RouteNotFound
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.http.api.document_errors import DOCUMENT_ERRORS
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import (
    Answer,
    Responses,
    SharedAnswer,
    Tag,
    errors_of,
    refusal,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.api.upload_queue import UploadQueue
from mcp_tools_proxy.http.api.upload_statuses import UploadStatus
from mcp_tools_proxy.http.request_headers import TRACE_HEADER
from mcp_tools_proxy.wire.identifiers import Identifier

STATUS_PATH = "/internal/documents/uploads"

PREFER, APPLIED, RESPOND_ASYNC = "Prefer", "Preference-Applied", "respond-async"

ACCEPTED = Answer(
    "With `Prefer: respond-async`: the upload was received, and is imported later.",
    UploadStatus,
    (TRACE_HEADER, "Location", APPLIED),
)

_RESPONSES: Responses = {
    200: Answer("The status of the upload.", UploadStatus),
    **errors_of(401, 403, 422, 500),
    503: DOCUMENT_ERRORS[503],
    404: SharedAnswer(
        "NoSuchUpload",
        refusal("NOT_FOUND: the tenant has no such upload, or it ended over an hour ago."),
    ),
}


class UploadStatusQuery(BaseModel):
    """Query that names one upload."""

    tenant_id: Annotated[Identifier, Field(description="The document's tenant.")]
    upload_id: Annotated[str, Field(description="The `upload_id` of the answer.", max_length=64)]


class UploadRoutes(Feature):
    """Show and cancel uploads."""

    tag = Tag.DOCUMENTS

    def __init__(self, queue: UploadQueue, gate: OperatorGate) -> None:
        self._queue = queue
        self._gate = gate

    @operation("GET", STATUS_PATH, responses=_RESPONSES, token_for=OperatorRight.DOCUMENTS)
    async def get_upload(
        self, parsed: ParsedRequest[None], query: UploadStatusQuery
    ) -> UploadStatus:
        """Show the status of an upload.

        Once it has finished, `status_code` and `answer` are those of the same upload without
        `Prefer`. An upload that a restart has ended has `status_code` 503. Statuses are kept for an
        hour. Replicas share them in Redis (`MCP_PROXY_STATE_URL`) or PostgreSQL; otherwise only the
        replica that received the upload has its status. Requires the operator right `documents`.
        """
        # without a record, as the upload has one
        await self._gate.admit(parsed, OperatorRight.DOCUMENTS, tenant_id=query.tenant_id)
        return await self._status(query)

    @operation("DELETE", STATUS_PATH, responses=_RESPONSES, right=OperatorRight.DOCUMENTS)
    async def cancel_upload(
        self, parsed: ParsedRequest[None], query: UploadStatusQuery
    ) -> UploadStatus:
        """Cancel an upload.

        Has no effect on an upload that has finished, or is being stored. An upload to another
        replica ends within ten seconds. Requires the operator right `documents`.
        """
        status = await self._status(query)
        if status.is_finished:
            return status
        await self._queue.cancel(query.upload_id)
        return await self._status(query)

    async def _status(self, query: UploadStatusQuery) -> UploadStatus:
        status = await self._queue.find(query.upload_id)
        if status is None or status.tenant_id != query.tenant_id:
            raise RouteNotFound("the tenant has no upload with this id, or it ended long ago")
        return status


def prefers_async(headers: Headers) -> bool:
    """Return whether a request has the preference ``respond-async``."""
    preferences = ",".join(headers.getlist(PREFER)).split(",")
    return any(it.partition(";")[0].strip().lower() == RESPOND_ASYNC for it in preferences)


def status_address(status: UploadStatus) -> str:
    """Return the address of a status."""
    query = urlencode({"tenant_id": status.tenant_id, "upload_id": status.upload_id})
    return f"{STATUS_PATH}?{query}"
