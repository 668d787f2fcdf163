"""Plain requests of MCP 2026-07-28: each says all that it needs, so nothing has to be kept for it.

They are most of what is asked, and are answered here on any transport. What is not plainly one of
ours goes the SDK's way: it serves all the rest, and knows every refusal.
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
from mcp_tools_proxy.mcp_server.clients import EnvelopeClient, Tell
from mcp_tools_proxy.mcp_server.request import NO_HEADERS, McpRequest
from mcp_tools_proxy.mcp_server.results import Json
from mcp_tools_proxy.mcp_server.server import FacadeServer


@dataclass(frozen=True, slots=True)
class StatelessRequest:
    """A request whose envelope is as it should be; ``declared`` is what its client is capable of,
    as it came."""

    id: RequestId
    method: str
    params: Mapping[str, Any]
    declared: object


def parse_stateless(
    content: object,
    answers: Callable[[str], bool],
    headers: Mapping[str, str] | None = None,
) -> StatelessRequest | None:
    """Take parsed JSON as a plain request of a method that ``answers`` knows, None for any other.

    ``headers`` are those of HTTP, which have to agree with it, by their names in lower case.
    """
    if not isinstance(content, dict) or isinstance(content.get("id"), bool):
        return None
    match content:
        case {
            "jsonrpc": "2.0",
            "id": int() | str() as id_,
            "method": str(method),
            "params": dict(params),
        } if answers(method):
            route = classify_inbound_request(content, headers=headers)
            if isinstance(route, InboundModernRoute):
                return StatelessRequest(id_, method, params, route.client_capabilities)
    return None


async def handle_stateless(
    server: FacadeServer,
    request: StatelessRequest,
    caller: Caller,
    *,
    tell: Tell | None = None,
    headers: Headers = NO_HEADERS,
) -> Json:
    """Give the message that answers a plain request; ``tell`` sends what is said before it."""
    client_of = partial(EnvelopeClient, request.declared, tell)
    asked = McpRequest.of(
        request.method, request.params, caller, client_of, modern=True, headers=headers
    )
    try:
        return {"jsonrpc": "2.0", "id": request.id, "result": await server.answer(asked)}
    except MCPError as error:
        told = error.error.model_dump(mode="json", exclude_none=True)
        return {"jsonrpc": "2.0", "id": request.id, "error": told}
