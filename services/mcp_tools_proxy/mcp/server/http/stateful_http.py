"""Streamable HTTP of the older eras: requests belong to sessions.

Any replica with the key can read a session id (session_ids.py). Open streams and settings of a
session are in the process that received the request.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from starlette.types import Send

from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.list_options import SERVER_NAMES
from mcp_tools_proxy.http.body import BodyLimits, parse_body, read_body
from mcp_tools_proxy.http.request_headers import trace_id_from
from mcp_tools_proxy.http.request_refusals import route_of
from mcp_tools_proxy.mcp.server.handshake_session import (
    INITIALIZE,
    Declared,
    RequestCancelled,
    initialize_result,
)
from mcp_tools_proxy.mcp.server.http.event_streams import (
    EventStream,
    Header,
    OpenStreams,
    send_event,
    send_json,
)
from mcp_tools_proxy.mcp.server.http.http_request import HttpRequest, accepts_json
from mcp_tools_proxy.mcp.server.http.live_sessions import FIRST_STREAM_S, LiveSession, LiveSessions
from mcp_tools_proxy.mcp.server.http.session_ids import (
    SessionClaims,
    SessionIds,
)
from mcp_tools_proxy.mcp.server.http.session_records import SessionRecord, SessionRecords
from mcp_tools_proxy.mcp.server.results import (
    Json,
    error_response,
    refused_request,
    result_response,
)
from mcp_tools_proxy.mcp.server.server import LIST_METHODS, GatewayMcpServer
from mcp_tools_proxy.telemetry.request_events import RequestFacts
from mcp_tools_proxy.wire.json_rpc import (
    JsonRpcError,
    SendMessage,
    check_message,
    refusable_id,
    request_id_of,
)
from mcp_tools_proxy.wire.mcp_protocol import INVALID_REQUEST

SESSION_HEADER = b"mcp-session-id"

PRIMING_VERSION = "2025-11-25"
"""The first version whose clients understand an event with an id and no data."""

BATCH_VERSION = "2025-03-26"
"""The only MCP version with batches."""

_NO_BATCH = (
    f"a batch is received in a session of protocol version {BATCH_VERSION} only; "
    "send one JSON-RPC message at a time"
)

REQUEST_CANCELLED = -32800
"""Error code for a request that its client has cancelled, as every request needs a response here.

From the Language Server Protocol, and used by MCP's SDKs.
"""

_SETTING = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


class _RefusedRequest(Exception):
    """A request that belongs to no session."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class StatefulHttp:
    """Serves the sessions of the older eras."""

    def __init__(
        self,
        server: GatewayMcpServer,
        streams: OpenStreams,
        live: LiveSessions,
        *,
        ids: SessionIds,
        records: SessionRecords,
        limits: BodyLimits,
        max_batch_calls: int,
    ) -> None:
        self._server = server
        self._streams = streams
        self._live = live
        self._ids = ids
        self._records = records
        self._limits = limits
        self._max_batch_calls = max_batch_calls

    async def serve(self, request: HttpRequest) -> None:
        """Serve an HTTP request. Raises ProxyError, ClientDisconnect."""
        try:
            match request.method:
                case "POST":
                    await self._post(request)
                case "GET":
                    await self._get(request)
                case "DELETE":
                    await self._delete(request)
                case _:
                    await request.refuse_method("GET", "POST", "DELETE")
        except _RefusedRequest as refusal:
            error = self._refuse(request, refusal.message)
            await send_json(error_response(None, error), request.send, status=refusal.status)

    async def _post(self, request: HttpRequest) -> None:
        body = await read_body(request.receive, self._limits.max_bytes)
        content = await parse_body(body, self._limits)
        if isinstance(content, list):
            await self._receive_batch(request, content)
            return
        message = check_message(content)
        _check_media_types(request)
        if request_id_of(message) is None:
            claims, record = await self._session_of(request)
            with self._live.use(claims, record, request.caller) as live:
                await self._live.receive(live, message)
            await _send_empty(request.send, status=202)
        elif message["method"] == INITIALIZE:
            await self._initialize(request, message)
        else:
            claims, record = await self._session_of(request)
            with self._live.use(claims, record, request.caller) as live:
                live.handshake.check_id(message["id"])
                if message["method"] in _SETTING:
                    await self._answer_setting(live, request, message)
                else:
                    await self._answer(live, request, message)

    async def _receive_batch(self, request: HttpRequest, batch: list[Any]) -> None:
        """Serve the messages of a batch, each as if it had come alone.

        An invalid batch is refused before any message runs: an error for one of two requests with
        the same id would look like the response to the other.
        """
        if not request.first_headers.get(SESSION_HEADER):
            raise InvalidRequest(_NO_BATCH)
        claims, record = await self._session_of(request)
        if claims.declared.version != BATCH_VERSION:
            raise InvalidRequest(_NO_BATCH)
        if not 0 < len(batch) <= self._max_batch_calls:
            raise InvalidRequest(
                f"a batch has 1 to {self._max_batch_calls} messages, and {len(batch)} were sent"
            )
        _check_media_types(request)
        with self._live.use(claims, record, request.caller) as live:
            _check_requests(batch, live)
            await self._answer_batch(live, request, batch)

    async def _answer_batch(
        self, live: LiveSession, request: HttpRequest, batch: list[Any]
    ) -> None:
        stream = EventStream(request.send)
        notify = stream.notify if request.accepts_events else None
        answers: list[Json | asyncio.Task[Json]] = []
        pings = stream.pings() if request.accepts_events else nullcontext()
        with pings:
            async with asyncio.TaskGroup() as tasks:
                for content in batch:
                    try:
                        message = check_message(content)
                    except InvalidRequest as invalid:
                        error = self._refuse(request, invalid.message)
                        answers.append(error_response(refusable_id(content), error))
                        continue
                    if request_id_of(message) is None:
                        await self._live.receive(live, message)
                    else:
                        part = self._answer_part(live, request, message, notify)
                        answers.append(tasks.create_task(part))
        responses = [it.result() if isinstance(it, asyncio.Task) else it for it in answers]
        if responses:
            await stream.complete_batch(responses)
        else:
            await _send_empty(request.send, status=202)

    async def _answer_part(
        self, live: LiveSession, request: HttpRequest, message: Json, notify: SendMessage | None
    ) -> Json:
        try:
            if message["method"] in _SETTING:
                return await self._set(live, request, message)
            return await _response_to(live, request, message, notify)
        except ProxyError as error:
            return refused_request(message["id"], error)

    def _refuse(self, request: HttpRequest, message: str) -> JsonRpcError:
        error = JsonRpcError(INVALID_REQUEST, message)
        facts = RequestFacts(route_of(request.scope), trace_id_from(None, request.headers))
        self._server.record_refusal(request.caller, error, facts)
        return error

    async def _initialize(self, request: HttpRequest, message: Json) -> None:
        """Begin a session; an existing session of the client is not affected."""
        try:
            declared = Declared.read(message.get("params") or {})
        except JsonRpcError as error:
            await _respond(request, error_response(message["id"], error))
            return
        caller, options = request.caller, request.options
        versions = await self._server.list_changes.snapshot_or_empty(caller, options)
        session_id, name = self._ids.create(
            declared, caller, request.path, versions.digest, options
        )
        self._records.begin(name, declared.client_name)
        result = initialize_result(self._server, declared, caller)
        response = result_response(message["id"], result)
        await _respond(request, response, [(SESSION_HEADER, session_id)])

    async def _answer(self, live: LiveSession, request: HttpRequest, message: Json) -> None:
        if message["method"] in LIST_METHODS:
            # one body: the Python SDK 2.x refuses an event of over 1 MiB
            await send_json(await _response_to(live, request, message), request.send, status=200)
            return
        if not request.accepts_events:
            await _respond(request, await _response_to(live, request, message))
            return
        stream = EventStream(request.send, send_event)
        with stream.pings():
            response = await _response_to(live, request, message, stream.notify)
        await stream.complete(response)

    async def _answer_setting(self, live: LiveSession, request: HttpRequest, message: Json) -> None:
        await _respond(request, await self._set(live, request, message))

    async def _set(self, live: LiveSession, request: HttpRequest, message: Json) -> Json:
        if message["method"] != "resources/unsubscribe":
            self._live.make_space_for(live)
        response = await _response_to(live, request, message)
        if "result" in response:
            await self._live.share(live, message)
        return response

    async def _get(self, request: HttpRequest) -> None:
        if not request.accepts_events:
            raise _RefusedRequest(406, "Not Acceptable: Client must accept text/event-stream")
        (claims, record), caller = await self._session_of(request), request.caller
        with self._live.use(claims, record, caller) as live:
            if live.stream is not None:
                raise _RefusedRequest(409, "Conflict: Only one SSE stream is allowed per session")
            self._streams.check_capacity(caller.tenant_id)
            self._live.make_space_for(live, opens_stream=True)
            lists = self._server.list_changes
            serve = partial(
                live.serve_stream,
                lists,
                request.options,
                request.receive,
                seen=_lists_seen(claims, request),
                primed=claims.declared.version >= PRIMING_VERSION,
                is_alone=self._records.is_alone,
            )
            await self._streams.serve(serve, request, session_tenant=caller.tenant_id)

    async def _delete(self, request: HttpRequest) -> None:
        claims, _ = await self._session_of(request)
        await self._live.end(claims.name)
        await _send_empty(request.send, status=204)

    async def _session_of(self, request: HttpRequest) -> tuple[SessionClaims, SessionRecord]:
        """Return the contents of a session id and the session's record. Raises _RefusedRequest.

        The request gets the session's list options. With other options, or at another path, the
        session is unknown.
        """
        session_id = request.first_headers.get(SESSION_HEADER)
        if not session_id:
            raise _RefusedRequest(400, "Bad Request: Missing session ID")
        claims = self._ids.read(session_id.strip(b" \t"), request.caller, request.path)
        if claims is not None and claims.options != SERVER_NAMES:
            options = request.options.in_session(claims.options)
            if not request.options.agree_with(options):
                raise _RefusedRequest(404, "Session not found")
            request.options = options
        record = None if claims is None else await self._records.use(claims)
        if claims is None or record is None:
            raise _RefusedRequest(404, "Session not found")
        return claims, record


def _check_media_types(request: HttpRequest) -> None:
    """Raise _RefusedRequest for a POST that is not JSON or does not accept JSON."""
    content_type = request.first_headers.get(b"content-type", b"").strip(b" \t").lower()
    if not content_type.startswith(b"application/json"):
        raise _RefusedRequest(400, "Invalid Content-Type header")
    if not accepts_json(request.accept):
        raise _RefusedRequest(406, "Not Acceptable: Client must accept application/json")


async def _respond(request: HttpRequest, response: Json, headers: Sequence[Header] = ()) -> None:
    if request.accepts_events:
        await send_event(response, request.send, headers=headers)
    else:
        await send_json(response, request.send, status=200, headers=headers)


async def _response_to(
    live: LiveSession, request: HttpRequest, message: Json, send: SendMessage | None = None
) -> Json:
    headers, options = request.headers, request.options
    try:
        return await live.handshake.answer(
            message, request.caller, send, headers=headers, options=options
        )
    except RequestCancelled:
        return error_response(message["id"], JsonRpcError(REQUEST_CANCELLED, "Request cancelled"))


def _check_requests(batch: list[Any], live: LiveSession) -> None:
    seen: set[str] = set()
    for content in batch:
        id_ = refusable_id(content)
        if id_ is None:
            continue
        if content["method"] == INITIALIZE:
            raise InvalidRequest("initialize cannot be a part of a batch; send it alone")
        if str(id_) in seen:
            raise InvalidRequest("two requests of the batch have the same id; give each its own")
        seen.add(str(id_))
        live.handshake.check_id(id_)


def _lists_seen(claims: SessionClaims, request: HttpRequest) -> str | None:
    """Return the digest of the lists that the client knows; None if unknown."""
    last_event = request.first_headers.get(b"last-event-id")
    if last_event is not None:
        return last_event.decode("latin-1")
    return claims.lists.hex() if claims.age_s < FIRST_STREAM_S else None


async def _send_empty(send: Send, *, status: int) -> None:
    headers = [] if status == 204 else [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
