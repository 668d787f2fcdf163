"""MCP sessions over any carrier of messages (the connector's WebSocket): parsed JSON in and out.

The first request decides the era. Those of the newer era are handled here, since they need no
session; the older eras are left to the SDK, which gets and sends messages by in-memory streams.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
import structlog
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import InternalError, InvalidRequest, ProxyError
from mcp_tools_proxy.mcp_server.http.session_manager import parse_message
from mcp_tools_proxy.mcp_server.results import Json, refused_request
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.mcp_server.stateless import (
    INITIALIZE,
    error_response,
    handle_stateless,
    parse_stateless,
)
from mcp_tools_proxy.mcp_server.subscriptions.listen_streams import LISTEN
from mcp_tools_proxy.wire.json_rpc import SendMessage, refusable_id, request_id_of

MAX_OPEN_REQUESTS = 64
"""Pending requests of one session; one more is refused."""

MAX_QUEUED_MESSAGES = 256
"""Messages of one session that the SDK has not read yet; one more is refused."""

log = structlog.get_logger()


class MessageSession:
    """One session, of either era: ``receive`` gets the client's messages, ``send`` sends ours.

    Messages are processed in order, while requests run at the same time and are answered as they
    finish, at most ``MAX_OPEN_REQUESTS`` at once.
    """

    def __init__(
        self, server: GatewayMcpServer, caller: Caller, send: SendMessage, tasks: asyncio.TaskGroup
    ) -> None:
        """Create a session; ``tasks`` runs the requests of the newer era."""
        self._server = server
        self._caller = caller
        self._send = send
        self._tasks = tasks
        self._stateless: dict[str, asyncio.Task[None]] = {}
        """Running requests of the newer era, by id."""
        self._is_modern: bool | None = None
        """The era, fixed by the first request; None before it."""
        self._open: dict[str, str] = {}
        """Methods of the pending requests, by id."""
        self._to_sdk, self._from_client = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](MAX_QUEUED_MESSAGES)
        self._needs_sdk = asyncio.Event()
        self._answered = asyncio.Event()
        self._answered.set()
        self._sdk_output = _SdkOutput(self._send_item)
        self._running = anyio.CancelScope()

    def __repr__(self) -> str:
        return f"<MessageSession {len(self._open)} open requests>"

    @property
    def open_requests(self) -> int:
        """Number of pending requests, ``subscriptions/listen`` included."""
        return len(self._open)

    @property
    def has_active_calls(self) -> bool:
        """Whether any pending request is other than ``subscriptions/listen``."""
        return any(method != LISTEN for method in self._open.values())

    async def wait_until_answered(self) -> None:
        """Wait until no request is pending. Cancelled requests get no response and do not count."""
        await self._answered.wait()

    async def run(self) -> None:
        """Serve until closed."""
        try:
            with self._running:
                await self._needs_sdk.wait()
                await self._server.run(self._from_client, self._sdk_output, self._server.options)
        finally:
            self.close()

    def close(self) -> None:
        """Close at once: pending requests are cancelled and get no response."""
        self._sdk_output.closed = True
        self._to_sdk.close()
        self._from_client.close()
        self._running.cancel()
        for task in self._stateless.values():
            task.cancel()
        self._open.clear()
        self._answered.set()

    async def receive(self, content: object) -> None:
        """Receive one message of the client.

        A request that is refused is answered with a JSON-RPC error. Raises InvalidRequest for a
        message that cannot be answered: it is no JSON-RPC, or has the id of a pending request, so
        that an error would pass for that request's response.
        """
        id_ = refusable_id(content)
        if id_ is not None and str(id_) in self._open:
            raise InvalidRequest("a request with this id is not answered yet")
        try:
            self._dispatch(content)
        except ProxyError as error:
            if id_ is None:
                raise
            await self._refuse(id_, error)

    def _dispatch(self, content: object) -> None:
        if not isinstance(content, dict) or (id_ := request_id_of(content)) is None:
            self._dispatch_other(parse_message(content))
            return
        self._check_capacity()
        if self._is_modern is None:
            self._is_modern = _opens_modern(content)
        if self._is_modern:
            self._stateless[str(id_)] = self._tasks.create_task(self._answer(id_, content))
        else:
            message = parse_message(content)
            self._forward_to_sdk(message)
            if not isinstance(message, JSONRPCRequest):  # it has an error beside its method
                return
        self._open[str(id_)] = content["method"]
        self._answered.clear()

    def _dispatch_other(self, message: JSONRPCMessage) -> None:
        """Cancel a request, or forward what concerns sessions only."""
        match message:
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as id_}
            ):
                if task := self._stateless.pop(str(id_), None):
                    task.cancel()
                self._close_request(id_)
        if not self._is_modern:
            self._forward_to_sdk(message)

    def _check_capacity(self) -> None:
        if len(self._open) >= MAX_OPEN_REQUESTS:
            raise CapacityExceeded(f"{MAX_OPEN_REQUESTS} requests are open; wait for an answer")

    def _forward_to_sdk(self, message: JSONRPCMessage) -> None:
        """Queue a message for the SDK, which the first one starts. Raises CapacityExceeded."""
        self._needs_sdk.set()
        try:
            self._to_sdk.send_nowait(SessionMessage(message))
        except anyio.WouldBlock:
            raise CapacityExceeded(
                f"{MAX_QUEUED_MESSAGES} messages wait to be looked at; send fewer"
            ) from None

    async def _answer(self, id_: RequestId, content: Json) -> None:
        """Handle a request of the newer era and send its response; cancelled with the request."""
        answer: Json | None = None

        async def send_before_result(message: Mapping[str, object]) -> None:
            if answer is None:  # a notification after its response would break MCP
                await self._send(message)

        try:
            answer = await self._handle(id_, content, send_before_result)
            await self._send(answer)
        except Exception:
            log.exception("facade.answer_crashed", method=content["method"])
            with suppress(Exception):
                await self._refuse(id_, InternalError())
        if self._stateless.pop(str(id_), None):  # it was not closed meanwhile
            self._close_request(id_)

    async def _handle(self, id_: RequestId, content: Json, send: SendMessage) -> Json:
        """Return the response to a request of the newer era."""
        try:
            if content["method"] == INITIALIZE:
                raise _initialize_refused(content.get("params"))
            request = parse_stateless(content)
        except MCPError as error:
            return error_response(id_, error)
        return await handle_stateless(self._server, request, self._caller, send=send)

    async def _refuse(self, id_: RequestId, error: ProxyError) -> None:
        await self._send_item(SessionMessage(refused_request(id_, error)))

    async def _send_item(self, item: SessionMessage) -> None:
        message = item.message
        await self._send(_as_json(message))
        match message:
            case JSONRPCResponse(id=id_) | JSONRPCError(id=int() | str() as id_):
                self._close_request(id_)

    def _close_request(self, id_: RequestId) -> None:
        self._open.pop(str(id_), None)
        if not self._open:
            self._answered.set()


class MessageSessions:
    """Opens the sessions with one server, and owns the tasks that they share."""

    def __init__(self, server: GatewayMcpServer, caller: Caller) -> None:
        """Create an empty collection; every session is served for ``caller``."""
        self._server = server
        self._caller = caller
        self._tasks: asyncio.TaskGroup | None = None

    def open(self, send: SendMessage) -> MessageSession:
        """Open a session that sends its messages by ``send``; only while ``run`` runs."""
        if self._tasks is None:
            raise RuntimeError("sessions can be opened only while run() runs")
        return MessageSession(self._server, self._caller, send, self._tasks)

    def end_streams(self) -> None:
        """End every ``subscriptions/listen`` stream with its own result, not by cancelling it."""
        self._server.listen_streams.close()

    async def run(self) -> None:
        """Send change notifications until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._server.run_notifications()
        finally:
            self._tasks = None


class _SdkOutput:
    """The stream that the SDK writes to; once closed it sends nothing more."""

    def __init__(self, send_item: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._send_item = send_item
        self.closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self.closed:
            raise anyio.ClosedResourceError
        await self._send_item(item)

    async def aclose(self) -> None:
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def _opens_modern(content: Mapping[str, Any]) -> bool:
    """Return whether a connection that begins with this request is of the newer era.

    That is so if its ``_meta`` names a version, except for ``initialize``, which that era lacks.
    """
    match content:
        case {"params": {"_meta": dict(meta)}}:
            return PROTOCOL_VERSION_META_KEY in meta and content["method"] != INITIALIZE
    return False


def _initialize_refused(params: Mapping[str, Any] | None) -> MCPError:
    """Build the error for ``initialize`` on a connection of the newer era."""
    data: Json = {"supported": list(MODERN_PROTOCOL_VERSIONS)}
    if isinstance(requested := (params or {}).get("protocolVersion"), str):
        data["requested"] = requested
    return MCPError(
        UNSUPPORTED_PROTOCOL_VERSION,
        "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted",
        data,
    )


def _as_json(message: JSONRPCMessage) -> Json:
    """Convert a message to JSON; results are JSON already, so they skip pydantic."""
    if isinstance(message, JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    return message.model_dump(by_alias=True, mode="json", exclude_unset=True)
