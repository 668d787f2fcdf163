"""The response that sends records as they come, as server-sent events."""

from collections.abc import Awaitable, Callable

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.audit.audit_trail import AuditTrail
from mcp_tools_proxy.audit.record_feed import LostRecords, RecordFeed
from mcp_tools_proxy.domain.errors import ProxyError, ShuttingDown
from mcp_tools_proxy.web.disconnect import disconnected
from mcp_tools_proxy.web.event_streams import EVENT_STREAM, PING, PING_S, STREAM_HEADERS

CHECK_S = 0.2
"""Seconds between two checks of the sender's right: with those of a change of the tokens file a
token that is revoked ends its stream within a second."""

LAST_EVENT_S = 0.5
"""Seconds in which the last event has to be sent: one that is not read must not delay a stop."""

CANCELLED = "CANCELLED"
OK = "OK"


class RecordStream(StreamingResponse):
    """Sends records until the client leaves, ``check`` raises ProxyError, or ``stopping`` returns.

    ``on_end`` gets the code of the end, and how many records were sent.
    """

    def __init__(
        self,
        trail: AuditTrail,
        feed: RecordFeed,
        *,
        check: Callable[[], Awaitable[object]],
        stopping: Callable[[], Awaitable[None]],
        on_end: Callable[[str, int], None],
        headers: dict[str, str],
    ) -> None:
        super().__init__(
            (),
            media_type=EVENT_STREAM,
            headers={**STREAM_HEADERS, "Connection": "close", **headers},
        )
        self._trail = trail
        self._feed = feed
        self._check = check
        self._stopping = stopping
        self._on_end = on_end
        self._sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream until it ends."""
        code = CANCELLED
        try:
            with self._trail.following(self._feed):
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
                code = await self._send_until_over(receive, send)
            if code != OK:
                with anyio.move_on_after(LAST_EVENT_S):
                    end = _frame("end", f'{{"reason":"{code}"}}')
                    await send({"type": "http.response.body", "body": end})
        finally:
            self._on_end(code, self._sent)

    async def _send_until_over(self, receive: Receive, send: Send) -> str:
        """Send records; return the code by which that ended, OK if the client has left."""
        code = OK

        async with anyio.create_task_group() as group:

            async def end_by(wait: Callable[[], Awaitable[str]]) -> None:
                nonlocal code
                code = await wait()
                group.cancel_scope.cancel()

            group.start_soon(end_by, self._refused)
            group.start_soon(end_by, self._stopped)
            group.start_soon(disconnected, receive, group.cancel_scope.cancel)
            await self._send_records(send)
        return code

    async def _refused(self) -> str:
        """Wait until the sender has no right any more; return the code."""
        while True:
            await anyio.sleep(CHECK_S)
            try:
                await self._check()
            except ProxyError as error:
                return error.code

    async def _stopped(self) -> str:
        await self._stopping()
        return ShuttingDown.code

    async def _send_records(self, send: Send) -> None:
        """Send records and losses, until cancelled; a comment at first, and in silence."""
        frame = PING
        while True:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            frame = PING
            with anyio.move_on_after(PING_S):
                frame = self._next_frame(await self._feed.next())

    def _next_frame(self, found: str | LostRecords) -> bytes:
        if isinstance(found, LostRecords):
            return _frame("lost", f'{{"records":{found.records}}}')
        self._sent += 1
        return _frame("record", found)


def _frame(event: str, data: str) -> bytes:
    """Frame an event; ``data`` is one line of ASCII."""
    return f"event: {event}\r\ndata: {data}\r\n\r\n".encode("ascii")
