"""JSON-RPC messages as bytes: parses what a server sends, in bounded memory."""

import asyncio
import re
from typing import Any

from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.client_request_rules import CLIENT_REQUESTS
from mcp_tools_proxy.downstream.connection import (
    ConnectionFailure,
    ResponseTooLarge,
    ResultNotAnObject,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import peer_error
from mcp_tools_proxy.downstream.mcp_client.in_flight import CANCELLED, RELAYED_NOTIFICATIONS
from mcp_tools_proxy.downstream.mcp_client.large_messages import (
    LARGE_BYTES,
    parse_json,
    parse_large_json,
)
from mcp_tools_proxy.wire.json_structure import structure_sizes

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""How many bytes of one message are read.

It guards memory, and is far above any ``max_result_bytes``.
"""

MIN_STRUCTURE_BYTES = 2 * 1024 * 1024
"""The least limit of a message without its texts: a page of thousands of tools is below it.

A server whose results may be larger has its ``max_result_bytes`` as the limit. A result over it
would be refused in any case, and parsing it would take 24 times its size."""

LIST_CHANGED = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)
RELEVANT_NOTIFICATIONS = (
    LIST_CHANGED | RELAYED_NOTIFICATIONS | {CANCELLED, "notifications/subscriptions/acknowledged"}
)
"""The notifications that the gateway or its callers act on; all others are dropped."""

_BOM = b"\xef\xbb\xbf"
_OUR_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,18})\b')


def structure_limit(config: ServerConfig) -> int:
    """Return the limit of one message of a server without its texts, in bytes."""
    return max(MIN_STRUCTURE_BYTES, config.max_result_bytes)


async def read_object(data: bytes, max_structure_bytes: int) -> dict[str, Any]:
    """Parse one JSON object, unless it has more bytes outside of texts than the limit.

    NaN, Infinity and 1e400 become null, a lone surrogate U+FFFD. Raises ResponseTooLarge,
    ConnectionFailure.
    """
    if len(data) > max_structure_bytes:
        await _check_structure(data, max_structure_bytes)
    data = data.removeprefix(_BOM)
    try:
        value = parse_json(data) if len(data) < LARGE_BYTES else await parse_large_json(data)
    except ValueError:
        raise ConnectionFailure("the server's answer is not JSON") from None
    if not isinstance(value, dict):
        raise ConnectionFailure("the server's answer is JSON, but not a JSON-RPC message")
    return value


async def _check_structure(data: bytes, max_bytes: int) -> None:
    """Raise ResponseTooLarge for more than ``max_bytes`` outside of texts."""
    for size in structure_sizes(data):
        if size > max_bytes:
            raise ResponseTooLarge(max_bytes)
        await asyncio.sleep(0)


def is_response(message: dict[str, Any]) -> bool:
    """Return whether a message is a response, not a request or notification of the server."""
    return "method" not in message and "id" in message


def result_of(message: dict[str, Any], request_id: int | str) -> dict[str, Any]:
    """Return the result of a response.

    Raises JsonRpcError; ConnectionFailure when the response belongs to another request;
    ResultNotAnObject when its result is no object. An error without an id counts as the response:
    the server could not even parse the request.
    """
    is_error = _has_error(message)
    if is_error and message.get("id") is None:
        raise peer_error(message["error"])
    if str(message.get("id")) != str(request_id):
        raise ConnectionFailure("the server's answer is for another request")
    if is_error:
        raise peer_error(message["error"])
    if "result" not in message:
        raise ConnectionFailure("the server's answer has neither a result nor an error")
    result = message["result"]
    if not isinstance(result, dict):
        raise ResultNotAnObject(result)
    return result


def _has_error(message: dict[str, Any]) -> bool:
    """Return whether a response is an error: beside a result, null means that there is none."""
    return "error" in message and (message["error"] is not None or "result" not in message)


def is_broken_response(data: bytes, request_id: int | str) -> bool:
    """Return whether malformed bytes were meant as the response to this request."""
    found = _OUR_ID.search(data) if b'"jsonrpc"' in data else None
    return found is not None and found[1].decode() == str(request_id)


async def to_session_message(
    data: bytes, max_structure_bytes: int, *, cut: bool = False
) -> SessionMessage | None:
    """Convert one message of a stream for the SDK; return None for an irrelevant one.

    A message that is broken or too large, such as one that was ``cut``, becomes the error of the
    request that it answers. Raises ConnectionFailure when the bytes contain no request id: they are
    garbage.
    """
    if cut:
        return _as_error_response(data, ResponseTooLarge(MAX_MESSAGE_BYTES))
    try:
        message = await read_object(data, max_structure_bytes)
        return _message(message)
    except (ConnectionFailure, ResponseTooLarge) as fault:
        return _as_error_response(data, fault)


def _message(message: dict[str, Any]) -> SessionMessage | None:
    method, request_id, params = message.get("method"), message.get("id"), message.get("params")
    if message.get("jsonrpc") != "2.0" or not (params is None or isinstance(params, dict)):
        raise ConnectionFailure("the server's answer is JSON, but not a JSON-RPC message")
    if isinstance(method, str):
        if request_id is None:
            is_relevant = method in RELEVANT_NOTIFICATIONS
            note = JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
            return SessionMessage(note) if is_relevant else None
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            raise ConnectionFailure("the server sent a request without a valid id")
        kept = params if method in CLIENT_REQUESTS else None
        return SessionMessage(
            JSONRPCRequest.model_construct(jsonrpc="2.0", id=request_id, method=method, params=kept)
        )
    if request_id is None:
        raise ConnectionFailure("the server's answer does not name the request it is for")
    if _has_error(message):
        error = peer_error(message["error"])
        return _error(request_id, error.code, error.message, error.data)
    try:
        result = result_of(message, request_id)
    except ResultNotAnObject as fault:
        return _error(request_id, CONNECTION_CLOSED, str(fault), fault)
    answer = JSONRPCResponse.model_construct(jsonrpc="2.0", id=request_id, result=result)
    return SessionMessage(answer)


def _as_error_response(data: bytes, fault: ConnectionFailure | ResponseTooLarge) -> SessionMessage:
    """Build an error response from ``fault`` for the request that ``data`` was to answer."""
    found = _OUR_ID.search(data) if b'"jsonrpc"' in data else None
    if found is None:
        raise (
            fault
            if isinstance(fault, ConnectionFailure)
            else ConnectionFailure("a message from the server is too large")
        )
    return _error(int(found[1]), CONNECTION_CLOSED, str(fault), fault)


def _error(request_id: int | str, code: int, message: str, data: object) -> SessionMessage:
    error = ErrorData.model_construct(code=code, message=message, data=data)
    return SessionMessage(JSONRPCError.model_construct(jsonrpc="2.0", id=request_id, error=error))
