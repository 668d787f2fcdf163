"""Records of the older eras' sessions: last use, settings, and end.

A session ends by DELETE, after being idle too long, or at MAX_AGE_S.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.mcp.server.clients import LEVELS
from mcp_tools_proxy.mcp.server.http.session_ids import SessionClaims, SessionName
from mcp_tools_proxy.telemetry.recorder import cut

if TYPE_CHECKING:
    from mcp_tools_proxy.mcp.server.http.shared_sessions import SharedSessions, SharedState

MAX_AGE_S = 7 * 24 * 3600
"""Seconds after which every session ends, so that records do not live forever."""

MAX_KNOWN = 100_000
"""Limit of recorded active sessions (20 to 40 MB), and of ended ones; the oldest are dropped."""


@dataclass(slots=True)
class SessionRecord:
    """Record of a session."""

    used: float
    """Time of the last use, on the clock of its records."""
    client_name: str | None = None
    """The client's name, which ids have no space for; None at replicas without its handshake."""
    users: int = 0
    """Number of its HTTP requests in progress here, including its stream."""
    log_level: str = LEVELS[0]
    """With Redis: the lowest level of log messages that the client wants."""
    uris: frozenset[str] = field(default=frozenset())
    """With Redis: the resources that the client subscribed to on any replica."""

    def update(self, state: "SharedState") -> None:
        """Apply settings that the client has changed at other replicas."""
        self.log_level = state.log_level if state.log_level in LEVELS else LEVELS[0]
        self.uris = state.uris


class SessionRecords:
    """Records sessions, and loads those that are unknown here from ``shared``.

    Without ``shared``, an unknown session has ended if no other process can read the ids
    (``is_alone``). Otherwise another replica may have served it, so it counts as active.
    """

    def __init__(
        self,
        *,
        idle_s: float,
        is_alone: bool,
        shared: "SharedSessions | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle_s = idle_s
        self.is_alone = is_alone
        self._shared = shared
        self._clock = clock
        self._known: dict[SessionName, SessionRecord] = {}
        """The active sessions, the longest idle first."""
        self._ended: dict[SessionName, None] = {}
        """Sessions that were ended explicitly, the oldest first."""
        self._all_known_from = clock()
        """From this time on, ``_known`` has every session used within ``idle_s``."""

    def begin(self, name: SessionName, client_name: str | None = None) -> None:
        """Record a new session."""
        now = self._clock()
        client_name = None if client_name is None else cut(client_name)
        self._keep(name, SessionRecord(now, client_name), now)

    def is_known(self, name: SessionName) -> bool:
        """Return whether a session was used here and is active."""
        return name in self._known

    async def use(self, claims: SessionClaims) -> SessionRecord | None:
        """Return the record of a session and mark it as used; None if the session has ended."""
        now = self._clock()
        self._forget_idle(now)
        if claims.name in self._ended or claims.age_s > MAX_AGE_S:
            return None
        record = self._known.pop(claims.name, None) or await self._load(claims, now)
        if record is not None:
            self._keep(claims.name, record, now)
        return record

    def end(self, name: SessionName) -> None:
        """Record that a session has ended."""
        self._known.pop(name, None)
        self._ended[name] = None
        if len(self._ended) > MAX_KNOWN:
            del self._ended[next(iter(self._ended))]

    def leave(self, name: SessionName, record: SessionRecord) -> None:
        """Decrement the users of a session; its last use is now."""
        record.users -= 1
        if name in self._known:
            del self._known[name]
            self._keep(name, record, self._clock())

    def used_since(self, moment: float) -> Sequence[SessionName]:
        """Return the sessions used here since ``moment``, on the clock of these records."""
        return [
            name for name, record in self._known.items() if record.users or record.used >= moment
        ]

    def is_unused(self, record: SessionRecord) -> bool:
        """Return whether a session is unused and has been idle for ``idle_s``."""
        return not record.users and record.used <= self._clock() - self._idle_s

    def update(self, name: SessionName, state: "SharedState") -> SessionRecord | None:
        """Apply the state of a session in Redis; return its record, None if it has ended."""
        if state.has_ended:
            self.end(name)
        record = self._known.get(name)
        if record is not None:
            record.update(state)
        return record

    async def _load(self, claims: SessionClaims, now: float) -> SessionRecord | None:
        record = SessionRecord(now)
        if self._shared is None:
            return None if self.is_alone and now >= self._all_known_from else record
        states = await self._shared.load([claims.name])
        # Redis failed; serving an ended session is better than refusing an active one
        if states is None:
            return record
        (state,) = states
        if state.has_ended:
            self.end(claims.name)
            return None
        if not state.is_known and claims.age_s > self._idle_s:
            self.end(claims.name)
            await self._shared.end(claims.name)
            return None
        record.update(state)
        return record

    def _keep(self, name: SessionName, record: SessionRecord, now: float) -> None:
        record.used = now
        self._known[name] = record
        if len(self._known) > MAX_KNOWN:
            self._forget_first(now)
            self._all_known_from = now + self._idle_s

    def _forget_idle(self, now: float) -> None:
        while self._known:
            if self._known[next(iter(self._known))].used > now - self._idle_s:
                return
            self._forget_first(now)

    def _forget_first(self, now: float) -> None:
        """Drop the longest idle session; one with an open stream counts as used now."""
        name = next(iter(self._known))
        record = self._known.pop(name)
        if record.users:
            record.used = now
            self._known[name] = record
