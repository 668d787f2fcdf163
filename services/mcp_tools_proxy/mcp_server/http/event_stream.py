"""The response to one stateless request: one JSON body, or an event stream."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from pydantic_core import to_json
from starlette.types import Send

from mcp_tools_proxy.mcp_server.results import Json

PING_S = 15.0
"""Seconds of silence after which a comment is sent: proxies cut connections that stay silent."""

_PING = b": ping\r\n\r\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


async def send_json(message: Json, send: Send) -> None:
    """Send a JSON-RPC response as one body, with the status that the specification gives it."""
    error = message.get("error")
    status = 200 if error is None else ERROR_CODE_HTTP_STATUS.get(error["code"], 200)
    body = to_json(message)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class EventStream:
    """A response that is a stream if anything comes before the result, else one JSON body.

    So an error that comes first keeps its HTTP status. PING_S seconds of silence open the stream
    too.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_open = False
        self._is_complete = False
        self._sending = asyncio.Lock()
        self._sent_at = 0.0

    async def notify(self, message: Mapping[str, object]) -> None:
        """Send a message that comes before the response; after the response it is dropped."""
        await self._send_part(_event(message))

    async def complete(self, response: Json) -> None:
        """Send the response."""
        async with self._sending:
            self._is_complete = True
            if self._is_open:
                await self._send({"type": "http.response.body", "body": _event(response)})
            else:
                await send_json(response, self._send)

    @asynccontextmanager
    async def pings(self) -> AsyncIterator[None]:
        """Send a comment after each PING_S of silence, while open."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._ping())
            try:
                yield
            finally:
                task.cancel()

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        self._sent_at = loop.time()
        while True:
            await asyncio.sleep(self._sent_at + PING_S - loop.time())
            if loop.time() >= self._sent_at + PING_S:
                await self._send_part(_PING)

    async def _send_part(self, body: bytes) -> None:
        async with self._sending:
            if self._is_complete:
                return
            if not self._is_open:
                start = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
                await self._send(start)
                self._is_open = True
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            self._sent_at = asyncio.get_running_loop().time()


def _event(message: Mapping[str, object]) -> bytes:
    """Frame a message; in ASCII, as some clients take U+2028 for the end of a line."""
    return b"event: message\r\ndata: %b\r\n\r\n" % to_json(message, ensure_ascii=True)
