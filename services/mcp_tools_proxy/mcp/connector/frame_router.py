"""Routes frames between the link and the sessions; checks and logs each of them.

Frames that wait to be sent are kept in order, bounded in bytes, in an outbox that outlives a link.
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
"""JSON-RPC's code for a failure on this side."""

INVALID_REQUEST = -32600
"""JSON-RPC's code for an invalid request."""

Message = Mapping[str, object]

log = structlog.get_logger()


class FrameRouter:
    """Hands incoming frames to their sessions, and the sessions' messages to ``outbox``.

    ``max_frame_bytes`` bounds outgoing frames; the link bounds incoming ones. ``max_items`` bounds
    the JSON values of one incoming frame. Links come and go, the router stays.
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
        """Create a router; ``on_ignored`` is told why a frame is not used."""
        self._server_identifier = server_identifier
        self._max_frame_bytes = max_frame_bytes
        self._max_items = max_items
        self._on_ignored = on_ignored
        self._frames_in, self._frames_out = (
            {result: metrics.remote_frames.labels(direction, result) for result in results}
            for direction, results in (("in", ("ok", "ignored")), ("out", ("ok", "too_large")))
        )
        self._log = log.bind()  # bound once: structlog's lazy logger would bind at each line
        self.outbox = Outbox()
        self.sessions = RemoteSessions(
            session_factory, self.send, max_sessions=max_sessions, idle_s=session_idle_s
        )

    def __repr__(self) -> str:
        return f"<FrameRouter {len(self.sessions)} sessions, {self.outbox}>"

    async def receive(self, data: bytes | None) -> None:
        """Receive one frame, None for a binary one. No frame ends the link or another session."""
        try:
            frame = read_frame(data, max_items=self._max_items)
            if data is not None and len(data) > PACED_BYTES:
                await asyncio.sleep(0)  # to parse it took up to 40 ms
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
        """Queue one message of a session; wait while the outbox is full.

        A response that is too large is replaced by an error. A request that is too large is
        answered with that error here, since the backend never sees it.
        """
        data = write_frame(session_identifier, self._server_identifier, message)
        if len(data) > self._max_frame_bytes:
            self._frames_out["too_large"].inc()
            log.warning("remote.frame_too_large", bytes=len(data), summary=summarize(message))
            if "method" in message:
                if is_request(message):  # its session would wait for ever
                    with suppress(InvalidRequest):
                        await self._deliver(session_identifier, self._too_large(message))
                return
            message = self._too_large(message)
            data = write_frame(session_identifier, self._server_identifier, message)
            if len(data) > self._max_frame_bytes:  # the id alone is too large; the backend chose it
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
        """Log one line for each frame: keys and names, no values (W-15, W-18)."""
        if self._log.is_enabled_for(logging.INFO):
            self._log.info(
                "remote.frame",
                direction=direction,
                session=redact_session_id(session_identifier),
                summary=summarize(message),
            )

    def expire_all(self) -> None:
        """End all sessions and drop unsent frames: no link was opened again in time."""
        if len(self.sessions) or self.outbox.waiting_bytes:
            log.warning("remote.sessions_ended", sessions=len(self.sessions))
        self.sessions.end_all()
        self.outbox.clear()


def _error_response(error: ProxyError, message: object) -> Message:
    """Build the error response to a request, be it the backend's or its session's own."""
    id_ = message.get("id") if isinstance(message, Mapping) else None
    code = INVALID_REQUEST if isinstance(error, InvalidRequest) else INTERNAL_ERROR
    error_object = {"code": code, "message": error.message, "data": error.as_json}
    return {"jsonrpc": "2.0", "id": id_, "error": error_object}


MAX_BYTES = 8 * 1024 * 1024
"""Bytes that may wait; beyond it senders wait."""

MAX_TRIES = 3
"""Links over which sending one frame is tried.

A frame that breaks every link (it is over a limit of the backend, say) would otherwise block all
frames behind it for ever.
"""


class Outbox:
    """A queue of frames: ``put`` waits for capacity, ``drain`` sends them over a link."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self._filled, self._emptied, self._has_capacity = (asyncio.Event() for _ in range(3))
        self._turn = asyncio.Lock()
        """Wakes waiting senders one at a time: waking a thousand for each frame takes long."""
        self._tries = 0
        """How often sending the first frame was tried."""
        self.waiting_bytes = 0
        self._update_events()

    def __repr__(self) -> str:
        return f"<Outbox {len(self._frames)} frames, {self.waiting_bytes} bytes>"

    async def wait_for_capacity(self, within_s: float | None = None) -> bool:
        """Wait in turn for capacity for one more frame of any size; return whether there is some.

        ``within_s`` bounds the wait, in seconds.
        """
        if self._has_capacity.is_set() and not self._turn.locked():
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._turn:
                await self._has_capacity.wait()
                return True
        return False

    async def empty(self) -> None:
        """Wait until every frame was sent."""
        await self._emptied.wait()

    async def put(self, frame: bytes) -> None:
        """Add a frame; wait while the outbox is full."""
        await self.wait_for_capacity()
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        self._update_events()

    async def drain(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send frames as they come, until cancelled or ``send`` raises.

        A frame is removed only when it was sent: at worst the next link sends it once more. A frame
        that was tried ``MAX_TRIES`` times is logged and dropped.
        """
        while True:
            await self._filled.wait()
            frame = self._frames[0]
            if self._tries < MAX_TRIES:
                self._tries += 1
                await send(frame)
            else:
                log.error("remote.frame_given_up", bytes=len(frame), tries=self._tries)
            if self._frames and self._frames[0] is frame:  # unless cleared meanwhile
                self._frames.popleft()
                self._tries = 0
                self.waiting_bytes -= len(frame)
                self._update_events()

    def clear(self) -> None:
        """Drop all frames: their sessions have ended."""
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
