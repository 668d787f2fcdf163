"""Routes frames between the link and the sessions; checks and logs each of them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from mcp_tools_proxy.connector.frame_summary import summarize
from mcp_tools_proxy.connector.frames import BadFrame, read_frame, with_meta, write_frame
from mcp_tools_proxy.connector.outbox import Outbox
from mcp_tools_proxy.connector.remote_sessions import (
    RemoteSessions,
    SessionFactory,
)
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError, ResultTooLarge
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.web.body import PACED_BYTES
from mcp_tools_proxy.wire.json_rpc import is_request
from mcp_tools_proxy.wire.redaction import redact_session_id

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
