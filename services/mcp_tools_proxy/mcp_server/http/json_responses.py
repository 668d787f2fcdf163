"""JSON responses in sessions of the older eras that were opened for event streams.

A client may accept both when it opens a session, and JSON only in a later request: streamable HTTP
allows that for each request. The SDK decides once for a session, and would answer 406.
"""

import asyncio
from collections.abc import Callable, Mapping

from mcp.types import INTERNAL_ERROR, INVALID_REQUEST
from pydantic_core import from_json, to_json
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.mcp_server.http.post_headers import accepts_json
from mcp_tools_proxy.mcp_server.http.session_manager import HttpSessions, replay_body

BOTH = b"application/json, text/event-stream"
_DATA = b"data: "


async def answer_in_session(
    sessions: HttpSessions, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a POST of one of ``sessions``, with a JSON body if it accepts nothing else."""
    if sessions.json_response or not _accepts_json_only(scope):
        await sessions.handle_buffered(scope, receive, send)
    else:
        await _answer_as_json(sessions, scope, receive, send)


def _accepts_json_only(scope: Scope) -> bool:
    """Return whether a request accepts JSON, and nothing that may be read as an event stream.

    Parts of words count: what is not clearly JSON only is left to the SDK, which may refuse it.
    """
    accept_values = [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"
    ]
    accept = ",".join(accept_values).lower()
    streams = ("text/event-stream", "text/*", "*/*")
    return accepts_json(accept) and not any(kind in accept for kind in streams)


async def _answer_as_json(
    sessions: HttpSessions, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a request with its response alone instead of a stream.

    Notifications before it are dropped, as in sessions that were opened for JSON. Requests to the
    client, which would never see them, are refused on its behalf.
    """
    others = [(name, value) for name, value in scope["headers"] if name != b"accept"]
    scope = {**scope, "headers": [*others, (b"accept", BOTH)]}

    async def refuse(request: Mapping[str, object]) -> None:
        error = {"code": INVALID_REQUEST, "message": "the client takes JSON only: ask it nothing"}
        refused = {"jsonrpc": "2.0", "id": request["id"], "error": error}
        await sessions.handle_buffered(scope, replay_body(to_json(refused), receive), _discard)

    async with asyncio.TaskGroup() as tasks:
        response = _LastMessage(send, lambda message: tasks.create_task(refuse(message)))
        await sessions.handle_buffered(scope, receive, response)


class _LastMessage:
    """An ASGI ``send`` that parses an event stream and sends the response in it as a JSON body."""

    def __init__(self, send: Send, on_request: Callable[[Mapping[str, object]], object]) -> None:
        self._send = send
        self._on_request = on_request
        self._begun: Message | None = None
        self._line = b""
        self._is_sent = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_stream(message):
            self._begun = message
        elif self._begun is None:
            await self._send(message)
        else:
            *lines, self._line = (self._line + message.get("body", b"")).split(b"\n")
            for line in lines:
                await self._read_event(line.strip())
            if not message.get("more_body", False):
                await self._answer(_NO_ANSWER, 500)

    async def _read_event(self, line: bytes) -> None:
        data = line.removeprefix(_DATA)
        if data is line or not data:
            return
        message = from_json(data)
        if "method" not in message:
            await self._answer(data, 200)
        elif "id" in message:
            self._on_request(message)

    async def _answer(self, body: bytes, status: int) -> None:
        if self._is_sent or self._begun is None:
            return
        self._is_sent = True
        kept = [(k, v) for k, v in self._begun["headers"] if k.lower() == b"mcp-session-id"]
        headers = [*kept, (b"content-type", b"application/json")]
        headers.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


_NO_ANSWER = to_json(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": INTERNAL_ERROR, "message": "the session ended before the answer"},
    }
)


def _is_stream(message: Message) -> bool:
    headers = {name.lower(): value for name, value in message["headers"]}
    return bool(headers.get(b"content-type", b"").startswith(b"text/event-stream"))


async def _discard(_message: Message) -> None:
    """Drop the HTTP response to a message that we sent on the client's behalf."""
