"""Streamable HTTP of MCP 2026-07-28: each message is one POST, without sessions.

The response is a JSON body, or an event stream if other messages can precede it, depending on the
method and ``_meta`` (see ``wants_stream``).
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.http.body import BodyLimits, cancel_on_disconnect, parse_body, read_body
from mcp_tools_proxy.http.request_headers import trace_id_from
from mcp_tools_proxy.mcp.server.http.event_streams import (
    EventStream,
    OpenStreams,
    send_json,
)
from mcp_tools_proxy.mcp.server.http.http_request import (
    HeaderParameters,
    HttpRequest,
    PostHeaders,
    accepts_events,
    accepts_json,
)
from mcp_tools_proxy.mcp.server.request import facts_of
from mcp_tools_proxy.mcp.server.results import Json, error_response
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.mcp.server.stateless import (
    StatelessRequest,
    check_version,
    handle_stateless,
    parse_stateless,
    wants_stream,
)
from mcp_tools_proxy.mcp.server.subscriptions import LISTEN
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, is_notification, request_id_of
from mcp_tools_proxy.wire.mcp_protocol import HEADER_MISMATCH, INVALID_REQUEST

BuildResponse = Callable[..., Awaitable[Json]]
"""Returns the response to a request; ``send``, if given, sends notifications before it."""


class StatelessHttp:
    """Answers the POSTs of MCP 2026-07-28."""

    def __init__(
        self,
        server: GatewayMcpServer,
        header_parameters: HeaderParameters,
        streams: OpenStreams,
        limits: BodyLimits,
    ) -> None:
        self._server = server
        self._header_parameters = header_parameters
        self._streams = streams
        self._limits = limits

    async def serve(self, request: HttpRequest) -> None:
        """Serve an HTTP request. Raises ProxyError for its body, ClientDisconnect."""
        if request.method != "POST":
            await request.refuse_method("POST")
            return
        caller, receive, send = request.caller, request.receive, request.send
        body = await read_body(receive, self._limits.max_bytes)
        content = await parse_body(body, self._limits)
        headers = PostHeaders.read(request.scope["headers"])
        as_events = wants_stream(content)
        refusal = _refuse_media_types(headers, as_events=as_events)
        if refusal is not None:
            await request.respond(refusal)
            return
        request_id = request_id_of(content)
        if request_id is None or not isinstance(content, dict):
            await _answer_no_request(content, headers, request)
            return
        try:
            parsed = self._parse(content, headers, caller)
        except JsonRpcError as error:
            facts = facts_of(content["method"], trace_id_from(None, request.headers))
            self._server.record_refusal(caller, error, facts)
            await send_json(error_response(request_id, error), send)
            return
        handle = partial(
            handle_stateless,
            self._server,
            parsed,
            caller,
            headers=request.headers,
            options=request.options,
        )
        if parsed.method == LISTEN:
            respond = partial(_respond_as_events, handle, receive)
            await self._streams.serve(respond, request, sends_last_message=True)
        elif as_events:
            await _respond_as_events(handle, receive, send)
        else:
            await send_json(await cancel_on_disconnect(receive, handle()), send)

    def _parse(self, content: Any, headers: PostHeaders, caller: Caller) -> StatelessRequest:
        if headers.repeated is not None:
            raise JsonRpcError(
                HEADER_MISMATCH,
                f"the {headers.repeated} header appears more than once; send it once",
            )
        request = parse_stateless(content, headers.values)
        self._header_parameters.check(request, caller, headers.parameters)
        return request


async def _respond_as_events(handle: BuildResponse, receive: Receive, send: Send) -> None:
    stream = EventStream(send)

    async def respond() -> None:
        with stream.pings():
            response = await handle(send=stream.notify)
        await stream.complete(response)

    await cancel_on_disconnect(receive, respond())


def _refuse_media_types(headers: PostHeaders, *, as_events: bool) -> Response | None:
    content_type = headers.values.get("content-type", "")
    accept = headers.values.get("accept", "")
    if not content_type.lower().startswith("application/json"):
        return Response("Invalid Content-Type header", status_code=400)
    if not accepts_json(accept) or (as_events and not accepts_events(accept)):
        return Response(status_code=406)
    return None


async def _answer_no_request(content: object, headers: PostHeaders, request: HttpRequest) -> None:
    """Answer a POST other than a request; notifications are ignored in this era."""
    try:
        _check_notification(content, headers.values.get("mcp-protocol-version", ""))
    except JsonRpcError as error:
        await send_json(error_response(None, error), request.send)
    else:
        await request.respond(Response(status_code=202))


def _check_notification(content: object, version: str) -> None:
    if not is_notification(content):
        text = "Body must be a single JSON-RPC request or notification object"
        raise JsonRpcError(INVALID_REQUEST, text)
    check_version(version)
