"""MCP sessions over a message transport: the connector's WebSocket, stdio, legacy HTTP+SSE.

Messages are parsed JSON. The first request decides the era: ``initialize`` begins a session of the
older eras; requests of the newer era are independent of each other.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import InternalError, InvalidRequest, ProxyError
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.http.request_headers import new_trace_id
from mcp_tools_proxy.mcp.server.handshake_session import (
    CANCELLED,
    INITIALIZE,
    INITIALIZED,
    Declared,
    HandshakeSession,
    RequestCancelled,
    initialize_result,
)
from mcp_tools_proxy.mcp.server.request import facts_of
from mcp_tools_proxy.mcp.server.results import (
    Json,
    error_response,
    refused_request,
    result_response,
)
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.mcp.server.stateless import handle_stateless, parse_stateless
from mcp_tools_proxy.mcp.server.subscriptions import LISTEN
from mcp_tools_proxy.wire.json_rpc import (
    JsonRpcError,
    RequestId,
    SendMessage,
    check_message,
    refusable_id,
    request_id_of,
)
from mcp_tools_proxy.wire.mcp_protocol import (
    INVALID_REQUEST,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)

MAX_OPEN_REQUESTS = 64
"""Pending requests of a session; further ones are refused."""

log = structlog.get_logger()


class _PendingRequest(NamedTuple):
    id: RequestId
    method: str
    task: asyncio.Task[None]


class MessageSession:
    """A session of either era: ``receive`` accepts client messages, ``send`` sends ours.

    Messages are processed in order; at most ``max_open_requests`` requests run concurrently, and
    each is answered when it finishes.
    """

    def __init__(
        self,
        server: GatewayMcpServer,
        caller: Caller,
        send: SendMessage,
        tasks: asyncio.TaskGroup,
        *,
        max_open_requests: float = MAX_OPEN_REQUESTS,
        options: ListOptions = SERVER_NAMES,
    ) -> None:
        """Create a session; ``tasks`` runs its requests, ``options`` applies to its lists."""
        self._server = server
        self._caller = caller
        self._send = send
        self._tasks = tasks
        self._max_open_requests = max_open_requests
        self._options = options
        self._is_modern: bool | None = None
        self._handshake: HandshakeSession | None = None
        self._open: dict[str, _PendingRequest] = {}
        self._answered = asyncio.Event()
        self._answered.set()
        self._closed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<MessageSession {len(self._open)} open requests>"

    @property
    def open_requests(self) -> int:
        """Number of pending requests, including ``subscriptions/listen``."""
        return len(self._open)

    @property
    def active_calls(self) -> int:
        """Number of pending requests, excluding ``subscriptions/listen``."""
        return sum(request.method != LISTEN for request in self._open.values())

    async def wait_until_answered(self) -> None:
        """Wait until no request is pending. Cancelled requests get no response and do not count."""
        await self._answered.wait()

    async def run(self) -> None:
        """Serve until closed."""
        try:
            await self._closed.wait()
        finally:
            self.close()

    async def refuse_pending(self, error: ProxyError) -> None:
        """Cancel the pending requests, and answer each with this error."""
        while self._open:
            id_, request = next(iter(self._open.items()))
            request.task.cancel()
            self._close_request(id_)
            await self._send(refused_request(request.id, error))

    def close(self) -> None:
        """Close at once: pending requests are cancelled and get no response."""
        self._closed.set()
        if self._handshake is not None:
            self._handshake.end()
        for request in self._open.values():
            request.task.cancel()
        self._open.clear()
        self._answered.set()

    async def receive(self, content: object, caller: Caller | None = None) -> None:
        """Receive a message of the client.

        ``caller`` is the sender, if known for each message: the session's caller, but perhaps with
        other documents.

        A refused request is answered with a JSON-RPC error. Raises InvalidRequest for a message
        that cannot be answered: it is not JSON-RPC, or has the id of a pending request, so that an
        error would look like the response to that request.
        """
        id_ = refusable_id(content)
        if id_ is not None:
            self.check_id(id_)
        try:
            message = check_message(content)
            if request_id_of(message) is None:
                self._receive_other(message)
            else:
                self._receive_request(message["id"], message, caller or self._caller)
        except ProxyError as error:
            if id_ is None:
                raise
            await self._send(refused_request(id_, error))

    def check_id(self, id_: RequestId) -> None:
        """Raise InvalidRequest if the id belongs to a pending request."""
        if str(id_) in self._open:
            raise InvalidRequest("a request with this id is still in progress; use another id")

    def _receive_request(self, id_: RequestId, content: Json, caller: Caller) -> None:
        if len(self._open) >= self._max_open_requests:
            raise CapacityExceeded(
                f"{self._max_open_requests} requests are not answered yet, which is the limit; "
                "wait for an answer before you send more"
            )
        if self._is_modern is None:
            self._is_modern = _opens_modern(content)
        response = None
        if content["method"] == INITIALIZE and not self._is_modern:
            # at once: a client can send its next request before the response
            response = self._initialize(id_, content.get("params") or {}, caller)
        task = self._tasks.create_task(self._respond(id_, content, caller, response))
        self._open[str(id_)] = _PendingRequest(id_, content["method"], task)
        self._answered.clear()

    def _receive_other(self, message: Json) -> None:
        match message:
            case {"method": str(method), "params": {"requestId": int() | str() as id_}} if (
                method == CANCELLED
            ):
                if request := self._open.get(str(id_)):
                    request.task.cancel()
                    self._close_request(id_)
            case {"method": str(method)} if method == INITIALIZED and self._handshake is not None:
                self._tasks.create_task(self._subscribe_to_lists(self._handshake))
            case _ if self._handshake is not None:
                self._handshake.receive(message)

    async def _subscribe_to_lists(self, handshake: HandshakeSession) -> None:
        versions = await self._server.list_changes.snapshot_or_empty(self._caller, self._options)
        if not self._closed.is_set():
            handshake.subscriptions.subscribe_to_lists(self._caller, versions)

    def _initialize(self, id_: RequestId, params: Mapping[str, Any], caller: Caller) -> Json:
        try:
            declared = Declared.read(params)
        except JsonRpcError as error:
            return error_response(id_, error)
        if self._handshake is not None:
            self._handshake.end()
        self._handshake = HandshakeSession(self._server, declared, self._send)
        return result_response(id_, initialize_result(self._server, declared, caller))

    async def _respond(
        self, id_: RequestId, content: Json, caller: Caller, response: Json | None
    ) -> None:

        async def send_before_response(message: Mapping[str, object]) -> None:
            if response is None:  # MCP forbids notifications after the response
                await self._send(message)

        try:
            if response is None:
                answer = self._answer_modern if self._is_modern else self._answer_in_session
                response = await answer(id_, content, caller, send_before_response)
            await self._send(response)
        except RequestCancelled:
            pass
        except Exception:
            log.exception("facade.answer_crashed", method=content["method"])
            with suppress(Exception):
                await self._send(refused_request(id_, InternalError()))
        self._close_request(id_)

    async def _answer_modern(
        self, id_: RequestId, content: Json, caller: Caller, send: SendMessage
    ) -> Json:
        try:
            if content["method"] == INITIALIZE:
                raise _initialize_refused(content.get("params"))
            request = parse_stateless(content)
        except JsonRpcError as error:
            self._record_refusal(error, content)
            return error_response(id_, error)
        return await handle_stateless(
            self._server, request, caller, send=send, options=self._options
        )

    async def _answer_in_session(
        self, id_: RequestId, content: Json, caller: Caller, send: SendMessage
    ) -> Json:
        if self._handshake is not None:
            return await self._handshake.answer(content, caller, send, options=self._options)
        if content["method"] == "ping":
            return result_response(id_, {})
        error = JsonRpcError(INVALID_REQUEST, "the session has not begun; send initialize first")
        self._record_refusal(error, content)
        return error_response(id_, error)

    def _record_refusal(self, error: JsonRpcError, content: Json) -> None:
        facts = facts_of(content["method"], new_trace_id())
        self._server.record_refusal(self._caller, error, facts)

    def _close_request(self, id_: RequestId) -> None:
        self._open.pop(str(id_), None)
        if not self._open:
            self._answered.set()


class MessageSessions:
    """Opens sessions with a server, and owns their tasks."""

    def __init__(self, server: GatewayMcpServer, caller: Caller) -> None:
        """Create an empty collection; every session is served for ``caller``."""
        self._server = server
        self._caller = caller
        self._tasks: asyncio.TaskGroup | None = None

    def open(self, send: SendMessage) -> MessageSession:
        """Open a session that sends its messages with ``send``; only while ``run`` runs."""
        if self._tasks is None:
            raise RuntimeError("sessions can be opened only while run() runs")
        return MessageSession(self._server, self._caller, send, self._tasks)

    def end_streams(self) -> None:
        """End every ``subscriptions/listen`` stream with its result instead of cancelling it."""
        self._server.listen_streams.close()

    async def run(self) -> None:
        """Send change notifications until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._server.run_notifications()
        finally:
            self._tasks = None


def _opens_modern(content: Mapping[str, Any]) -> bool:
    """Return whether a connection that begins with this request is of the newer era.

    That is the case if its ``_meta`` names a version, except for ``initialize``, which that era
    lacks.
    """
    match content:
        case {"params": {"_meta": dict(meta)}}:
            return PROTOCOL_VERSION_META_KEY in meta and content["method"] != INITIALIZE
    return False


def _initialize_refused(params: Mapping[str, Any] | None) -> JsonRpcError:
    data: Json = {"supported": list(MODERN_VERSIONS)}
    if isinstance(requested := (params or {}).get("protocolVersion"), str):
        data["requested"] = requested
    return JsonRpcError(
        UNSUPPORTED_PROTOCOL_VERSION,
        "this connection speaks protocol version 2026-07-28, which has no initialize; send "
        "requests without it",
        data,
    )
