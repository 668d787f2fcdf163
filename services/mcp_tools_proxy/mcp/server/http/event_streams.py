"""Responses to MCP requests, as a JSON body or an event stream, and the set of open streams.

A stream can stay open for hours after its request was authenticated, so the caller is checked again
while it is open. It ends when the caller loses access or the service stops.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import anyio
import structlog
from starlette.types import Message, Send

from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.responses import EVENT_STREAM, PING, PING_S, STREAM_HEADERS
from mcp_tools_proxy.mcp.server.http.http_request import CallerCheck, HttpRequest
from mcp_tools_proxy.mcp.server.results import Json
from mcp_tools_proxy.policy.tenant_share import TenantCounts, check_tenant_streams
from mcp_tools_proxy.wire.encoding import encode_message
from mcp_tools_proxy.wire.mcp_protocol import HTTP_STATUS_OF_ERROR

Header = tuple[bytes, bytes]
SendOnly = Callable[[Json, Send], Awaitable[None]]
"""Sends a response without preceding messages."""

_JSON = [(b"content-type", b"application/json")]
_STREAM = [
    (b"content-type", EVENT_STREAM.encode()),
    (b"connection", b"keep-alive"),
    *((name.lower().encode(), value.encode()) for name, value in STREAM_HEADERS.items()),
]


async def send_json(
    message: Json, send: Send, *, status: int | None = None, headers: Sequence[Header] = ()
) -> None:
    """Send a JSON-RPC response as one body.

    Without ``status``, it has the newer era's status for its error.
    """
    if status is None:
        error = message.get("error")
        status = 200 if error is None else HTTP_STATUS_OF_ERROR.get(error["code"], 200)
    await _send_whole(encode_message(message), _JSON, send, status=status, headers=headers)


async def send_json_batch(messages: Sequence[Json], send: Send) -> None:
    """Send JSON-RPC responses as one body, an array."""
    body = b"[%b]" % b",".join(map(encode_message, messages))
    await _send_whole(body, _JSON, send)


async def send_event(message: Json, send: Send, *, headers: Sequence[Header] = ()) -> None:
    """Send a JSON-RPC response as the only event of a stream."""
    await _send_whole(event_frame(message), _STREAM, send, headers=headers)


async def _send_whole(
    body: bytes,
    kind: Sequence[Header],
    send: Send,
    *,
    status: int = 200,
    headers: Sequence[Header] = (),
) -> None:
    head = [*kind, (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


class EventStream:
    """A response that becomes a stream if a message precedes the result.

    Otherwise ``send_only`` sends the result, so that an error keeps its HTTP status. PING_S seconds
    of silence open the stream too.
    """

    def __init__(self, send: Send, send_only: SendOnly = send_json) -> None:
        self._send = send
        self._send_only = send_only
        self._is_open = False
        self._is_complete = False
        self._sending = asyncio.Lock()
        self._sent_at = 0.0

    async def notify(self, message: Mapping[str, object], *, id_: str | None = None) -> None:
        """Send a message before the response; it is dropped after the response.

        ``id_`` is the event's id: a client that reopens the stream names the last one it received.
        """
        await self.send_frame(_id_line(id_) + event_frame(message))

    async def begin(self, id_: str | None = None) -> None:
        """Send the head at once, and with ``id_`` an event that contains only that id."""
        await self.send_frame(b"" if id_ is None else _id_line(id_) + b"data: \r\n\r\n")

    async def complete(self, response: Json) -> None:
        """Send the response."""
        async with self._sending:
            self._is_complete = True
            if self._is_open:
                await self._send({"type": "http.response.body", "body": event_frame(response)})
            else:
                await self._send_only(response, self._send)

    async def complete_batch(self, responses: Sequence[Json]) -> None:
        """Send the responses to a batch: as an array, or as one event each in an open stream.

        The TypeScript SDK does not accept an array in an event.
        """
        async with self._sending:
            self._is_complete = True
            if self._is_open:
                frames = b"".join(map(event_frame, responses))
                await self._send({"type": "http.response.body", "body": frames})
            else:
                await send_json_batch(responses, self._send)

    async def end(self) -> None:
        """End a stream without a response."""
        async with self._sending:
            self._is_complete = True
            await self._send({"type": "http.response.body", "body": b""})

    @contextmanager
    def pings(self) -> Iterator[None]:
        """While open, send a comment after each PING_S of silence."""
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        # most responses are sent earlier, and a task for each would cost as much as a short call
        timer = loop.call_later(PING_S, lambda: tasks.append(loop.create_task(self._ping())))
        try:
            yield
        finally:
            timer.cancel()
            for task in tasks:
                task.cancel()

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait_s = self._sent_at + PING_S - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            else:
                await self.send_frame(PING)

    async def send_frame(self, body: bytes) -> None:
        """Send an encoded event; it is dropped after the response."""
        async with self._sending:
            if self._is_complete:
                return
            if not self._is_open:
                start = {"type": "http.response.start", "status": 200, "headers": _STREAM}
                await self._send(start)
                self._is_open = True
            if body:
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
            self._sent_at = asyncio.get_running_loop().time()


def event_frame(message: Mapping[str, object]) -> bytes:
    """Encode a message as an event, in ASCII, as some clients treat U+2028 as a line end."""
    return b"event: message\r\ndata: %b\r\n\r\n" % encode_message(message, ensure_ascii=True)


def _id_line(id_: str | None) -> bytes:
    return b"" if id_ is None else b"id: %b\r\n" % id_.encode()


CHECK_S = 15.0
"""Seconds between checks of an open stream's caller."""

LAST_RESPONSE_GRACE_S = 1.0
"""Seconds for a stream to send its last response when the service stops."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class _OpenStream:
    scope: anyio.CancelScope
    check: CallerCheck
    sends_last_message: bool


class OpenStreams:
    """The open streams.

    A session with an open stream is never evicted, so a tenant can have at most ``max_of_tenant``
    such streams; otherwise it could occupy all sessions.
    """

    def __init__(self, *, max_of_tenant: int) -> None:
        self._max_of_tenant = max_of_tenant
        self._open: set[_OpenStream] = set()
        self._of_sessions = TenantCounts()
        """The streams that keep a session in use."""
        self.legacy_sse_sessions = TenantCounts()
        """Legacy HTTP+SSE streams, which count as sessions."""
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def check_capacity(self, tenant_id: str) -> None:
        """Raise CapacityExceeded if a tenant has too many streams that use a session."""
        check_tenant_streams(self._of_sessions, tenant_id, limit=self._max_of_tenant)

    async def serve(
        self,
        respond: Callable[[Send], Awaitable[None]],
        request: HttpRequest,
        *,
        is_session: bool = False,
        session_tenant: str | None = None,
        sends_last_message: bool = False,
    ) -> None:
        """Serve the response to ``request`` until it ends, its check fails, or ``end`` is called.

        ``session_tenant`` is the tenant of the session that the stream keeps in use; with
        ``is_session`` the stream is that session, as in legacy HTTP+SSE. With
        ``sends_last_message``, the stream ends after a last message when the service stops.
        """
        sent = _Sent(request.send)
        with anyio.CancelScope() as cancel:
            stream = _OpenStream(cancel, request.check, sends_last_message)
            self._open.add(stream)
            try:
                with ExitStack() as counted:
                    if session_tenant is not None:
                        counted.enter_context(self._of_sessions.counting(session_tenant))
                        if is_session:
                            counted.enter_context(self.legacy_sse_sessions.counting(session_tenant))
                    await respond(sent)
            finally:
                self._open.remove(stream)
                self._closed.set()
        if cancel.cancelled_caught:
            await sent.finish()

    async def run(self) -> None:
        """Repeat the check of every open stream, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            for stream in tuple(self._open):
                try:
                    await stream.check()
                except ProxyError as error:
                    log.info("facade.stream_ended", code=error.code)
                    stream.scope.cancel()

    def end(self) -> None:
        """End the open streams, except those that send a last message."""
        for stream in tuple(self._open):
            if not stream.sends_last_message:
                stream.scope.cancel()

    async def end_all(self) -> None:
        """End every stream; streams with a last message have LAST_RESPONSE_GRACE_S to send it."""
        with anyio.move_on_after(LAST_RESPONSE_GRACE_S):
            while any(stream.sends_last_message for stream in self._open):
                self._closed.clear()
                await self._closed.wait()
        for stream in tuple(self._open):
            stream.scope.cancel()


class _Sent:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._open = True
        elif not message.get("more_body", False):
            self._open = False
        await self._send(message)

    async def finish(self) -> None:
        """End a started response, so that the client does not see a broken connection."""
        if self._open:
            await self({"type": "http.response.body", "body": b"", "more_body": False})
