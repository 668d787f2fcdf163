"""Requests of MCP 2026-07-28: each carries all that it needs, so no session is kept.

Over HTTP and by the connector they are all answered here.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import InternalError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.mcp_server.clients import StatelessClient, client_name_of
from mcp_tools_proxy.mcp_server.modern_envelope import check_meta, read_envelope
from mcp_tools_proxy.mcp_server.request import NO_HEADERS, McpRequest
from mcp_tools_proxy.mcp_server.results import Json, error_response, protocol_error, result_response
from mcp_tools_proxy.mcp_server.server import DISCOVER, GatewayMcpServer
from mcp_tools_proxy.mcp_server.subscriptions.listen_streams import LISTEN, SubscriptionFilter
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
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
        """What its client calls itself."""
        return client_name_of(self.params["_meta"].get(CLIENT_INFO_META_KEY))


def wants_stream(content: object) -> bool:
    """Return whether messages may come before the result of a request.

    They may for LISTEN, and where ``_meta`` wants progress or log messages. The response has to be
    an event stream then, not one JSON body.
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
    """Parse a JSON-RPC request, one with a ``request_id_of``. Raises JsonRpcError for its envelope.

    ``headers`` are the HTTP headers, names in lower case; they have to agree with the body.
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
    """Return the JSON-RPC response to a request: errors are in it, none is raised.

    ``send`` sends notifications before it; with None they are dropped. ``options`` is how
    lists are written.
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
    """Return the result of a method of the protocol itself. Raises JsonRpcError."""
    check_meta(request.params["_meta"])
    mcp_request = mcp_request.narrowed()
    if request.method == DISCOVER:
        return server.discover(mcp_request.caller)
    if request.method == LISTEN and send is not None:
        wanted = SubscriptionFilter.read(request.params.get("notifications"))
        return await server.listen(mcp_request, request.id, wanted, send)
    raise JsonRpcError(METHOD_NOT_FOUND, "Method not found", request.method)
