"""Converts outcomes to MCP results and errors, with pure functions.

A server's result is relayed; our additions are in ``_meta``, under our prefix. A failed tool call
is a result with ``isError``, which the model can read; a failed prompt or resource is a JSON-RPC
error, never an empty success (A.5).
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.outcome import Failed, Ok, Outcome
from mcp_tools_proxy.http.request_headers import new_trace_id
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_ERROR_CODES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    SERVER_INFO_META_KEY,
)
from mcp_tools_proxy.wire.tracing import BUDGET_KEY, OUR_PREFIX, REPLAYED_KEY, TRACE_ID_KEY

TRUNCATED_KEY = f"{OUR_PREFIX}truncated"
ERROR_KEY = f"{OUR_PREFIX}error"
"""The error in the form of the HTTP API: ``{"code", "message", "retryable"?, …}`` (contract §1)."""

LEGACY_RESOURCE_NOT_FOUND = -32002
"""JSON-RPC code for a missing resource in eras before 2026-07-28."""

_CALLER_ERRORS = frozenset(
    {
        "INVALID_REQUEST",
        "INVALID_ARGUMENTS",
        "AGENT_NOT_FOUND",
        "AGENT_REQUIRED",
        "AMBIGUOUS_NAME",
        "TOOL_NOT_FOUND",
        "TOOL_NOT_ALLOWED",
        "PROMPT_NOT_FOUND",
        "PROMPT_NOT_ALLOWED",
        "RESOURCE_NOT_FOUND",
        "RESOURCE_NOT_ALLOWED",
        "ACCESS_DENIED",
        "DOCUMENT_NOT_FOUND",
        "PAGES_NOT_FOUND",
        "PAGE_SPAN_TOO_LARGE",
    }
)
"""Codes for mistakes of the caller; they become JSON-RPC's invalid params."""

_NOT_FOUND = ("RESOURCE_NOT_FOUND", "DOCUMENT_NOT_FOUND", "PAGES_NOT_FOUND")

_OUR_FIELDS = frozenset({"structured_content", "meta", "tokens", "truncated"})
"""Fields of our results that MCP spells differently or lacks."""

Json = dict[str, Any]


def tool_result(outcome: Outcome, call: Call, *, modern: bool) -> Json:
    """Build a tools/call result: ``content``, ``structuredContent``?, ``isError``?, ``_meta``, and
    fields of the server.

    Raises JsonRpcError for a server error that the client has to handle; see CLIENT_ERROR_CODES.
    """
    answer = _with_budget(_tool_answer(outcome, call, modern=modern), outcome)
    if outcome.replayed:
        answer["_meta"] = {**answer.get("_meta", {}), REPLAYED_KEY: True}
    return answer


def _tool_answer(outcome: Outcome, call: Call, *, modern: bool) -> Json:
    trace_id = call.trace_id
    match outcome:
        case Failed(error=error):
            _raise_client_error(error, call)
            return _failed(error, trace_id)
        case Ok(input_required=True):
            return dict(outcome.result)
        case Ok(spec=spec) if spec.server_id is None:
            meta = cast("JsonObject", outcome.result.get("meta") or {})
            return _own_answer(outcome) | {"_meta": {**meta, TRACE_ID_KEY: trace_id}}
        case Ok():
            return _relayed(outcome.result, trace_id, modern=modern)


def _own_answer(outcome: Ok) -> Json:
    """Return the content of a local tool's result: its JSON as text, or its own image."""
    result = outcome.result
    shown = result.get("content")
    if not isinstance(shown, list) and "meta" not in result:
        text = {"type": "text", "text": outcome.result_json.decode()}
        return {"content": [text], "structuredContent": result}
    structured = {k: v for k, v in result.items() if k not in ("content", "meta")}
    if not isinstance(shown, list):
        shown = [{"type": "text", "text": to_json(structured).decode()}]
    return {"content": shown, "structuredContent": structured}


def prompt_result(outcome: Outcome, trace_id: str, *, modern: bool) -> Json:
    """Build a prompts/get result: ``messages``, ``description``?, ``_meta``, and fields of the
    server.

    Raises JsonRpcError.
    """
    result = _value_of(outcome, trace_id, modern=modern)
    return _with_budget(_read_answer(outcome, result, trace_id), outcome)


def resource_result(outcome: Outcome, trace_id: str, uri: str, *, modern: bool) -> Json:
    """Build a resources/read result: ``contents``, ``_meta``, and fields of the server.

    Raises JsonRpcError.
    """
    result = _value_of(outcome, trace_id, modern=modern, uri=uri)
    return _with_budget(_read_answer(outcome, result, trace_id), outcome)


def completion_result(outcome: Outcome, trace_id: str, *, modern: bool) -> Json:
    """Build a completion/complete result: ``completion``. Raises JsonRpcError."""
    result = _value_of(outcome, trace_id, modern=modern)
    return _with_budget({"completion": result["completion"]}, outcome)


def _read_answer(outcome: Outcome, result: JsonObject, trace_id: str) -> Json:
    if is_input_required(outcome):
        return dict(result)
    return _server_fields(result) | {"_meta": _meta(result, trace_id)}


def _with_budget(answer: Json, outcome: Outcome) -> Json:
    if outcome.budget is not None:
        answer["_meta"] = {**answer.get("_meta", {}), BUDGET_KEY: outcome.budget.as_json}
    return answer


def _raise_client_error(error: ProxyError, call: Call) -> None:
    """Raise JsonRpcError for a server error that only the client can handle.

    Such an error requires an action (open a URL, declare a capability), or is about the call's
    input responses.
    """
    details = error.details or {}
    if error.code != "TOOL_FAILED" or "content" in details:
        return
    code = details.get("code", INVALID_PARAMS if call.input_responses else None)
    if isinstance(code, int) and (code in CLIENT_ERROR_CODES or call.input_responses):
        raise recorded(JsonRpcError(code, error.message, details.get("data")))


def is_input_required(outcome: Outcome) -> bool:
    """Return whether the server needs input of the client to continue (MCP 2026-07-28)."""
    return isinstance(outcome, Ok) and outcome.input_required


def protocol_error(
    error: ProxyError, trace_id: str, *, modern: bool, **more: object
) -> JsonRpcError:
    """Build the JSON-RPC error of a failure; ``data`` is the error in the form of the HTTP API."""
    code = INVALID_PARAMS if error.code in _CALLER_ERRORS else INTERNAL_ERROR
    if error.code in _NOT_FOUND and not modern:
        code = LEGACY_RESOURCE_NOT_FOUND
    data = {**error.as_json, **more, "trace_id": trace_id}
    answer = JsonRpcError(code, error.message, data)
    answer.refusal = error
    return answer


def recorded(error: JsonRpcError) -> JsonRpcError:
    """Mark an error as one of a call, which has a record."""
    error.is_recorded = True
    return error


def result_response(id_: RequestId, result: Json) -> Json:
    """Build the JSON-RPC response for a result."""
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def error_response(id_: RequestId | None, error: JsonRpcError) -> Json:
    """Build the JSON-RPC response for an error."""
    return {"jsonrpc": "2.0", "id": id_, "error": error.as_json}


def refused_request(id_: RequestId, error: ProxyError) -> Json:
    """Build the response to a request that is refused before a method handles it."""
    refusal = protocol_error(error, new_trace_id(), modern=True)
    if isinstance(error, InvalidRequest):
        refusal.code = INVALID_REQUEST
    return error_response(id_, refusal)


def _value_of(outcome: Outcome, trace_id: str, *, modern: bool, **more: object) -> JsonObject:
    if isinstance(outcome, Failed):
        if outcome.budget is not None:
            more["budget"] = outcome.budget.as_json
        raise recorded(protocol_error(outcome.error, trace_id, modern=modern, **more))
    return outcome.result


def _relayed(result: JsonObject, trace_id: str, *, modern: bool) -> Json:
    answer = _server_fields(result)
    structured = result.get("structured_content")
    if structured is not None and (modern or isinstance(structured, Mapping)):
        answer["structuredContent"] = structured  # older eras allow objects only
    return answer | {"_meta": _meta(result, trace_id)}


def _failed(error: ProxyError, trace_id: str) -> Json:
    """Build a tool result that shows an error to the model; a server's content is kept."""
    error_object = error.as_json
    details = cast("JsonObject", error.details or {})
    answer: Json = {"isError": True}
    if error.code == "TOOL_FAILED" and isinstance(details.get("content"), list):
        answer |= _server_fields(details)
        if isinstance(details.get("structured_content"), Mapping):
            answer["structuredContent"] = details["structured_content"]
        del error_object["details"]
    else:
        answer["content"] = [{"type": "text", "text": error.as_text}]
    return answer | {"_meta": {**_meta(details, trace_id), ERROR_KEY: error_object}}


def _server_fields(result: JsonObject) -> Json:
    """Return the fields in MCP's spelling, including unknown ones (W-14)."""
    return {key: value for key, value in result.items() if key not in _OUR_FIELDS}


def _meta(result: JsonObject, trace_id: str) -> Json:
    meta = dict(cast("JsonObject", result.get("meta") or {}))
    meta.pop(SERVER_INFO_META_KEY, None)  # for the client, this gateway is the server
    meta.pop(BUDGET_KEY, None)  # from a gateway behind this one
    ours: Json = {TRACE_ID_KEY: trace_id}
    if result.get("truncated") is True:
        ours[TRUNCATED_KEY] = True
    return {**meta, **ours}
