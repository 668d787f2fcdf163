"""The HTTP status and headers of an error: one table for the HTTP API and for MCP over HTTP."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from mcp_tools_proxy.domain.errors import ProxyError, StoreUnavailable, Unauthenticated
from mcp_tools_proxy.web.list_query import InvalidListOption
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class ErrorStatus(NamedTuple):
    """The HTTP status of an error in each entry.

    ``api``: 200 for whatever a model or its runtime can react to (contract §1). ``mcp``: of a
    request that is refused before it becomes a message of MCP; within MCP errors are results.
    """

    api: int = 200
    mcp: int = 400


STATUS_OF_CODE: Mapping[str, ErrorStatus] = {
    "UNAUTHENTICATED": ErrorStatus(api=401, mcp=401),
    "FORBIDDEN": ErrorStatus(api=403, mcp=403),
    "AGENT_REQUIRED": ErrorStatus(mcp=403),
    "NOT_FOUND": ErrorStatus(api=404),
    "PRESET_NOT_FOUND": ErrorStatus(api=404),
    "METHOD_NOT_ALLOWED": ErrorStatus(api=405),
    "CONFIG_READ_ONLY": ErrorStatus(api=409),
    "DOCUMENTS_READ_ONLY": ErrorStatus(api=409),
    "IMPORT_BUSY": ErrorStatus(api=409),
    "QUOTA_EXCEEDED": ErrorStatus(api=409),
    "VERSION_MISMATCH": ErrorStatus(api=412),
    "UNSUPPORTED_FORMAT": ErrorStatus(api=415),
    "VERSION_REQUIRED": ErrorStatus(api=428),
    "PRESET_PINNED": ErrorStatus(api=409),
    "PAYLOAD_TOO_LARGE": ErrorStatus(api=413, mcp=413),
    "INVALID_REQUEST": ErrorStatus(api=422, mcp=400),
    "INTERNAL_ERROR": ErrorStatus(api=500),
    "RETRIEVAL_NOT_CONFIGURED": ErrorStatus(api=503),
    "AUDIT_UNAVAILABLE": ErrorStatus(api=503, mcp=503),
    "SHUTTING_DOWN": ErrorStatus(api=503, mcp=503),
    "NO_ROOM": ErrorStatus(api=503, mcp=503),
}
"""HTTP status by code; every other code has the defaults of ErrorStatus."""

_OTHERS = ErrorStatus()
_STORE = ErrorStatus(api=503)
_LIST_OPTION = ErrorStatus(api=400, mcp=400)


def status_of(error: ProxyError) -> ErrorStatus:
    """Return the HTTP status of an error in each entry."""
    if isinstance(error, InvalidListOption):
        return _LIST_OPTION
    if isinstance(error, StoreUnavailable):
        return _STORE
    return STATUS_OF_CODE.get(error.code, _OTHERS)


def error_headers(error: ProxyError, trace_id: str) -> dict[str, str]:
    """Return the headers of the response to a refused or failed request."""
    headers = {TRACE_HEADER: trace_id}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if isinstance(error, Unauthenticated):  # RFC 6750 §3
        refused = error.token_refused
        headers["WWW-Authenticate"] = 'Bearer error="invalid_token"' if refused else "Bearer"
    if error.code == "PAYLOAD_TOO_LARGE":
        headers["Connection"] = "close"  # the rest of the body was not read
    return headers
