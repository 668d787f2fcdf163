"""Routes, checks and logs frames between the link and the sessions.

Outgoing frames wait in order in an outbox that is limited in bytes and outlives links.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError, ResultTooLarge
from mcp_tools_proxy.http.body import PACED_BYTES
from mcp_tools_proxy.mcp.connector.frames import (
    BadFrame,
    read_frame,
    summarize,
    with_meta,
    write_frame,
)
from mcp_tools_proxy.mcp.connector.remote_sessions import RemoteSessions, SessionFactory
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.json_rpc import is_request
from mcp_tools_proxy.wire.uris import redact_session_id

INTERNAL_ERROR = -32603

INVALID_REQUEST = -32600

Message = Mapping[str, object]

log = structlog.get_logger()


class FrameRouter:
    """Routes incoming frames to their sessions, and messages of the sessions to ``outbox``.

    It outlives links. ``max_frame_bytes`` limits outgoing frames; the link limits incoming ones.
    ``max_items`` limits the JSON values of an incoming frame.
    """

    def __init__(
        self,
        session_factory: SessionFactory,
        *,
        server_identifier: str,
        max_frame_bytes: int,
        max_items: int,
        max_sessions: int,
        session_idle_s: float,
        on_ignored: Callable[[str], None],
        metrics: Metrics,
    ) -> None:
        """Create a router; ``on_ignored`` receives the reason for each ignored frame."""
        self._server_identifier = server_identifier
        self._max_frame_bytes = max_frame_bytes
        self._max_items = max_items
        self._on_ignored = on_ignored
        self._frames_in, self._frames_out = (
            {result: metrics.remote_frames.labels(direction, result) for result in results}
            for direction, results in (("in", ("ok", "ignored")), ("out", ("ok", "too_large")))
        )
        self._log = log.bind()  # bound once: structlog's lazy logger would bind for each line
        self.outbox = Outbox()
        self.sessions = RemoteSessions(
            session_factory, self.send, max_sessions=max_sessions, idle_s=session_idle_s
        )

    def __repr__(self) -> str:
        return f"<FrameRouter {len(self.sessions)} sessions, {self.outbox}>"

    async def receive(self, data: bytes | None) -> None:
        """Receive a frame, None for a binary one. A bad frame ends neither the link nor other
        sessions.
        """
        try:
            frame = read_frame(data, max_items=self._max_items)
            if data is not None and len(data) > PACED_BYTES:
                await asyncio.sleep(0)  # parsing took up to 40 ms
            self._log_frame("in", frame.session_identifier, frame.message)
            await self._deliver(frame.session_identifier, with_meta(frame.message))
        except BadFrame as bad:
            self._ignored(str(bad))
            if bad.frame is not None and bad.error is not None and is_request(bad.frame.message):
                answer = _error_response(bad.error, bad.frame.message)
                await self.send(bad.frame.session_identifier, answer)
        except InvalidRequest as error:
            self._ignored(error.message)
        except Exception:
            log.exception("remote.frame_crashed")
        else:
            self._frames_in["ok"].inc()

    async def _deliver(self, session_identifier: str, message: object) -> None:
        try:
            await self.sessions.deliver(session_identifier, message)
        except CapacityExceeded as error:
            if not is_request(message):
                raise InvalidRequest(error.message) from None
            await self.send(session_identifier, _error_response(error, message))

    def _ignored(self, reason: str) -> None:
        self._frames_in["ignored"].inc()
        self._on_ignored(reason)

    async def send(self, session_identifier: str, message: Message) -> None:
        """Queue a message of a session; wait while the outbox is full.

        A response that is too large is replaced by an error. A request that is too large is
        answered with that error here, since the backend never receives it.
        """
        data = write_frame(session_identifier, self._server_identifier, message)
        if len(data) > self._max_frame_bytes:
            self._frames_out["too_large"].inc()
            log.warning("remote.frame_too_large", bytes=len(data), summary=summarize(message))
            if "method" in message:
                if is_request(message):  # its session would wait forever
                    with suppress(InvalidRequest):
                        await self._deliver(session_identifier, self._too_large(message))
                return
            message = self._too_large(message)
            data = write_frame(session_identifier, self._server_identifier, message)
            if len(data) > self._max_frame_bytes:  # the backend chose an id that is too large
                return
        else:
            self._frames_out["ok"].inc()
        self._log_frame("out", session_identifier, message)
        await self.outbox.put(data)

    def _too_large(self, message: Message) -> Message:
        error = ResultTooLarge(
            f"the answer is over {self._max_frame_bytes} bytes, the limit of one frame; ask for "
            "less at a time"
        )
        return _error_response(error, message)

    def _log_frame(self, direction: str, session_identifier: str, message: object) -> None:
        """Log one line per frame: keys and names, no values (W-15, W-18)."""
        if self._log.is_enabled_for(logging.INFO):
            self._log.info(
                "remote.frame",
                direction=direction,
                session=redact_session_id(session_identifier),
                summary=summarize(message),
            )

    def expire_all(self) -> None:
        """End all sessions and drop unsent frames, as no new link was opened in time."""
        if len(self.sessions) or self.outbox.waiting_bytes:
            log.warning("remote.sessions_ended", sessions=len(self.sessions))
        self.sessions.end_all()
        self.outbox.clear()


def _error_response(error: ProxyError, message: object) -> Message:
    id_ = message.get("id") if isinstance(message, Mapping) else None
    code = INVALID_REQUEST if isinstance(error, InvalidRequest) else INTERNAL_ERROR
    error_object = {"code": code, "message": error.message, "data": error.as_json}
    return {"jsonrpc": "2.0", "id": id_, "error": error_object}


MAX_BYTES = 8 * 1024 * 1024
"""Bytes that can wait before senders have to wait."""

MAX_TRIES = 3
"""Attempts to send a frame, each over another link.

A frame that breaks every link, such as one over a limit of the backend, would otherwise block the
frames after it forever.
"""


class Outbox:
    """A queue of frames: ``put`` waits for capacity, ``drain`` sends them over a link."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self._filled, self._emptied, self._has_capacity = (asyncio.Event() for _ in range(3))
        self._turn = asyncio.Lock()
        """Wakes waiting senders one at a time; waking a thousand for each frame is slow."""
        self._tries = 0
        self.waiting_bytes = 0
        self._update_events()

    def __repr__(self) -> str:
        return f"<Outbox {len(self._frames)} frames, {self.waiting_bytes} bytes>"

    async def wait_for_capacity(self, within_s: float | None = None) -> bool:
        """Wait in turn for capacity for a frame of any size; return whether there is capacity.

        ``within_s`` limits the wait, in seconds.
        """
        if self._has_capacity.is_set() and not self._turn.locked():
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._turn:
                await self._has_capacity.wait()
                return True
        return False

    async def empty(self) -> None:
        """Wait until every frame is sent."""
        await self._emptied.wait()

    async def put(self, frame: bytes) -> None:
        """Add a frame; wait while the outbox is full."""
        await self.wait_for_capacity()
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        self._update_events()

    async def drain(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send frames until cancelled or ``send`` raises.

        A frame is removed only after it was sent, so the next link may send it again. After
        ``MAX_TRIES`` attempts it is logged and dropped.
        """
        while True:
            await self._filled.wait()
            frame = self._frames[0]
            if self._tries < MAX_TRIES:
                self._tries += 1
                await send(frame)
            else:
                log.error("remote.frame_given_up", bytes=len(frame), tries=self._tries)
            if self._frames and self._frames[0] is frame:  # unless cleared during send
                self._frames.popleft()
                self._tries = 0
                self.waiting_bytes -= len(frame)
                self._update_events()

    def clear(self) -> None:
        """Drop all frames, as their sessions have ended."""
        self._frames.clear()
        self._tries = 0
        self.waiting_bytes = 0
        self._update_events()

    def _update_events(self) -> None:
        _set(self._filled, bool(self._frames))
        _set(self._emptied, not self._frames)
        _set(self._has_capacity, self.waiting_bytes < self._max_bytes)


def _set(event: asyncio.Event, on: bool) -> None:
    if on:
        event.set()
    else:
        event.clear()
