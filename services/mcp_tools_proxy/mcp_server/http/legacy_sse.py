"""Legacy HTTP+SSE (2024-11-05): a GET stream for the server's messages, a POST for each client's.

The stream's first event is the address to post to, the stream's own with a ``sessionId`` (F-02);
a message without one is answered 400, with an unknown one 404 (F-03).
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, quote, urlencode
from uuid import UUID

import anyio
from mcp.server.sse import SseServerTransport
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.mcp_server.http.session_manager import parse_message
from mcp_tools_proxy.mcp_server.http.unread_messages import UnreadMessages
from mcp_tools_proxy.mcp_server.pending_requests import PendingRequests
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.web.body import BodyLimits
from mcp_tools_proxy.wire.request_json import parse_request

_ADDRESS = re.compile(rb"data: [^\r\n]*\?session_id=([0-9a-f]{32})")


class LegacySse:
    """The SDK's transport, with the address and query parameter that clients of the protocol
    expect.

    When ``on_shutdown`` returns, each stream ends as soon as its requests are answered.
    """

    def __init__(
        self,
        server: GatewayMcpServer,
        *,
        on_shutdown: Callable[[], Awaitable[None]],
        limits: BodyLimits,
    ) -> None:
        self._server = server
        self._on_shutdown = on_shutdown
        self._max_items = limits.max_items
        self._transport = SseServerTransport("/", max_request_body_size=limits.max_bytes)
        self._unread: dict[str, UnreadMessages] = {}
        """The unread messages of each session, by the id that its stream announced."""

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one session for as long as its stream is open."""
        unread, announced_id = UnreadMessages(), ""

        def announced(session_id: str) -> None:
            nonlocal announced_id
            announced_id = session_id
            self._unread[session_id] = unread

        sending = _announcing(quote(scope["path"]).encode(), send, announced)
        try:
            async with (
                self._transport.connect_sse(scope, receive, sending) as (messages, answers),
                PendingRequests().track(messages, answers, self._on_shutdown) as (reader, writer),
            ):
                await self._server.run(reader, _CountedStream(writer, unread), self._server.options)
        finally:
            self._unread.pop(announced_id, None)

    async def post(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Receive one message of a session; ``receive`` replays its ``body``.

        Raises InvalidRequest for a body that is no JSON-RPC, CapacityExceeded while too much of
        the session waits.
        """
        message = parse_message(parse_request(body, max_items=self._max_items))
        session_id = _session_id_of(scope["query_string"])
        # the SDK refuses a message of an unknown session, so what counts there is of no matter
        unread = self._unread.get(session_id) or UnreadMessages()
        query = {"session_id": session_id} if session_id else {}
        again = {**scope, "query_string": urlencode(query).encode()}
        answered = _StatusOf(send)
        delivered = False
        unread.add_post(message, len(body))
        try:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the stream ended
                await self._transport.handle_post_message(again, receive, answered)
                delivered = answered.status == 202
        finally:
            unread.end_post(message, len(body), delivered=delivered)


def _session_id_of(query_string: bytes) -> str:
    """Return the session id in the query of a POST, spelled as it was announced; "" without one.

    The SDK takes it in any spelling of a UUID: upper case, dashes, braces. One that were looked up
    in another spelling here than there would have its unread messages uncounted.
    """
    query = parse_qsl(query_string.decode("latin-1"))
    *_, given = "", *(value for key, value in query if key in ("sessionId", "session_id"))
    try:
        return UUID(hex=given).hex
    except ValueError:  # the SDK refuses it
        return given


class _StatusOf:
    """An ASGI ``send`` that knows the status of its response, 0 before it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class _CountedStream:
    """The SDK's stream to one client, which counts the unread messages."""

    def __init__(self, inner: WriteStream[SessionMessage], unread: UnreadMessages) -> None:
        self._inner = inner
        self._unread = unread

    async def send(self, item: SessionMessage, /) -> None:
        with self._unread.sending(item.message):
            await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc, traceback)


def _announcing(path: bytes, send: Send, announced: Callable[[str], None]) -> Send:
    """Return a ``send`` that replaces the SDK's address to post to by the stream's own path.

    ``announced`` is called with the session id in it.
    """
    waiting = True

    async def sending(message: Message) -> None:
        nonlocal waiting
        if waiting and (found := _ADDRESS.search(message.get("body", b""))):
            waiting = False
            announced(found[1].decode())
            address = b"data: %b?sessionId=%b" % (path, found[1])
            body = message["body"].replace(found[0], address, 1)
            message = {**message, "body": body}
        await send(message)

    return sending
