"""Stateless requests of MCP 2026-07-28: each carries all that it needs, so no session is kept.

Most requests are stateless, and are answered here on any transport. Any request that is not clearly
one of our methods is left to the SDK, which has the other methods and every protocol error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp import MCPError
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request
from mcp.types import RequestId
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.mcp_server.clients import EnvelopeClient, SendMessage
from mcp_tools_proxy.mcp_server.request import NO_HEADERS, McpRequest
from mcp_tools_proxy.mcp_server.results import Json
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer


@dataclass(frozen=True, slots=True)
class StatelessRequest:
    """A request with a valid ``_meta`` envelope; ``declared`` are its client's raw capabilities."""

    id: RequestId
    method: str
    params: Mapping[str, Any]
    declared: object


def parse_stateless(
    content: object,
    has_method: Callable[[str], bool],
    headers: Mapping[str, str] | None = None,
) -> StatelessRequest | None:
    """Parse JSON as a stateless request of a method that ``has_method`` accepts, else return None.

    ``headers`` are the HTTP headers, names in lower case; they have to agree with the body.
    """
    if not isinstance(content, dict) or isinstance(content.get("id"), bool):
        return None
    match content:
        case {
            "jsonrpc": "2.0",
            "id": int() | str() as id_,
            "method": str(method),
            "params": dict(params),
        } if has_method(method):
            route = classify_inbound_request(content, headers=headers)
            if isinstance(route, InboundModernRoute):
                return StatelessRequest(id_, method, params, route.client_capabilities)
    return None


async def handle_stateless(
    server: GatewayMcpServer,
    request: StatelessRequest,
    caller: Caller,
    *,
    send: SendMessage | None = None,
    headers: Headers = NO_HEADERS,
) -> Json:
    """Return the JSON-RPC response to a request: errors of ours are in it, none is raised.

    ``send`` sends notifications before it; with None they are dropped.
    """
    client_of = partial(EnvelopeClient, request.declared, send)
    mcp_request = McpRequest.of(
        request.method, request.params, caller, client_of, modern=True, headers=headers
    )
    try:
        return {"jsonrpc": "2.0", "id": request.id, "result": await server.handle(mcp_request)}
    except MCPError as error:
        error_object = error.error.model_dump(mode="json", exclude_none=True)
        return {"jsonrpc": "2.0", "id": request.id, "error": error_object}
