"""Keeps the link to the backend up: dials, serves the link until it ends, and dials again."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import structlog

from mcp_tools_proxy.domain.backend_link import RemoteState
from mcp_tools_proxy.mcp.connector.websocket_link import FaultKind, Link, LinkFault
from mcp_tools_proxy.storage.file_watch import RETRY_S, file_changes
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.identifiers import is_visible_ascii

STEADY_S = 30.0
"""Seconds after which a link counts as steady and is redialled at once; others after a pause.

Two gateways with one identifier evict each other, and would otherwise do so in a tight loop.
"""

SHORTEST_S = 0.25
"""The first pause after an accidental fault, in seconds."""

REFUSED_SHORTEST_S = 1.0
REFUSED_LONGEST_S = 30.0
"""The first and the longest pause after a deliberate fault, in seconds."""

RETRY_AFTER_LONGEST_S = 300.0
"""The longest ``Retry-After`` that is respected, in seconds."""


class Token(Protocol):
    """Source of the token."""

    @property
    def problem(self) -> str | None:
        """Why the last ``read`` returned None."""
        ...

    async def read(self) -> str | None:
        """Return the token, or None."""
        ...

    async def wait_for_change(self, refused: str | None) -> None:
        """Wait for a token other than ``refused``."""
        ...


def pause_before_dial(
    fault: LinkFault,
    setbacks: int,
    random: Callable[[], float],
    *,
    uptime_s: float,
    longest_s: float,
) -> float:
    """Return the pause in seconds: exponential, with a jitter of 50 to 100 %.

    ``setbacks`` counts the preceding consecutive faults of the same nature (accidental or
    deliberate). ``uptime_s`` is how long the link was up, ``longest_s`` the longest pause after
    accidental faults; ``random`` returns 0 … 1. ``Retry-After`` is only a minimum: 0 s does not
    mean no pause.
    """
    if uptime_s >= STEADY_S:
        return 0.0
    retry_after_s = min(fault.retry_after_s or 0.0, RETRY_AFTER_LONGEST_S)
    backoff = Backoff(first_s=SHORTEST_S, longest_s=longest_s)
    if fault.kind.is_deliberate:
        backoff = Backoff(first_s=REFUSED_SHORTEST_S, longest_s=max(longest_s, REFUSED_LONGEST_S))
    return max(retry_after_s, backoff.pause_s(setbacks, random))


_STATE_GROUPS = {RemoteState.ONLINE: "up", RemoteState.UNAUTHORIZED: "refused"}
"""CONNECTING and OFFLINE share a start time, since they alternate until a link is up."""

log = structlog.get_logger()


class BackendDialer:
    """Dials while ``run`` runs; the public attributes report its progress.

    ``dial`` opens a link with a token, ``serve`` uses it until it ends. ``ready`` is awaited before
    the first dial. ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self,
        dial: Callable[[str], AbstractAsyncContextManager[Link]],
        token: Token,
        serve: Callable[[Link], Awaitable[None]],
        *,
        ready: Callable[[], Awaitable[object]],
        metrics: Metrics,
        retry_max_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dial = dial
        self._token = token
        self._serve = serve
        self._ready = ready
        self._metrics = metrics
        self._retry_max_s = retry_max_s
        self._clock = clock
        self._last_fault: LinkFault | None = None
        self._setbacks = 0
        self._next_at: float | None = None
        self.state = RemoteState.CONNECTING
        self.since = _now()
        self.attempts = 0
        self.links = 0

    def __repr__(self) -> str:
        return f"<BackendDialer {self.state.value}, {self.attempts} attempts>"

    @property
    def last_error(self) -> str | None:
        """Why the last link was lost or could not be opened; None while one is up."""
        if self.state is RemoteState.ONLINE or self._last_fault is None:
            return None
        return str(self._last_fault)

    @property
    def next_attempt_s(self) -> float | None:
        """Seconds until the next dial; None if none is planned."""
        return None if self._next_at is None else max(0.0, self._next_at - self._clock())

    async def run(self) -> None:
        """Dial after ``ready``, and again after each loss, until cancelled."""
        await self._ready()
        while True:
            self._set_state(RemoteState.CONNECTING)
            token = await self._token.read()
            fault, uptime_s = await self._run_link(token)
            self._metrics.remote_link_losses.labels(fault.kind.value).inc()
            if fault.kind is FaultKind.UNAUTHORIZED:
                await self._wait_for_other_token(token, fault)
            else:
                await self._pause(fault, uptime_s)

    async def _run_link(self, token: str | None) -> tuple[LinkFault, float]:
        self.attempts += 1
        if token is None:
            why = f"the token cannot be read: its file {self._token.problem}"
            return LinkFault(FaultKind.UNAUTHORIZED, why), 0.0
        try:
            async with self._dial(token) as link:
                began = self._clock()
                self._online()
                await self._serve(link)
                return link.fault, self._clock() - began
        except LinkFault as fault:
            return fault, 0.0
        except Exception:
            log.exception("remote.link_crashed")
            return LinkFault(FaultKind.LOST, "internal error; see the log"), 0.0

    def _online(self) -> None:
        self.links += 1
        self.attempts = 0
        self._metrics.remote_links.inc()
        self._set_state(RemoteState.ONLINE)
        log.info("remote.online", links=self.links)

    async def _wait_for_other_token(self, token: str | None, fault: LinkFault) -> None:
        self._record_failure(fault)
        self._set_state(RemoteState.UNAUTHORIZED)
        log.error("remote.unauthorized", reason=str(fault))
        await self._token.wait_for_change(token)
        self._setbacks = 0

    async def _pause(self, fault: LinkFault, uptime_s: float) -> None:
        is_new = self._record_failure(fault) or uptime_s > 0
        pause_s = pause_before_dial(
            fault,
            self._setbacks,
            random.random,
            uptime_s=uptime_s,
            longest_s=self._retry_max_s,
        )
        self._setbacks = 0 if uptime_s >= STEADY_S else self._setbacks + 1
        self._next_at = self._clock() + pause_s
        self._set_state(RemoteState.OFFLINE)
        log_event = log.warning if is_new else log.debug
        log_event("remote.offline", reason=str(fault), dialled_again_in_s=round(pause_s, 3))
        await asyncio.sleep(pause_s)
        self._next_at = None

    def _record_failure(self, fault: LinkFault) -> bool:
        """Store the fault; return whether its reason differs from the last one.

        A change between accidental and deliberate faults resets the back-off.
        """
        last, self._last_fault = self._last_fault, fault
        if last is None or last.kind.is_deliberate is not fault.kind.is_deliberate:
            self._setbacks = 0
        return last is None or str(last) != str(fault)

    def _set_state(self, state: RemoteState) -> None:
        if _STATE_GROUPS.get(state) != _STATE_GROUPS.get(self.state):
            self.since = _now()
        self.state = state
        self._metrics.remote_up.set(state is RemoteState.ONLINE)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


MAX_BYTES = 64 * 1024


class FixedToken:
    """A token from the settings; it changes only at a restart."""

    problem: str | None = None

    def __init__(self, token: str) -> None:
        self._token = token

    async def read(self) -> str | None:
        """Return the token."""
        return self._token

    async def wait_for_change(self, refused: str | None) -> None:
        """Wait forever."""
        await asyncio.Event().wait()


class FileToken:
    """A token in a file that can change at any time; surrounding white space is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problem: str | None = None
        """Why the last ``read`` returned None; without the path, as callers can see this text."""
        self._is_readable = True

    def __repr__(self) -> str:
        return f"<FileToken problem={self.problem!r}>"

    async def read(self) -> str | None:
        """Read the file; return None if it holds no token, and log each new problem once."""
        token, problem = await asyncio.to_thread(self._load)
        if problem is not None and problem != self.problem:
            log.error("remote.token_unreadable", source=str(self._path), reason=problem)
        self.problem = problem
        return token

    async def wait_for_change(self, refused: str | None) -> None:
        """Read the file at once and after each change, until it holds another token.

        An unreadable file is retried every RETRY_S seconds, since the watcher does not see
        permission changes.
        """
        async for _ in file_changes(self._path):
            token = await self.read()
            while not self._is_readable:
                await asyncio.sleep(RETRY_S)
                token = await self.read()
            if token not in (None, refused):
                return

    def _load(self) -> tuple[str | None, str | None]:
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._is_readable = isinstance(error, FileNotFoundError)
            return None, f"cannot be read: {error.strerror}"
        self._is_readable = True
        text = content.strip().decode("ascii", errors="replace")
        if not text or len(content) > MAX_BYTES or not is_visible_ascii(text):
            return None, "should hold one token, printable ASCII without spaces"
        return text, None
