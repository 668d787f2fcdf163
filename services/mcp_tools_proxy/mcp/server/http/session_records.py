"""What is remembered of sessions of the older eras: their last use, what was set, and their end.

A session ends by DELETE, unused for too long, or of old age.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_tools_proxy.mcp.server.clients import LEVELS
from mcp_tools_proxy.mcp.server.http.session_ids import SessionClaims, SessionName

if TYPE_CHECKING:
    from mcp_tools_proxy.mcp.server.http.shared_sessions import SharedSessions, SharedState

MAX_AGE_S = 7 * 24 * 3600
"""Seconds after which a session ends anyway, so that what a replica remembers of it has an end."""

MAX_KNOWN = 100_000
"""Sessions whose last use, or end, is remembered: about 20 MB. Beyond, the oldest are forgotten."""


@dataclass(slots=True)
class SessionRecord:
    """What is remembered of one session."""

    used: float
    """When it was used last, on the clock of its records."""
    users: int = 0
    """Number of HTTP requests of it that are served here now, its stream's included."""
    log_level: str = LEVELS[0]
    """With Redis: the lowest level of log messages that its client wants."""
    uris: frozenset[str] = field(default=frozenset())
    """With Redis: the resources that it has subscribed to, at whatever replica."""

    def update(self, state: "SharedState") -> None:
        """Apply what clients have set at other replicas."""
        self.log_level = state.log_level if state.log_level in LEVELS else LEVELS[0]
        self.uris = state.uris


class SessionRecords:
    """Remembers sessions, and asks ``shared`` for those that are unknown here.

    Without ``shared`` an unknown session has ended if this process is the only one that can read
    the ids (``is_alone``); else another replica may have served it, and it is taken for one in use.
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
        """The sessions that go on, the longest unused first."""
        self._ended: dict[SessionName, None] = {}
        """Sessions that have ended before their time, the first ended first."""
        self._all_known_from = clock()
        """From then on every session that was used within ``idle_s`` is in ``_known``."""

    def begin(self, name: SessionName) -> None:
        """Remember a session that begins now."""
        now = self._clock()
        self._keep(name, SessionRecord(now), now)

    def is_known(self, name: SessionName) -> bool:
        """Return whether a session was used here and goes on."""
        return name in self._known

    async def use(self, claims: SessionClaims) -> SessionRecord | None:
        """Return the record of a session that goes on and is used now; None if it has ended."""
        now = self._clock()
        self._forget_idle(now)
        if claims.name in self._ended or claims.age_s > MAX_AGE_S:
            return None
        record = self._known.pop(claims.name, None) or await self._load(claims, now)
        if record is not None:
            self._keep(claims.name, record, now)
        return record

    def end(self, name: SessionName) -> None:
        """Remember that a session was ended."""
        self._known.pop(name, None)
        self._ended[name] = None
        if len(self._ended) > MAX_KNOWN:
            del self._ended[next(iter(self._ended))]

    def leave(self, name: SessionName, record: SessionRecord) -> None:
        """Count one user of a session less: it is used until now."""
        record.users -= 1
        if name in self._known:
            del self._known[name]
            self._keep(name, record, self._clock())

    def used_since(self, moment: float) -> Sequence[SessionName]:
        """Return the sessions that were used here since then, by the clock of these records."""
        return [
            name for name, record in self._known.items() if record.users or record.used >= moment
        ]

    def is_unused(self, record: SessionRecord) -> bool:
        """Return whether a session is not in use, and was not for as long as one is kept."""
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
        """Return a record of a session that is unknown here; None if it has ended."""
        record = SessionRecord(now)
        if self._shared is None:
            return None if self.is_alone and now >= self._all_known_from else record
        states = await self._shared.load([claims.name])
        if states is None:  # Redis cannot be used: rather one session too many than one too few
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
        self._known[name] = record  # now the last one
        if len(self._known) > MAX_KNOWN:
            self._forget_first(now)
            self._all_known_from = now + self._idle_s

    def _forget_idle(self, now: float) -> None:
        while self._known:
            if self._known[next(iter(self._known))].used > now - self._idle_s:
                return
            self._forget_first(now)

    def _forget_first(self, now: float) -> None:
        """Forget the session that is unused longest; one whose stream is open is used now."""
        name = next(iter(self._known))
        record = self._known.pop(name)
        if record.users:
            record.used = now
            self._known[name] = record
