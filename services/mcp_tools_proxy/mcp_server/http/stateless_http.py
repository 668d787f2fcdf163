"""Stateless requests over HTTP: a POST whose response is one JSON body.

This is the fast path of most MCP traffic: it skips the SDK's session manager and models.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.mcp_server.results import Json
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.mcp_server.stateless import StatelessRequest, handle_stateless, parse_stateless
from mcp_tools_proxy.web.disconnect import cancel_on_disconnect

MIRRORED = b"mcp-param-"
"""Prefix of header parameters, see header_parameters.py."""

_ROUTING = {
    name.encode(): name
    for name in ("accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name")
}


async def answer_stateless_post(
    server: GatewayMcpServer,
    caller: Caller,
    content: object,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> bool:
    """Answer a POST whose body is ``content`` if that is a stateless request; return whether it
    was.

    Raises ClientDisconnect.
    """
    request = _stateless_post(server, content, scope["headers"])
    if request is None:
        return False
    answering = handle_stateless(server, request, caller, headers=Headers(scope=scope))
    await _send(await cancel_on_disconnect(receive, answering), send)
    return True


def _stateless_post(
    server: GatewayMcpServer, content: object, raw: Iterable[tuple[bytes, bytes]]
) -> StatelessRequest | None:
    """Parse a POST as a stateless request; None if the SDK has to serve it.

    That includes calls of tools with header parameters, whose headers the SDK checks; which tools
    have them depends on ``CURRENT_CALLER``.
    """
    headers = _routing_headers(raw)
    if headers is None:
        return None
    request = parse_stateless(content, server.has_method, headers)
    if request is not None and request.method == "tools/call":
        name = request.params.get("name")
        if isinstance(name, str) and server.has_header_parameters(name):
            return None
    return request


async def _send(message: Json, send: Send) -> None:
    status = (
        ERROR_CODE_HTTP_STATUS.get(message["error"]["code"], 200) if "error" in message else 200
    )
    body = to_json(message)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _routing_headers(raw: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str] | None:
    """Return the headers that route a stateless request; None if the SDK has to check them.

    That is so for repeated headers, header parameters, and other content types than JSON.
    """
    found: dict[str, str] = {}
    for key, value in raw:
        name = _ROUTING.get(key)
        if name is not None:
            if name in found:
                return None
            found[name] = value.strip(b" \t").decode("latin-1")
        elif key.startswith(MIRRORED):
            return None
    is_json = found.get("content-type", "").lower().startswith("application/json")
    return found if is_json and accepts_json(found.get("accept", "")) else None


@lru_cache(maxsize=256)
def accepts_json(accept: str) -> bool:
    """Return whether an ``Accept`` header allows JSON."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    return not kinds.isdisjoint(("*/*", "application/*", "application/json"))
