"""The sessions of the older eras over HTTP, as the SDK keeps them."""

import math

from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager, which also tells which sessions there are, and ends unused ones."""

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._server_instances

    def __len__(self) -> int:
        return len(self._server_instances)

    async def handle_read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body was read already: the manager would read it once more."""
        await self._handle_request(scope, receive, send)

    @property
    def unused_until(self) -> float:
        """When the session ends by itself that is unused longest; infinity when all are in use."""
        return min(map(_ends_at, self._server_instances.values()), default=math.inf)

    async def end_unused(self) -> None:
        """End the session that is unused longest."""
        session_id, transport = min(self._server_instances.items(), key=lambda it: _ends_at(it[1]))
        await self._discard_session(session_id, transport)


def _ends_at(transport: StreamableHTTPServerTransport) -> float:
    return math.inf if transport.idle_scope is None else transport.idle_scope.deadline


def body_again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already to who reads it next."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def answering_204(send: Send) -> Send:
    """Answer 204 instead of 200: a session that was ended has nothing to say (F-05)."""
    ended = False

    async def sending(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start" and message["status"] == 200:
            ended = True
            kept = [(k, v) for k, v in message["headers"] if not k.startswith(b"content-")]
            message = {**message, "status": 204, "headers": kept}
        elif ended:
            message = {**message, "body": b""}
        await send(message)

    return sending
