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
class _Kept:
    """A session, and the task that keeps it running once the pool runs."""

    session: Session
    task: asyncio.Task[None] | None = None
    ends: bool = False
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
        self._kept: dict[str, _Kept] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._parking = SuspendedCalls()

    def __repr__(self) -> str:
        return f"<Pool {' '.join(repr(kept.session) for kept in self._kept.values())}>"

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

    async def first_attempt(
        self, server_id: str, waited_s: float, tenant_id: str = NO_TENANT
    ) -> None:
        """Wait, as a call in flight, until a server's first attempt is over.

        ``waited_s`` of the call's time are over already. Raises ServerBusy; ServerUnavailable when
        the attempt failed, or the call's time is over first.
        """
        session = self.session(server_id)
        if session is None:
            return
        if not await session.requests.wait(session.tried, waited_s, tenant_id):
            raise session.current.unavailable("it is still being connected to")
        if session.snapshot is None and session is self.session(server_id):
            raise session.current.unavailable(session.current.error)

    def first_attempts(self) -> Callable[[], bool]:
        """Give what tells whether each server that there is now was tried once."""
        sessions = tuple(self._sessions().values())
        return lambda: all(session.tried.is_set() for session in sessions)

    def session(self, server_id: str) -> Session | None:
        """Find the session of a server; None when there is no such server, or it is disabled."""
        kept = self._kept.get(server_id)
        return kept.session if kept else None

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Make the servers be those of ``wanted``; unchanged ones keep their session.

        A changed one gets a new session at once, which knows what the old one knew. Sessions that
        go let their calls in flight finish first.
        """
        running = {server_id: kept.session.config for server_id, kept in self._kept.items()}
        todo = plan(running, wanted)
        for server_id in todo.stop:
            self._stop(server_id)
            remove_server(self._metrics, server_id)
        for server_id in todo.replace:
            self._start(wanted[server_id], self._stop(server_id))
        for server_id in todo.start:
            self._start(wanted[server_id], None)
        self._wanted = dict(wanted)

    async def run(self) -> None:
        """Keep the sessions running until cancelled; then close them all."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._parking.open(tasks)
                for kept in self._kept.values():
                    kept.task = tasks.create_task(_keep(kept))
                try:
                    await asyncio.Event().wait()  # until cancelled
                finally:
                    for kept in self._kept.values():
                        kept.ends = True
        finally:
            self._tasks = None

    async def settled(self, timeout_s: float) -> bool:
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
            server_id: self._kept[server_id].session
            for server_id in self._wanted
            if server_id in self._kept
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
            watched=before.watched if before else None,
            parking=self._parking,
        )
        kept = _Kept(session)
        self._kept[config.server_id] = kept
        if self._tasks is not None:
            kept.task = self._tasks.create_task(_keep(kept))

    def _stop(self, server_id: str) -> Session:
        kept = self._kept.pop(server_id)
        kept.ends = True
        kept.session.leave()
        if self._tasks is not None and kept.task is not None:
            self._tasks.create_task(self._drain_and_close(kept.session, kept.task))
        return kept.session

    async def _drain_and_close(self, session: Session, task: asyncio.Task[None]) -> None:
        """Close a session when its calls are done, and forget its metrics unless another has it."""
        await asyncio.sleep(LINGER_S)
        await session.requests.drain(session.config.call_timeout_s + DRAIN_EXTRA_S)
        task.cancel()
        await asyncio.wait([task])
        if session.config.server_id not in self._kept:
            remove_server(self._metrics, session.config.server_id)


async def _keep(kept: _Kept) -> None:
    """Run a session until cancelled; a defect in it is logged, and takes nothing else down.

    Libraries raise CancelledError of their own, and anyio may take back the count of a task's
    cancellations, so ``cancelling()`` cannot tell: what counts is whether the session is to end.
    """
    while not kept.ends:
        try:
            await kept.session.run()
        except asyncio.CancelledError:
            if kept.ends:
                raise
            log.exception("server.crashed", server_id=kept.session.config.server_id)
        except Exception:
            log.exception("server.crashed", server_id=kept.session.config.server_id)
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
