"""The sessions that the configuration asks for."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from mcp_tools_proxy.domain.caller import NO_TENANT
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.domain.snapshot import Snapshot
from mcp_tools_proxy.downstream.connection import Dial
from mcp_tools_proxy.downstream.relay.suspended_calls import SuspendedCalls
from mcp_tools_proxy.downstream.session import Session
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics, remove_server

CRASH_PAUSE_S = 1.0
"""The pause before a session that failed by a defect of ours is run again."""

LINGER_S = 0.5
"""How long a session outlives its entry: calls that chose it may not have reached it yet."""

DRAIN_EXTRA_S = 1.0
"""What calls in flight are given beyond their own time-out before their session closes."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Entry:
    """A session, and the task that keeps it running once the pool runs."""

    session: Session
    task: asyncio.Task[None] | None = None
    stopping: bool = False
    """Whether its task is to end when cancelled."""


class Pool:
    """One session for each enabled server, each with its own task; one never waits for another.

    ``apply`` says which servers there should be, before or while ``run`` runs. ``on_change`` is
    called when what some server offers really changed; not by ``apply``.
    """

    def __init__(self, dial: Dial, metrics: Metrics, *, on_change: Callable[[], None]) -> None:
        self._dial = dial
        self._metrics = metrics
        self._on_change = on_change
        self._wanted: Mapping[str, ServerConfig] = {}
        self._entries: dict[str, _Entry] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._suspended_calls = SuspendedCalls()

    def __repr__(self) -> str:
        return f"<Pool {' '.join(repr(entry.session) for entry in self._entries.values())}>"

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """What each enabled server offered at its last good discovery, in the given order."""
        sessions = self._sessions().items()
        return {server_id: s.snapshot for server_id, s in sessions if s.snapshot is not None}

    @property
    def statuses(self) -> tuple[ServerStatus, ...]:
        """How every configured server is now, in the given order."""
        return tuple(self._status_of(config) for config in self._wanted.values())

    @property
    def pending(self) -> Sequence[str]:
        """The servers that are being connected to for the first time, in the given order."""
        return [
            server_id
            for server_id, session in self._sessions().items()
            if session.snapshot is None and not session.tried.is_set()
        ]

    async def wait_first_attempt(
        self, server_id: str, waited_s: float, tenant_id: str = NO_TENANT
    ) -> None:
        """Wait, as a call in flight, until a server's first attempt is over.

        ``waited_s`` of the call's time are over already. Raises ServerBusy; ServerUnavailable when
        the attempt failed, or the call's time is over first.
        """
        session = self.session(server_id)
        if session is None:
            return
        if not await session.sender.wait(session.tried, waited_s, tenant_id):
            raise session.connection_state.unavailable("it is still being connected to")
        if session.snapshot is None and session is self.session(server_id):
            raise session.connection_state.unavailable(session.connection_state.error)

    def track_first_attempts(self) -> Callable[[], bool]:
        """Give what tells whether each server that there is now was tried once."""
        sessions = tuple(self._sessions().values())
        return lambda: all(session.tried.is_set() for session in sessions)

    def session(self, server_id: str) -> Session | None:
        """Find the session of a server; None when there is no such server, or it is disabled."""
        entry = self._entries.get(server_id)
        return entry.session if entry else None

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Make the servers be those of ``wanted``; unchanged ones keep their session.

        A changed one gets a new session at once, which knows what the old one knew. Sessions that
        go let their calls in flight finish first.
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
        """Keep the sessions running until cancelled; then close them all."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._suspended_calls.open(tasks)
                for entry in self._entries.values():
                    entry.task = tasks.create_task(_supervise(entry))
                try:
                    await asyncio.Event().wait()  # until cancelled
                finally:
                    for entry in self._entries.values():
                        entry.stopping = True
        finally:
            self._tasks = None

    async def wait_first_attempts(self, timeout_s: float) -> bool:
        """Wait until each enabled server was tried once; False when the time is over first."""
        try:
            async with asyncio.timeout(timeout_s):
                for session in self._sessions().values():
                    await session.tried.wait()
        except TimeoutError:
            return False
        return True

    def _sessions(self) -> Mapping[str, Session]:
        return {
            server_id: self._entries[server_id].session
            for server_id in self._wanted
            if server_id in self._entries
        }

    def _status_of(self, config: ServerConfig) -> ServerStatus:
        session = self.session(config.server_id)
        if session is not None:
            return session.status
        return ServerStatus(
            server_id=config.server_id, state=ServerState.DISABLED, transport=config.transport
        )

    def _start(self, config: ServerConfig, before: Session | None) -> None:
        session = Session(
            config,
            self._dial,
            ServerMetrics(self._metrics, config.server_id),
            on_change=self._on_change,
            inherited=before.snapshot if before else None,
            subscriptions=before.subscriptions if before else None,
            suspended_calls=self._suspended_calls,
        )
        entry = _Entry(session)
        self._entries[config.server_id] = entry
        if self._tasks is not None:
            entry.task = self._tasks.create_task(_supervise(entry))

    def _stop(self, server_id: str) -> Session:
        entry = self._entries.pop(server_id)
        entry.stopping = True
        entry.session.detach()
        if self._tasks is not None and entry.task is not None:
            self._tasks.create_task(self._drain_and_close(entry.session, entry.task))
        return entry.session

    async def _drain_and_close(self, session: Session, task: asyncio.Task[None]) -> None:
        """Close a session when its calls are done, and forget its metrics unless another has it."""
        await asyncio.sleep(LINGER_S)
        await session.sender.drain(session.config.call_timeout_s + DRAIN_EXTRA_S)
        task.cancel()
        await asyncio.wait([task])
        if session.config.server_id not in self._entries:
            remove_server(self._metrics, session.config.server_id)


async def _supervise(entry: _Entry) -> None:
    """Run a session until cancelled; a defect in it is logged, and takes nothing else down.

    Libraries raise CancelledError of their own, and anyio may take back the count of a task's
    cancellations, so ``cancelling()`` cannot tell: what counts is whether the session is to end.
    """
    while not entry.stopping:
        try:
            await entry.session.run()
        except asyncio.CancelledError:
            if entry.stopping:
                raise
            log.exception("server.crashed", server_id=entry.session.config.server_id)
        except Exception:
            log.exception("server.crashed", server_id=entry.session.config.server_id)
        await asyncio.sleep(CRASH_PAUSE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The server ids to start, to stop, to replace by a new session, and to leave alone."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


def plan(running: Mapping[str, ServerConfig], wanted: Mapping[str, ServerConfig]) -> Plan:
    """Compare what runs with what is wanted; a disabled server is wanted not to run."""
    enabled = {server_id: config for server_id, config in wanted.items() if config.enabled}
    both = [server_id for server_id in enabled if server_id in running]
    return Plan(
        start=tuple(server_id for server_id in enabled if server_id not in running),
        stop=tuple(server_id for server_id in running if server_id not in enabled),
        replace=tuple(s for s in both if running[s] != enabled[s]),
        keep=tuple(s for s in both if running[s] == enabled[s]),
    )
