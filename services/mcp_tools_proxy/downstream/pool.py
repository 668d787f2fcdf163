"""The sessions with all configured servers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

import structlog

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller, Kind
from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import (
    Isolation,
    ServerConfig,
    ServerState,
    ServerStatus,
    not_listed,
)
from mcp_tools_proxy.downstream.caller_values import CallerValues
from mcp_tools_proxy.downstream.client_input import SuspendedCalls
from mcp_tools_proxy.downstream.connection import Dial
from mcp_tools_proxy.downstream.isolated_sessions import IsolatedSessions
from mcp_tools_proxy.downstream.known_definitions import KnownDefinitions
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics, remove_server

CRASH_PAUSE_S = 1.0

LINGER_S = 0.5
"""How long a removed session accepts calls that chose it just before."""

DRAIN_EXTRA_S = 1.0
"""Added to the call time-out while draining, so that calls end by their own time-out."""

log = structlog.get_logger()


@dataclass(slots=True)
class _PooledSession:
    session: ReconnectingSession
    isolated: IsolatedSessions | None = None
    """The sessions of tenants or users; None if all callers use ``session``."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    stopping: bool = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        for owner in (self.session, self.isolated):
            if owner is not None:
                self.tasks.append(tasks.create_task(_supervise(self, owner)))


class Pool:
    """A session for each enabled server, each in a separate task.

    ``apply`` sets the wanted servers, before or during ``run``. ``on_change`` is awaited when a
    server's offer has changed, and returns when callers can use it; only then is the server ready.
    ``apply`` does not call it. ``clock`` returns seconds.
    """

    def __init__(
        self,
        dial: Dial,
        metrics: Metrics,
        *,
        on_change: Callable[[], Awaitable[None]],
        caller_values: CallerValues | None = None,
        known_definitions: KnownDefinitions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._known_definitions = known_definitions
        self._dial = dial
        self._metrics = metrics
        self._on_change = on_change
        self._caller_values = caller_values
        self._clock = clock
        self._wanted: Mapping[str, ServerConfig] = {}
        self._entries: dict[str, _PooledSession] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._suspended_calls = SuspendedCalls()

    def __repr__(self) -> str:
        return f"<Pool {' '.join(repr(entry.session) for entry in self._entries.values())}>"

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """The offer of each enabled server at its last good discovery, in configured order."""
        sessions = self._sessions().items()
        return {server_id: s.snapshot for server_id, s in sessions if s.snapshot is not None}

    @property
    def statuses(self) -> tuple[ServerStatus, ...]:
        """The status of every configured server, in configured order."""
        return tuple(self._status_of(config) for config in self._wanted.values())

    @property
    def pending(self) -> Sequence[str]:
        """The ids of the servers that were not tried yet, in configured order."""
        return [server_id for server_id, it in self._sessions().items() if it.is_pending]

    def undiscovered(self, kind: Kind) -> Mapping[str, ServerUnavailable]:
        """Return the errors of calls to servers that never listed items of this kind, by id.

        Servers that were not tried yet are left out.
        """
        return {
            server_id: _unavailable(session, kind)
            for server_id, session in self._sessions().items()
            if not session.is_pending
            and (session.snapshot is None or session.snapshot.lacks_list(kind))
        }

    async def wait_first_attempt(
        self, server_id: str, waited_s: float, tenant_id: str = NO_TENANT
    ) -> None:
        """Wait until the first attempt to connect to a server is over, counted as a call in flight.

        ``waited_s`` seconds of the call's time-out are spent already. Raises ServerBusy, and
        ServerUnavailable if the attempt fails or the time-out ends first.
        """
        session = self.session(server_id)
        if session is None:
            return
        if not await session.sender.wait(session.first_attempt_over, waited_s, tenant_id):
            raise session.connection_state.unavailable("the gateway is still connecting to it")
        if session.snapshot is None and session is self.session(server_id):
            raise _unavailable(session)

    def track_first_attempts(self) -> Callable[[], bool]:
        """Return a function that returns whether each current server was tried once."""
        sessions = tuple(self._sessions().values())
        return lambda: all(session.first_attempt_over.is_set() for session in sessions)

    def session(self, server_id: str) -> ReconnectingSession | None:
        """Return the session of a server; None if the server is unknown or disabled."""
        entry = self._entries.get(server_id)
        return entry.session if entry else None

    def reconnect(self, server_id: str) -> bool:
        """Close and reopen the connections to a server; return whether it has a session.

        Calls in flight end as with a lost connection; a pause before the next attempt ends.
        """
        entry = self._entries.get(server_id)
        if entry is None:
            return False
        entry.session.connection_state.request_reconnect()
        if entry.isolated is not None:
            entry.isolated.reconnect()
        return True

    async def check_call(self, server_id: str, caller: Caller) -> str | None:
        """Check that a call has everything that the server's entry needs, and could be sent.

        The caller is taken as proven. Returns a remark about conditions that only a call can check,
        or None. Sends nothing. Raises IdentityRequired, CredentialsMissing, LoginRequired,
        LoginsUnavailable, and ServerUnavailable without a connection, or with an open circuit.
        """
        entry = self._entries.get(server_id)
        if entry is None:
            return None
        session = entry.session
        needs_jwt = await session.caller_values.check(session.config, caller)
        if entry.isolated is None:
            session.check_circuit(caller.tenant_id)
            if session.connection_state.check():
                return f"a call waits for the attempt to connect to server {server_id}"
        else:
            entry.isolated.check_circuit(caller)
            if session.status.state is not ServerState.READY:
                own = "each caller has its own session, which may still work"
                return f"{session.status.unavailable}; {own}"
        if needs_jwt:
            return "a call without a JWT that names the user fails with IDENTITY_REQUIRED"
        return None

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Start, stop and replace sessions to match ``wanted``; unchanged servers keep theirs.

        A changed server gets a new session at once, with the snapshot of the old one, and its
        subscriptions unless the isolation changed. Removed sessions finish their calls before they
        close.
        """
        running = {server_id: entry.session.config for server_id, entry in self._entries.items()}
        changes = plan(running, wanted)
        for server_id in changes.stop:
            self._stop(server_id)
            remove_server(self._metrics, server_id)
        for server_id in changes.replace:
            self._start(wanted[server_id], self._stop(server_id))
        for server_id in changes.start:
            self._start(wanted[server_id], None)
        self._wanted = dict(wanted)

    async def run(self) -> None:
        """Run the sessions until cancelled; then close all of them."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._suspended_calls.open(tasks)
                for entry in self._entries.values():
                    entry.start(tasks)
                try:
                    await asyncio.Event().wait()
                finally:
                    for entry in self._entries.values():
                        entry.stopping = True
        finally:
            self._tasks = None

    async def wait_first_attempts(self, timeout_s: float) -> bool:
        """Wait until each enabled server was tried once; return False on time-out."""
        try:
            async with asyncio.timeout(timeout_s):
                for session in self._sessions().values():
                    await session.first_attempt_over.wait()
        except TimeoutError:
            return False
        return True

    def _sessions(self) -> Mapping[str, ReconnectingSession]:
        return {
            server_id: self._entries[server_id].session
            for server_id in self._wanted
            if server_id in self._entries
        }

    def _status_of(self, config: ServerConfig) -> ServerStatus:
        entry = self._entries.get(config.server_id)
        if entry is not None:
            status = entry.session.status
            if entry.isolated is None:
                return status
            return replace(status, sessions=entry.isolated.counts)
        return ServerStatus(
            server_id=config.server_id,
            state=ServerState.DISABLED,
            transport=config.transport,
            original_id=config.original_id,
        )

    def _start(self, config: ServerConfig, before: _PooledSession | None) -> None:
        kept = None  # subscriptions of tenants must not become those of all callers
        if before is not None and before.session.config.isolation is config.isolation:
            kept = before.session.subscriptions
        session = ReconnectingSession(
            config,
            self._dial,
            ServerMetrics(self._metrics, config.server_id),
            on_change=self._on_change,
            inherited=before.session.discovered if before else None,
            subscriptions=kept,
            suspended_calls=self._suspended_calls,
            caller_values=self._caller_values,
            caller=config.discovery_caller,
            known_definitions=self._known_definitions,
            clock=self._clock,
        )
        entry = _PooledSession(session)
        if config.isolation is not Isolation.SHARED:
            entry.isolated = IsolatedSessions(
                session, self._dial, before.isolated if before else None
            )
        self._entries[config.server_id] = entry
        if self._tasks is not None:
            entry.start(self._tasks)

    def _stop(self, server_id: str) -> _PooledSession:
        entry = self._entries.pop(server_id)
        entry.stopping = True
        if entry.isolated is not None:
            entry.session.metrics.set_sessions(0)
        entry.session.detach()
        if self._tasks is not None and entry.tasks:
            self._tasks.create_task(self._drain_and_close(entry))
        return entry

    async def _drain_and_close(self, entry: _PooledSession) -> None:
        """Close sessions after their calls; remove the metrics unless a newer session has them."""
        session = entry.session
        await asyncio.sleep(LINGER_S)
        timeout_s = session.config.call_timeout_s + DRAIN_EXTRA_S
        await session.sender.drain(timeout_s)
        if entry.isolated is not None:
            await entry.isolated.drain(timeout_s)
        for task in entry.tasks:
            task.cancel()
        await asyncio.wait(entry.tasks)
        if session.config.server_id not in self._entries:
            remove_server(self._metrics, session.config.server_id)


def _unavailable(session: ReconnectingSession, kind: Kind = Kind.TOOL) -> ServerUnavailable:
    state = session.connection_state
    if session.needs_login:
        return state.without_login
    return state.unavailable(state.error if state.connection is None else not_listed(kind))


class _Owner(Protocol):
    async def run(self) -> None: ...


async def _supervise(entry: _PooledSession, owner: _Owner) -> None:
    """Run an entry's sessions until cancelled; restart after a crash.

    Libraries raise CancelledError themselves, and anyio can revert the count of a task's
    cancellations, so only ``entry.stopping`` is reliable, not ``Task.cancelling()``.
    """
    while not entry.stopping:
        try:
            await owner.run()
        except asyncio.CancelledError:
            if entry.stopping:
                raise
            log.exception("server.crashed", server_id=entry.session.config.server_id)
        except Exception:
            log.exception("server.crashed", server_id=entry.session.config.server_id)
        await asyncio.sleep(CRASH_PAUSE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The ids of the servers to start, stop, replace by a new session, or keep."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


def plan(running: Mapping[str, ServerConfig], wanted: Mapping[str, ServerConfig]) -> Plan:
    """Compare the running servers with the wanted ones. Disabled servers are not wanted."""
    enabled = {server_id: config for server_id, config in wanted.items() if config.enabled}
    both = [server_id for server_id in enabled if server_id in running]
    return Plan(
        start=tuple(server_id for server_id in enabled if server_id not in running),
        stop=tuple(server_id for server_id in running if server_id not in enabled),
        replace=tuple(s for s in both if running[s] != enabled[s]),
        keep=tuple(s for s in both if running[s] == enabled[s]),
    )
