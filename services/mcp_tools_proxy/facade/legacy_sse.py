"""Legacy HTTP+SSE (2024-11-05): a stream for what the server says, a POST for each message.

The stream's first event is the address to post to, the stream's own with a ``sessionId`` (F-02);
a message without one is answered 400, with an unknown one 404 (F-03).
"""

import re
from urllib.parse import parse_qsl, quote, urlencode

from mcp.server.sse import SseServerTransport
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.facade.server import FacadeServer

_ADDRESS = re.compile(rb"data: [^\r\n]*\?session_id=([0-9a-f]{32})")


class LegacySse:
    """The SDK's transport, under the names that the protocol's clients know."""

    def __init__(self, server: FacadeServer, *, max_request_bytes: int) -> None:
        self._server = server
        self._transport = SseServerTransport("/", max_request_body_size=max_request_bytes)

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one session, for as long as its stream is open."""
        path = quote(scope["path"]).encode()
        async with self._transport.connect_sse(scope, receive, _announcing(path, send)) as (
            reader,
            writer,
        ):
            await self._server.run(reader, writer, self._server.options)

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one message of a session."""
        given = parse_qsl(scope["query_string"].decode("latin-1"))
        renamed = [("session_id" if key == "sessionId" else key, value) for key, value in given]
        query = urlencode(renamed).encode()
        await self._transport.handle_post_message({**scope, "query_string": query}, receive, send)


def _announcing(path: bytes, send: Send) -> Send:
    """Announce the stream's own path as the address to post to."""
    announced = False

    async def sending(message: Message) -> None:
        nonlocal announced
        if not announced and message.get("body"):
            body, count = _ADDRESS.subn(rb"data: %b?sessionId=\1" % path, message["body"])
            announced, message = bool(count), {**message, "body": body}
        await send(message)

    return sending
