"""The sessions of the backend: one conversation for each ``session_identifier`` (W-02, W-04)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import InvalidRequest

SHOWN_CHARS = 8
"""As much of a session's identifier as log lines show, and at most half of it: who knows all of it
may speak in it."""

POLL_S = 30.0
"""The longest pause between two looks for sessions that nothing uses, in seconds."""

log = structlog.get_logger()

Send = Callable[[Mapping[str, object]], Awaitable[None]]
"""Sends one message of a session."""


class McpSession(Protocol):
    """One MCP session whose messages are parsed JSON."""

    @property
    def open_requests(self) -> int:
        """Requests that are not answered yet, streams of changes included."""
        ...

    @property
    def has_active_calls(self) -> bool:
        """Whether a request other than for a stream of changes waits for its answer."""
        ...

    async def answered(self) -> None:
        """Wait until no request waits for its answer."""
        ...

    async def run(self) -> None:
        """Serve until closed."""
        ...

    def close(self) -> None:
        """End here and now."""
        ...

    async def receive(self, content: object) -> None:
        """Take one message. Raises InvalidRequest for what is left without an answer."""
        ...


SessionFactory = Callable[[Send], McpSession]
"""Begins a conversation whose messages are sent by its argument."""


@dataclass(slots=True)
class _LiveSession:
    mcp: McpSession
    quiet_since: float


class RemoteSessions:
    """Hands each message to its session, in order; a session begins with its first request.

    At most ``max_sessions``: for one more the one that was quiet longest ends, of those that no
    request uses. One that nothing uses ends after ``idle_s`` seconds. ``send`` is told whose
    message it sends.
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
        self._tasks: asyncio.TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def open_requests(self) -> int:
        """Requests of all sessions that are not answered yet."""
        return sum(session.mcp.open_requests for session in self._sessions.values())

    async def run(self) -> None:
        """Hold the sessions, and end those that nothing uses, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._end_idle()
        finally:
            self._tasks = None

    async def deliver(self, identifier: str, message: object) -> None:
        """Hand a message to its session. Raises InvalidRequest for what is left without an answer;
        CapacityExceeded for the first request of a session that there is no room for."""
        session = self._sessions.get(identifier) or self._open(identifier, message)
        self._touch(identifier, session)
        await session.mcp.receive(message)

    async def answered(self) -> None:
        """Wait until no request of any session waits for its answer."""
        for session in tuple(self._sessions.values()):
            await session.mcp.answered()

    def end_all(self) -> None:
        """End every session; its calls are cancelled."""
        for identifier in tuple(self._sessions):
            self._end(identifier)

    def _open(self, identifier: str, message: object) -> _LiveSession:
        if self._tasks is None or not is_request(message):
            raise InvalidRequest("is for no session that is open, and no request that begins one")
        self._make_space()
        mcp = self._session_factory(partial(self._send_from, identifier))
        session = _LiveSession(mcp, self._clock())
        self._sessions[identifier] = session
        self._tasks.create_task(self._serve(identifier, session))
        log.info("remote.session_begun", session=redact(identifier))
        return session

    def _make_space(self) -> None:
        if len(self._sessions) < self._max_sessions:
            return
        for identifier, session in self._sessions.items():  # the one quiet longest is the first
            if not session.mcp.has_active_calls:
                self._end(identifier)
                return
        raise CapacityExceeded(
            f"{self._max_sessions} sessions are open and in use, the most that this service bears; "
            "try again later"
        )

    async def _serve(self, identifier: str, session: _LiveSession) -> None:
        try:
            await session.mcp.run()
        except Exception:
            log.exception("remote.session_crashed", session=redact(identifier))
        finally:
            if self._sessions.get(identifier) is session:
                del self._sessions[identifier]
            log.info("remote.session_ended", session=redact(identifier))

    async def _send_from(self, identifier: str, message: Mapping[str, object]) -> None:
        if session := self._sessions.get(identifier):
            self._touch(identifier, session)
        await self._send(identifier, message)

    def _touch(self, identifier: str, session: _LiveSession) -> None:
        """Make it the one that was quiet shortest."""
        session.quiet_since = self._clock()
        self._sessions[identifier] = self._sessions.pop(identifier, session)

    def _end(self, identifier: str) -> None:
        self._sessions.pop(identifier).mcp.close()

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(min(self._idle_s / 4, POLL_S))
            long_ago = self._clock() - self._idle_s
            for identifier, session in tuple(self._sessions.items()):
                if session.quiet_since <= long_ago and not session.mcp.open_requests:
                    self._end(identifier)


def is_request(message: object) -> bool:
    """Tell whether somebody waits for an answer to this."""
    match message:
        case {"id": bool()}:
            return False
        case {"method": str(), "id": int() | str()}:
            return True
    return False


def redact(identifier: str) -> str:
    """Give what log lines show of a session's identifier."""
    return identifier[: min(SHOWN_CHARS, len(identifier) // 2)]
