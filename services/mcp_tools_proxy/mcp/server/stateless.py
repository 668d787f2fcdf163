"""Stateless requests of MCP 2026-07-28.

They are answered here for all transports. The envelope is checked in the order of the
specification, so that the first fault is reported: ``_meta``, then headers against body, then
version.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import InternalError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.mcp.server.clients import (
    LEVELS,
    StatelessClient,
    client_name_of,
    is_client_info,
)
from mcp_tools_proxy.mcp.server.request import NO_HEADERS, McpRequest
from mcp_tools_proxy.mcp.server.results import Json, error_response, protocol_error, result_response
from mcp_tools_proxy.mcp.server.server import DISCOVER, GatewayMcpServer
from mcp_tools_proxy.mcp.server.subscriptions import LISTEN, SubscriptionFilter
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StatelessRequest:
    """A request with a valid ``_meta`` envelope; ``declared`` are its client's raw capabilities."""

    id: RequestId
    method: str
    params: Mapping[str, Any]
    declared: object

    @property
    def client_name(self) -> str | None:
        """The client's name, if it was sent."""
        return client_name_of(self.params["_meta"].get(CLIENT_INFO_META_KEY))


def wants_stream(content: object) -> bool:
    """Return whether messages can precede the result of a request.

    That applies to LISTEN, and if ``_meta`` requests progress or log messages. The response then
    has to be an event stream instead of a JSON body.
    """
    if not isinstance(content, dict):
        return False
    params = content.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    has_wishes = isinstance(meta, dict) and ("progressToken" in meta or LOG_LEVEL_META_KEY in meta)
    return has_wishes or content.get("method") == LISTEN


def parse_stateless(
    content: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> StatelessRequest:
    """Parse a JSON-RPC request with a ``request_id_of``. Raises JsonRpcError for its envelope.

    ``headers`` are the HTTP headers, names in lower case; they must match the body.
    """
    declared = read_envelope(content, headers)
    return StatelessRequest(content["id"], content["method"], content["params"], declared)


async def handle_stateless(
    server: GatewayMcpServer,
    request: StatelessRequest,
    caller: Caller,
    *,
    send: SendMessage | None = None,
    headers: Headers = NO_HEADERS,
    options: ListOptions = SERVER_NAMES,
) -> Json:
    """Return the JSON-RPC response to a request, which can be an error response. Never raises.

    ``send`` sends notifications before it; with None they are dropped. ``options`` applies to
    lists.
    """
    build_client = partial(StatelessClient, request.declared, send)
    mcp_request = McpRequest.from_params(
        request.method,
        request.params,
        caller,
        build_client,
        modern=True,
        headers=headers,
        options=options,
        client_name=request.client_name,
    )
    try:
        if request.method in server.methods:
            result = await server.handle(mcp_request)
        else:
            result = await _handle_protocol_method(server, request, mcp_request, send)
    except JsonRpcError as error:
        server.record_error(mcp_request, error)
        return error_response(request.id, error)
    except Exception:
        log.exception("facade.crashed", method=request.method, trace_id=mcp_request.trace_id)
        crash = protocol_error(InternalError(), mcp_request.trace_id, modern=True)
        server.record_error(mcp_request, crash)
        return error_response(request.id, crash)
    return result_response(request.id, result)


async def _handle_protocol_method(
    server: GatewayMcpServer,
    request: StatelessRequest,
    mcp_request: McpRequest,
    send: SendMessage | None,
) -> Json:
    check_meta(request.params["_meta"])
    mcp_request = mcp_request.narrowed()
    if request.method == DISCOVER:
        return server.discover(mcp_request.caller)
    if request.method == LISTEN and send is not None:
        wanted = SubscriptionFilter.read(request.params.get("notifications"))
        return await server.listen(mcp_request, request.id, wanted, send)
    raise JsonRpcError(METHOD_NOT_FOUND, "Method not found", request.method)


REQUIRED_KEYS = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY)

NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose requests repeat a parameter in the header ``Mcp-Name``, with its name."""

_ENTRIES: Sequence[tuple[str, Callable[[Any], bool], str]] = (
    (CLIENT_INFO_META_KEY, is_client_info, "an object with name and version"),
    (CLIENT_CAPABILITIES_META_KEY, lambda value: isinstance(value, dict), "an object"),
    (LOG_LEVEL_META_KEY, lambda value: value in LEVELS, f"one of {', '.join(LEVELS)}"),
    (
        "progressToken",
        lambda value: isinstance(value, str | int) and not isinstance(value, bool),
        "a string or a whole number",
    ),
)

_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def read_envelope(content: Mapping[str, Any], headers: Mapping[str, str] | None) -> object:
    """Check the envelope of a JSON-RPC request; return the client's declared capabilities.

    They can be of any type. ``headers`` are the HTTP headers, names in lower case; None for other
    transports. Raises JsonRpcError.
    """
    params = content.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        text = f"params._meta should be an object with {' and '.join(REQUIRED_KEYS)}"
        raise JsonRpcError(INVALID_PARAMS, text)
    missing = [key for key in REQUIRED_KEYS if key not in meta]
    if missing:
        raise JsonRpcError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
    version = meta[PROTOCOL_VERSION_META_KEY]
    if headers is not None:
        _check_headers(headers, version, content["method"], params)
    if not isinstance(version, str):
        raise JsonRpcError(INVALID_PARAMS, f"{PROTOCOL_VERSION_META_KEY} should be a string")
    check_version(version)
    return meta[CLIENT_CAPABILITIES_META_KEY]


def check_meta(meta: Mapping[str, Any]) -> None:
    """Raise JsonRpcError if an entry of ``_meta`` has a wrong type.

    Only for the protocol's methods: a call is not refused for a malformed description of the
    client.
    """
    for key, is_valid, kind in _ENTRIES:
        if key in meta and not is_valid(meta[key]):
            raise JsonRpcError(INVALID_PARAMS, f"{key} in params._meta should be {kind}")


def check_version(version: str) -> None:
    """Raise JsonRpcError for a version that is not served without a session."""
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise JsonRpcError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def _check_headers(
    headers: Mapping[str, str], version: object, method: str, params: Mapping[str, Any]
) -> None:
    if "mcp-protocol-version" not in headers or headers["mcp-protocol-version"] != version:
        raise _mismatch("mcp-protocol-version", "protocol version")
    if headers.get("mcp-method") != method:
        raise _mismatch("mcp-method", "method")
    parameter = NAME_PARAMETERS.get(method)
    if parameter is not None:
        name = params.get(parameter)
        if name is not None and _decoded(headers.get("mcp-name")) != name:
            raise _mismatch("mcp-name", f"parameter {parameter}")


def _mismatch(header: str, what: str) -> JsonRpcError:
    return JsonRpcError(HEADER_MISMATCH, f"the header {header} differs from the body's {what}")


def _decoded(value: str | None) -> str | None:
    """Return a header's text, which can be in Base64; None if that is malformed.

    Only the spelling of an encoder is accepted; otherwise two readers of the header could see two
    names.
    """
    encoded = None if value is None else _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        data = b64decode(encoded[1], validate=True)
        return data.decode() if b64encode(data).decode() == encoded[1] else None
    except (binascii.Error, ValueError):
        return None
