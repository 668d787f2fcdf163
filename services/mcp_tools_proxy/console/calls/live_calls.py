"""Sends calls to a page as they come: the stream of the API, each record of it as a row."""

from collections.abc import Callable
from typing import Any

import anyio
from pydantic_core import from_json
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.console.calls.call_filter import CallFilter
from mcp_tools_proxy.console.calls.shown_record import ShownRecord
from mcp_tools_proxy.console.page_headers import SECURITY_HEADERS
from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.domain.errors import LoginsUnavailable, Unauthenticated

STREAM = "/internal/mcp/calls/stream"

CHECK_S = 0.4
"""Seconds between two looks at the session: one that ends takes its streams along in a second."""

_HEADERS = [
    (name.lower().encode(), value.encode())
    for name, value in {
        **SECURITY_HEADERS,
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-store, no-transform",
        "X-Accel-Buffering": "no",
    }.items()
]
_FRAME_END = b"\r\n\r\n"

RenderEvent = Callable[..., str]
"""Renders one event: ``call``, ``lost``, ``began``, or the ``end`` by a code and a message."""


class LiveCalls(Response):
    """The answer that goes on until the browser leaves, or its session or the stream ends."""

    def __init__(self, page: PageRequest, wanted: CallFilter, render: RenderEvent) -> None:
        super().__init__()
        self._page = page
        self._wanted = wanted
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream until it ends."""
        events = _Events(send, self._wanted, self._render)
        async with anyio.create_task_group() as group:

            async def end_with_session() -> None:
                code = await self._session_over()
                group.cancel_scope.cancel()
                events.end_code = code

            group.start_soon(end_with_session)
            await self._page.api.stream(STREAM, self._wanted.stream_query, receive, events)
            group.cancel_scope.cancel()
        await events.finish()

    async def _session_over(self) -> str:
        """Wait until the session is over, or nobody can tell; return the code of that."""
        while True:
            await anyio.sleep(CHECK_S)
            try:
                if await self._page.sessions.find(self._page.session.cookie) is None:
                    return Unauthenticated.code
            except LoginsUnavailable as error:
                return error.code


class _Events:
    """Turns the API's answer into events of the page; it is an ASGI ``send``.

    A refusal becomes the last event of a stream: a page is told nothing of another status.
    """

    def __init__(self, send: Send, wanted: CallFilter, render: RenderEvent) -> None:
        self.end_code: str | None = None
        self._send = send
        self._wanted = wanted
        self._render = render
        self._started = False
        self._refused = False
        self._ended = False
        self._rest = b""

    async def __call__(self, message: Message) -> None:
        """Send on what a part of the answer says."""
        if message["type"] == "http.response.start":
            self._refused = message["status"] != 200
            await self._start()
            if not self._refused:
                await self._emit("began", began=True)
            return
        self._rest += message.get("body", b"")
        if self._refused:
            return
        *frames, self._rest = self._rest.split(_FRAME_END)
        for frame in frames:
            await self._pass_on(frame.decode())

    async def finish(self) -> None:
        """Send why the stream is over, unless that was sent."""
        await self._start()
        if self._refused:
            error = from_json(self._rest)["error"]
            await self._emit("end", end=error["code"], text=error["message"])
        elif self.end_code is not None and not self._ended:
            await self._emit("end", end=self.end_code)
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self) -> None:
        if not self._started:
            self._started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})

    async def _pass_on(self, frame: str) -> None:
        fields = dict(line.partition(": ")[::2] for line in frame.split("\r\n"))
        event = fields.get("event")
        if event is None:
            await self._write(": ping\n\n")
            return
        data: dict[str, Any] = from_json(fields["data"])
        if event == "record":
            record = ShownRecord(data)
            if self._wanted.wants(record):
                await self._emit("record", call=record)
        elif event == "lost":
            await self._emit("record", lost=data["records"], is_of_page=self._wanted.is_of_page)
        elif event == "end":
            self._ended = True
            await self._emit("end", end=data["reason"])

    async def _emit(self, event: str, **context: object) -> None:
        """Send an event; a carriage return would end a line of it, and no markup needs one."""
        lines = self._render(**context).replace("\r", "").split("\n")
        data = "\n".join(f"data: {line}" for line in lines if line)
        await self._write(f"event: {event}\n{data}\n\n")

    async def _write(self, text: str) -> None:
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})
