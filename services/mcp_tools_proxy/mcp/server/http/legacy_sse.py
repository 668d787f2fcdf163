"""Legacy HTTP+SSE (2024-11-05): a GET stream for server messages, a POST per client message.

Served at ``/mcp/sse``, and at ``/mcp`` for clients of the original service. The stream's first
event is the address to post to, with a ``sessionId`` (F-02). The answer is 400 to a message without
an id, and 404 to one with an unknown id (F-03).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote
from uuid import UUID, uuid4

from starlette.responses import Response
from starlette.types import Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.domain.proxy_error import ProxyError, without_frames
from mcp_tools_proxy.gateway.worker_group import CHANGE_S, WorkerGroup
from mcp_tools_proxy.http.body import BodyLimits, disconnected, parse_body, read_body
from mcp_tools_proxy.http.list_query import query_of
from mcp_tools_proxy.mcp.server.http.event_streams import EventStream, event_frame
from mcp_tools_proxy.mcp.server.http.http_request import HttpRequest
from mcp_tools_proxy.mcp.server.message_session import MessageSession
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.wire.json_rpc import RequestId, check_message, request_id_of

MAX_UNREAD = 64
"""Unread messages of a session; at this limit its requests are refused."""

MAX_WAITING_BYTES = 1024 * 1024
"""Bytes that wait for a session; at this limit its requests are refused.

A response repeats its request's id, which can be as long as a body: 64 such responses took 400 MB.
"""

LEAST_BYTES = 1024
"""Minimum size counted for a message, so at most 1,024 requests, each with a task, can be open."""


class UnreadMessages:
    """Counts the waiting messages of a session and their bytes.

    The bytes of a request count from its POST until the client has read the response, so that
    concurrent requests are limited as well.
    """

    def __init__(self) -> None:
        self._unread = 0
        self._waiting_bytes = 0
        """Bytes of waiting messages and unanswered requests."""
        self._unanswered: dict[str, int] = {}
        """Bytes of the unanswered requests, by id."""

    def add_request(self, id_: RequestId, size_bytes: int) -> None:
        """Count a request that the client has posted. Raises CapacityExceeded."""
        if self._unread >= MAX_UNREAD:
            raise CapacityExceeded(
                f"{MAX_UNREAD} messages on the stream are not read yet, which is the limit; read "
                "them first"
            )
        if self._waiting_bytes >= MAX_WAITING_BYTES:
            raise CapacityExceeded(
                f"{self._waiting_bytes} bytes on the stream are not read yet, the limit is "
                f"{MAX_WAITING_BYTES}; read them first, and wait for answers before you send more"
            )
        self._unanswered[str(id_)] = max(size_bytes, LEAST_BYTES)
        self._waiting_bytes += max(size_bytes, LEAST_BYTES)

    def end_request(self, id_: object) -> int:
        """Stop counting an unanswered request; return its size in bytes, or 0 if it is unknown."""
        size_bytes = self._unanswered.pop(str(id_), 0)
        self._waiting_bytes -= size_bytes
        return size_bytes

    @contextmanager
    def sending(self, message: Mapping[str, object], size_bytes: int) -> Iterator[None]:
        """Count a message to the client while open; a response replaces its request."""
        if "method" not in message:
            size_bytes += self.end_request(message["id"])
        self._unread += 1
        self._waiting_bytes += size_bytes
        try:
            yield
        finally:
            self._unread -= 1
            self._waiting_bytes -= size_bytes


HAS_SESSION, MESSAGE = "has legacy session", "message of legacy session"
"""Questions to the other worker processes: a client posts to any of them."""


@dataclass(frozen=True, slots=True)
class _Address:
    """The session that a client names, and the client."""

    session_id: str
    caller: Caller
    options: ListOptions


@dataclass(frozen=True, slots=True)
class _SseSession:
    caller: Caller
    options: ListOptions
    messages: MessageSession
    unread: UnreadMessages

    def is_of(self, address: _Address) -> bool:
        return self.caller == address.caller and address.options.agree_with(self.options)


class LegacySse:
    """Serves each stream as a session.

    When ``on_shutdown`` returns, each stream ends as soon as its requests are answered. Messages
    for streams of other ``workers`` are passed to them.
    """

    def __init__(
        self,
        server: GatewayMcpServer,
        *,
        on_shutdown: Callable[[], Awaitable[None]],
        limits: BodyLimits,
        workers: WorkerGroup,
    ) -> None:
        self._server = server
        self._on_shutdown = on_shutdown
        self._limits = limits
        self._workers = workers
        self._sessions: dict[str, _SseSession] = {}
        workers.on(HAS_SESSION, lambda address: self._find(address) is not None)
        workers.on(MESSAGE, lambda passed: self._receive_passed(*passed))

    async def stream(self, request: HttpRequest, send: Send) -> None:
        """Serve a session while its stream is open."""
        caller, options = request.caller, request.options
        events, unread, session_id = EventStream(send), UnreadMessages(), uuid4().hex

        async def send_message(message: Mapping[str, object]) -> None:
            frame = event_frame(message)
            with unread.sending(message, len(frame)):
                await events.send_frame(frame)

        address = f"{quote(request.scope['path'])}?sessionId={session_id}"
        address += query_of(options)
        with events.pings():
            async with asyncio.TaskGroup() as tasks:
                # UnreadMessages limits the open requests
                session = MessageSession(
                    self._server,
                    caller,
                    send_message,
                    tasks,
                    max_open_requests=math.inf,
                    options=options,
                )
                self._sessions[session_id] = _SseSession(caller, options, session, unread)
                enders = [
                    tasks.create_task(end)
                    for end in (
                        disconnected(request.receive, session.close),
                        self._end_on_shutdown(session),
                    )
                ]
                try:
                    await events.send_frame(
                        b"event: endpoint\r\ndata: %b\r\n\r\n" % address.encode()
                    )
                    await session.run()
                finally:
                    del self._sessions[session_id]
                    for ender in enders:
                        ender.cancel()
        await events.end()

    async def has_session(self, request: HttpRequest) -> bool:
        """Return whether a message belongs to an open stream of its caller."""
        try:
            address = _address_in(request)
        except ValueError:
            return False
        if self._find(address) is not None:
            return True
        return any(await self._workers.ask(HAS_SESSION, address))

    async def post(self, request: HttpRequest) -> None:
        """Receive a message of a session; with another style of names, the session is unknown.

        Raises InvalidRequest for a body that is not JSON-RPC, CapacityExceeded if too much is
        waiting for the session.
        """
        body = await read_body(request.receive, self._limits.max_bytes)
        message = check_message(await parse_body(body, self._limits))
        try:
            address = _address_in(request)
        except ValueError as error:
            response = Response(str(error), status_code=400)
        else:
            is_known = await self._receive(address, message, len(body))
            is_known = is_known or await self._pass_on(address, message, len(body))
            response = Response("Accepted", status_code=202)
            if not is_known:
                response = Response("Could not find session", status_code=404)
        await request.respond(response)

    def _find(self, address: _Address) -> _SseSession | None:
        session = self._sessions.get(address.session_id)
        return session if session is not None and session.is_of(address) else None

    async def _receive(
        self, address: _Address, message: Mapping[str, object], size_bytes: int
    ) -> bool:
        """Receive a message of a session; return whether the session is open here."""
        session = self._find(address)
        if session is None:
            return False
        id_ = request_id_of(message)
        if id_ is not None:
            session.messages.check_id(id_)
            session.unread.add_request(id_, size_bytes)
        await session.messages.receive(message, address.caller)
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": cancelled}}:
                session.unread.end_request(cancelled)
        return True

    async def _pass_on(
        self, address: _Address, message: Mapping[str, object], size_bytes: int
    ) -> bool:
        """Have the worker with the stream receive a message; return whether there is one."""
        found = await self._workers.ask(MESSAGE, (address, message, size_bytes), CHANGE_S)
        for refusal in found:
            if isinstance(refusal, ProxyError):
                raise refusal
        return any(found)

    async def _receive_passed(
        self, address: _Address, message: Mapping[str, object], size_bytes: int
    ) -> bool | ProxyError:
        try:
            return await self._receive(address, message, size_bytes)
        except ProxyError as error:
            return without_frames(error)

    async def _end_on_shutdown(self, session: MessageSession) -> None:
        await self._on_shutdown()
        await session.wait_until_answered()
        session.close()


def _address_in(request: HttpRequest) -> _Address:
    """Return the session that a POST names. Raises ValueError."""
    session_id = _session_id_of(request.scope["query_string"])
    return _Address(session_id, request.caller, request.options)


def _session_id_of(query_string: bytes) -> str:
    """Return the session id in the query of a POST, in any spelling of a UUID.

    Raises ValueError for a missing or malformed id.
    """
    query = parse_qsl(query_string.decode("latin-1"))
    *_, given = "", *(value for key, value in query if key in ("sessionId", "session_id"))
    if not given:
        raise ValueError("session_id is required")
    try:
        return UUID(hex=given).hex
    except ValueError:
        raise ValueError("Invalid session ID") from None
