"""The envelope of the HTTP API: outcomes as JSON, and the HTTP status of each error code."""

import math
from collections.abc import Mapping, Sequence

from pydantic_core import to_json
from starlette.responses import Response

from mcp_tools_proxy.auth.identity_headers import www_authenticate
from mcp_tools_proxy.domain.errors import ProxyError, Unauthenticated
from mcp_tools_proxy.domain.outcome import Failed, Ok, Outcome
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

JSON = "application/json"

STATUS_OF_CODE: Mapping[str, int] = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "PRESET_NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "CONFIG_READ_ONLY": 409,
    "PRESET_PINNED": 409,
    "PAYLOAD_TOO_LARGE": 413,
    "INVALID_REQUEST": 422,
    "RETRIEVAL_NOT_CONFIGURED": 503,
    "SHUTTING_DOWN": 503,
    "INTERNAL_ERROR": 500,
}
"""HTTP status by code; others are 200: a model or its runtime can react to them (contract §1)."""


_HEADERS_OF_CODE: Mapping[str, Mapping[str, str]] = {
    "PAYLOAD_TOO_LARGE": {"Connection": "close"},  # the rest of the body was not read
}


def envelope(outcome: Outcome, trace_id: str) -> bytes:
    """Serialize an outcome; absent keys are left out."""
    match outcome:
        case Ok(result_json=result_json):
            return b'{"status":"ok","result":%b,"trace_id":%b}' % (result_json, to_json(trace_id))
        case Failed(error=error):
            return to_json({"status": "error", "error": error.as_json, "trace_id": trace_id})


def batch_envelope(outcomes: Sequence[Outcome], trace_id: str) -> bytes:
    """Serialize the outcomes of a batch, each in its own envelope."""
    results = b",".join(envelope(outcome, trace_id) for outcome in outcomes)
    return b'{"results":[%b],"trace_id":%b}' % (results, to_json(trace_id))


def outcome_response(outcome: Outcome, trace_id: str) -> Response:
    """Build the response to an outcome, with its status and headers."""
    headers = {TRACE_HEADER: trace_id}
    status = 200
    if isinstance(outcome, Failed):
        status = STATUS_OF_CODE.get(outcome.error.code, 200)
        if outcome.error.retry_after_s is not None:
            headers["Retry-After"] = str(math.ceil(outcome.error.retry_after_s))
        if isinstance(outcome.error, Unauthenticated):
            headers["WWW-Authenticate"] = www_authenticate(outcome.error)
        headers |= _HEADERS_OF_CODE.get(outcome.error.code, {})
    return Response(envelope(outcome, trace_id), status, headers, JSON)


def error_response(
    error: ProxyError, trace_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Build the response to an error; ``headers`` are added to those of the envelope."""
    response = outcome_response(Failed(error=error), trace_id)
    response.headers.update(headers or {})
    return response


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a response with ``content`` as JSON, without an envelope."""
    return Response(to_json(content), status, headers, JSON)
