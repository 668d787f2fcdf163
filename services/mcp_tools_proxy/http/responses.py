"""Responses: the envelope of the HTTP API, status and headers of errors, event streams.

The HTTP API and MCP over HTTP use the same table of errors. ``RateLimit`` and ``RateLimit-Policy``
follow draft-ietf-httpapi-ratelimit-headers-11.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pydantic_core import to_json
from starlette.responses import Response

from mcp_tools_proxy.domain.budget import BudgetStatus, Unit
from mcp_tools_proxy.domain.errors import ProxyError, StoreUnavailable, Unauthenticated
from mcp_tools_proxy.domain.outcome import Failed, Ok, Outcome
from mcp_tools_proxy.http.list_query import InvalidListOption
from mcp_tools_proxy.http.request_headers import TRACE_HEADER

JSON = "application/json"


class _JsonResponse(Response):
    """A response built in one step; Starlette takes 3 µs more."""

    def __init__(
        self, content: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status_code = status
        self.background = None
        self.body = content
        self.raw_headers = [
            (b"content-length", b"%d" % len(content)),
            (b"content-type", b"application/json"),
        ]
        for name, value in (headers or {}).items():
            self.raw_headers.append((_raw_name(name), value.encode("latin-1")))


@lru_cache(maxsize=64)
def _raw_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


def envelope(outcome: Outcome, trace_id: str) -> bytes:
    """Serialize an outcome without absent keys."""
    replayed = b',"replayed":true' if outcome.replayed else b""
    budget = _budget(outcome.budget)
    match outcome:
        case Ok(result_json=result):
            return b'{"status":"ok","result":%b,"trace_id":%b%b%b}' % (
                result,
                to_json(trace_id),
                replayed,
                budget,
            )
        case Failed(error=error):
            return b'{"status":"error","error":%b,"trace_id":%b%b%b}' % (
                to_json(error.as_json),
                to_json(trace_id),
                replayed,
                budget,
            )


def batch_envelope(
    outcomes: Sequence[Outcome], trace_id: str, messages: Iterable[bytes] = ()
) -> bytes:
    """Serialize the outcomes of a batch, each in an envelope.

    ``messages`` are pieces of JSON. Everything is joined once, since copying a long answer is slow.
    """
    trace = b',"trace_id":%b' % to_json(trace_id)
    pieces = [b'{"results":[']
    for outcome in outcomes:
        if isinstance(outcome, Ok) and not outcome.replayed:
            budget = _budget(outcome.budget)
            pieces += (b'{"status":"ok","result":', outcome.result_json, trace, budget, b"},")
        else:
            pieces += (envelope(outcome, trace_id), b",")
    if outcomes:
        pieces[-1] = pieces[-1].removesuffix(b",")
    pieces.append(b"]")
    if messages:
        pieces.append(b',"messages":')
        pieces += messages
    pieces += (trace, b"}")
    return b"".join(pieces)


def _budget(status: BudgetStatus | None) -> bytes:
    """Serialize the key ``budget``; the name of a budget needs no escapes."""
    if status is None:
        return b""
    calls, tokens = status.remaining_calls, status.remaining_tokens
    return b',"budget":{"name":"%b"%b%b,"reset_s":%d}' % (
        status.name.encode(),
        b"" if calls is None else b',"remaining_calls":%d' % calls,
        b"" if tokens is None else b',"remaining_tokens":%d' % tokens,
        status.reset_s,
    )


def outcome_response(
    outcome: Outcome, trace_id: str, more: Mapping[str, object] | None = None
) -> Response:
    """Build the response to an outcome, with its status and headers; ``more`` are further keys."""
    if isinstance(outcome, Failed):
        status, headers = status_of(outcome.error).api, error_headers(outcome.error, trace_id)
    else:
        status, headers = 200, {TRACE_HEADER: trace_id}
    if outcome.budget is not None:
        add_rate_limit(headers, outcome.budget)
    content = envelope(outcome, trace_id)
    if more:
        content = b"%b,%b" % (content[:-1], to_json(more)[1:])
    return _JsonResponse(content, status, headers)


def error_response(
    error: ProxyError, trace_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Build the response to an error; ``headers`` are added to those of the envelope."""
    response = outcome_response(Failed(error=error), trace_id)
    response.headers.update(headers or {})
    return response


def reply_response(
    outcomes: Sequence[Outcome], trace_id: str, messages: Iterable[bytes]
) -> Response:
    """Build the response to a batch of a model's calls."""
    content = batch_envelope(outcomes, trace_id, messages)
    return _JsonResponse(content, headers={TRACE_HEADER: trace_id})


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a response with ``content`` as JSON, without an envelope or nulls of models."""
    return _JsonResponse(to_json(content, exclude_none=True), status, headers)


class ErrorStatus(NamedTuple):
    """The HTTP status of an error in each entry.

    ``api`` is 200 for errors that a model or its runtime can handle (contract §1). ``mcp`` is for a
    request that is refused before it becomes an MCP message; within MCP, errors are results.
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
"""HTTP status by code; other codes have the defaults of ErrorStatus."""

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


RATE_LIMIT_HEADER = "RateLimit"
POLICY_HEADER = "RateLimit-Policy"

LARGEST = 999_999_999_999_999
"""The largest integer of structured fields (RFC 9651 §3.3.1), also shown for larger numbers."""


def add_rate_limit(headers: dict[str, str], status: BudgetStatus) -> None:
    """Add the remainder of a budget and its policy.

    A rule that limits calls and tokens is two policies; the one with less left is shown.
    """
    is_one_of_two = status.remaining_calls is not None and status.remaining_tokens is not None
    name, policy = _policy(status.name, status.unit, status.limit, status.window_s, is_one_of_two)
    headers[RATE_LIMIT_HEADER] = f"{name};r={min(status.remaining, LARGEST)};t={status.reset_s}"
    headers[POLICY_HEADER] = policy


@lru_cache(maxsize=2048)  # 1,000 rules have one or two each
def _policy(
    name: str, unit: Unit, limit: int, window_s: int, is_one_of_two: bool
) -> tuple[str, str]:
    """Return the name of a policy as a structured field, and the policy.

    The dot in the name of a double policy cannot occur in rule names, so names are unique.
    ``tokens`` is not a registered unit.
    """
    quoted = f'"{name}.{unit}"' if is_one_of_two else f'"{name}"'
    measured = ';qu="tokens"' if unit == "tokens" else ""
    return quoted, f"{quoted};q={min(limit, LARGEST)}{measured};w={window_s}"


PING_S = 15.0
"""Seconds of silence after which a comment is sent, as proxies cut silent connections."""

PING = b": ping\r\n\r\n"

EVENT_STREAM = "text/event-stream"

STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
"""Prevent proxies from buffering events."""
