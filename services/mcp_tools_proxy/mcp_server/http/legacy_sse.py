"""Legacy HTTP+SSE (2024-11-05): a GET stream for the server's messages, a POST for each client's.

The stream's first event is the address to post to, the stream's own with a ``sessionId`` (F-02);
a message without one is answered 400, with an unknown one 404 (F-03).
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, quote, urlencode

import anyio
from mcp.server.sse import SseServerTransport
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.mcp_server.http.session_manager import parse_message
from mcp_tools_proxy.mcp_server.pending_requests import PendingRequests
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.web.body import BodyLimits
from mcp_tools_proxy.wire.request_json import parse_request

MAX_UNREAD = 64
"""Unread messages of one session; beyond it the session's requests are refused."""

_ADDRESS = re.compile(rb"data: [^\r\n]*\?session_id=([0-9a-f]{32})")


@dataclass(slots=True)
class _Unread:
    """Number of messages that one session's client has not read yet."""

    session_id: str = ""
    count: int = 0


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
        self._unread: dict[str, _Unread] = {}

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one session for as long as its stream is open."""
        unread = _Unread()

        def announced(session_id: str) -> None:
            unread.session_id = session_id
            self._unread[session_id] = unread

        sending = _announcing(quote(scope["path"]).encode(), send, announced)
        try:
            async with (
                self._transport.connect_sse(scope, receive, sending) as (messages, answers),
                PendingRequests().track(messages, answers, self._on_shutdown) as (reader, writer),
            ):
                await self._server.run(reader, _CountedStream(writer, unread), self._server.options)
        finally:
            self._unread.pop(unread.session_id, None)

    async def post(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Receive one message of a session; ``receive`` replays its ``body``.

        Raises InvalidRequest for a body that is no JSON-RPC, CapacityExceeded for a request while
        MAX_UNREAD messages are unread.
        """
        message = parse_message(parse_request(body, max_items=self._max_items))
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        renamed = [("session_id" if key == "sessionId" else key, value) for key, value in query]
        unread = self._unread.get(dict(renamed).get("session_id", ""))
        if isinstance(message, JSONRPCRequest) and unread and unread.count >= MAX_UNREAD:
            raise CapacityExceeded(f"{MAX_UNREAD} messages wait on the stream; read them first")
        again = {**scope, "query_string": urlencode(renamed).encode()}
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the stream has ended
            await self._transport.handle_post_message(again, receive, send)


class _CountedStream:
    """The SDK's stream to one client, which counts the unread messages."""

    def __init__(self, inner: WriteStream[SessionMessage], unread: _Unread) -> None:
        self._inner = inner
        self._unread = unread

    async def send(self, item: SessionMessage, /) -> None:
        self._unread.count += 1
        try:
            await self._inner.send(item)
        finally:
            self._unread.count -= 1

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
