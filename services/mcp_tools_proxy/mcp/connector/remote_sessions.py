"""Sessions of the backend: one MCP session for each ``session_identifier`` (W-02, W-04)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

import structlog

from mcp_tools_proxy.domain.caller import NO_TENANT
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.tenant_share import IdleSession, select_session_to_evict
from mcp_tools_proxy.wire.json_rpc import SendMessage, is_request
from mcp_tools_proxy.wire.uris import redact_session_id

POLL_S = 30.0
"""The longest interval between checks for idle sessions, in seconds."""

MAX_ACTIVE_CALLS = 256
"""Pending requests of all sessions that slow the backend down.

``subscriptions/listen`` does not count. Each session can have 64 pending requests, so a thousand
sessions could hold 640 MB.
"""

PAUSE_S = 0.02
"""Seconds before reading each further message while too many requests are pending.

Reading does not stop, as pending calls can wait for the backend's answers to requests of servers.
"""

log = structlog.get_logger()


class McpSession(Protocol):
    """An MCP session that exchanges parsed JSON."""

    @property
    def open_requests(self) -> int:
        """Number of pending requests, including ``subscriptions/listen``."""
        ...

    @property
    def active_calls(self) -> int:
        """Number of pending requests, excluding ``subscriptions/listen``."""
        ...

    async def wait_until_answered(self) -> None:
        """Wait until no request is pending."""
        ...

    async def run(self) -> None:
        """Serve until closed."""
        ...

    def close(self) -> None:
        """Close at once; pending requests are cancelled."""
        ...

    async def receive(self, content: object) -> None:
        """Receive a message. Raises InvalidRequest for a message that cannot be answered."""
        ...


SessionFactory = Callable[[SendMessage], McpSession]
"""Opens an MCP session that sends its messages with the argument."""


@dataclass(slots=True)
class _LiveSession:
    mcp: McpSession
    quiet_since: float


class RemoteSessions:
    """Delivers each message to its session, in order; a session begins with its first request.

    At ``max_sessions``, a new session evicts the one that is quiet for longest without active
    calls. Idle sessions end after ``idle_s`` seconds. ``send`` receives the identifier of the
    session with each message.
    """

    def __init__(
        self,
        session_factory: SessionFactory,
        send: Callable[[str, Mapping[str, object]], Awaitable[None]],
        *,
        max_sessions: int,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session_factory = session_factory
        self._send = send
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._clock = clock
        self._sessions: dict[str, _LiveSession] = {}
        self._capacity = MAX_ACTIVE_CALLS
        """Messages that can arrive before requests are counted again, which takes 0.5 ms."""
        self._tasks: asyncio.TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def open_requests(self) -> int:
        """Number of pending requests of all sessions."""
        return sum(session.mcp.open_requests for session in self._sessions.values())

    async def wait_for_capacity(self) -> None:
        """Pause before the next message if MAX_ACTIVE_CALLS requests are pending."""
        if self._capacity > 0:
            return
        active = sum(session.mcp.active_calls for session in self._sessions.values())
        self._capacity = MAX_ACTIVE_CALLS - active
        if self._capacity <= 0:
            await asyncio.sleep(PAUSE_S)

    async def run(self) -> None:
        """Run the sessions and end idle ones, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._end_idle()
        finally:
            self._tasks = None

    async def deliver(self, identifier: str, message: object) -> None:
        """Deliver a message to its session, which can be new.

        Raises InvalidRequest for a message that cannot be answered, CapacityExceeded for a new
        session if all others are in use.
        """
        session = self._sessions.get(identifier) or self._open(identifier, message)
        session.quiet_since = self._clock()
        self._capacity -= 1
        await session.mcp.receive(message)

    async def wait_until_answered(self) -> None:
        """Wait until no session has a pending request."""
        for session in tuple(self._sessions.values()):
            await session.mcp.wait_until_answered()

    def end_all(self) -> None:
        """End every session; calls are cancelled."""
        for identifier in tuple(self._sessions):
            self._end(identifier)

    def _open(self, identifier: str, message: object) -> _LiveSession:
        if self._tasks is None or not is_request(message):
            raise InvalidRequest("does not belong to an open session, and does not start one")
        self._make_space()
        mcp = self._session_factory(partial(self._send_from, identifier))
        session = _LiveSession(mcp, self._clock())
        self._sessions[identifier] = session
        self._tasks.create_task(self._serve(identifier, session))
        log.info("remote.session_begun", session=redact_session_id(identifier))
        return session

    def _make_space(self) -> None:
        if len(self._sessions) < self._max_sessions:
            return
        idle = [
            IdleSession(identifier, NO_TENANT, session.quiet_since + self._idle_s)
            for identifier, session in self._sessions.items()
            if not session.mcp.active_calls
        ]
        open_sessions = {NO_TENANT: len(self._sessions)}  # all belong to the backend
        self._end(select_session_to_evict(idle, open_sessions, NO_TENANT, limit=self._max_sessions))

    async def _serve(self, identifier: str, session: _LiveSession) -> None:
        try:
            await session.mcp.run()
        except Exception:
            log.exception("remote.session_crashed", session=redact_session_id(identifier))
        finally:
            if self._sessions.get(identifier) is session:
                del self._sessions[identifier]
            log.info("remote.session_ended", session=redact_session_id(identifier))

    async def _send_from(self, identifier: str, message: Mapping[str, object]) -> None:
        if session := self._sessions.get(identifier):
            session.quiet_since = self._clock()
        await self._send(identifier, message)

    def _end(self, identifier: str) -> None:
        self._sessions.pop(identifier).mcp.close()

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(min(self._idle_s / 4, POLL_S))
            long_ago = self._clock() - self._idle_s
            for identifier, session in tuple(self._sessions.items()):
                if session.quiet_since <= long_ago and not session.mcp.open_requests:
                    self._end(identifier)
