"""Plain requests that are POSTs: one JSON body is the whole answer."""

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
"""How the headers begin that mirror arguments."""

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
    """Answer a POST whose body is ``content`` if that is plain; tell whether it was.

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
    """Take a POST as a plain request, None for any other: one whose call mirrors arguments, say.

    Who sends it is in ``CURRENT_CALLER``, for what depends on the tools that they see.
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
    """Give what a plain request says in its headers; None where there is more to look at."""
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
    """Return whether a request that says so of what it accepts takes JSON."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    return not kinds.isdisjoint(("*/*", "application/*", "application/json"))
