"""The state of all worker processes of the service together, as one of them shows it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from mcp_tools_proxy.domain.backend_link import RemoteStatus
from mcp_tools_proxy.domain.server import ServerState, ServerStatus, SessionCounts
from mcp_tools_proxy.gateway.health import CheckResult, Health, Readiness
from mcp_tools_proxy.gateway.lifecycle import Phase
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.telemetry.recent_calls import (
    CallFigures,
    RecentCalls,
    TightBudget,
    tightest_first,
)

READINESS, SERVERS, REMOTE, CALLS, BUDGETS = "readiness", "servers", "remote", "calls", "budgets"
"""Questions to the other workers."""

_FROM_GOOD_TO_BAD = (
    ServerState.DISABLED,
    ServerState.READY,
    ServerState.CONNECTING,
    ServerState.LOGIN_REQUIRED,
    ServerState.RECONNECTING,
    ServerState.UNREACHABLE,
    ServerState.FAILED,
    ServerState.INVALID,
)


class WholeService:
    """Merges the state of this process with that of the other ``workers``, if there are any."""

    def __init__(
        self,
        workers: WorkerGroup,
        health: Health,
        *,
        servers: Callable[[], Sequence[ServerStatus]],
        remote: Callable[[], RemoteStatus | None],
        recent_calls: RecentCalls | None,
    ) -> None:
        """Initialize; ``recent_calls`` is None if calls are not counted."""
        self._workers = workers
        self._health = health
        self._servers = servers
        self._remote = remote
        self._recent_calls = recent_calls
        workers.on(READINESS, lambda _: health.readiness())
        workers.on(SERVERS, lambda _: servers())
        workers.on(REMOTE, lambda _: remote() if workers.leads.is_set() else None)
        if recent_calls is not None:
            workers.on(CALLS, recent_calls.figures)
            workers.on(BUDGETS, recent_calls.budgets.near_end)

    async def readiness(self) -> Readiness:
        """Return the readiness of this process, with the worst state of each dependency."""
        own = self._health.readiness()
        if self._workers.size == 1:
            return own
        others = await self._workers.ask(READINESS)
        checks = _worst_checks([own, *others])
        running = len(others) + 1
        checks["workers"] = {
            "status": "ok" if running >= self._workers.size else "degraded",
            "expected": self._workers.size,
            "running": running,
        }
        is_starting = own.status == Phase.STARTING.value
        if own.serving or (is_starting and any(it.serving for it in others)):
            degraded = is_starting or any(check["status"] != "ok" for check in checks.values())
            return Readiness("degraded" if degraded else own.status, checks)
        return Readiness(own.status, checks)

    async def servers(self) -> Sequence[ServerStatus]:
        """Return the status of each server: that of the worker with the worst one.

        Sessions and reconnects are the sums.
        """
        own = self._servers()
        others = await self._workers.ask(SERVERS)
        if not others:
            return own
        by_id: dict[str, list[ServerStatus]] = {}
        for status in (it for worker in others for it in worker):
            by_id.setdefault(status.server_id, []).append(status)
        return [_merged([status, *by_id.get(status.server_id, ())]) for status in own]

    async def remote(self) -> RemoteStatus | None:
        """Return the state of the link to the backend, which one worker holds; None without."""
        own = self._remote()
        if own is None or self._workers.leads.is_set():
            return own
        of_leader = (it for it in await self._workers.ask(REMOTE) if it is not None)
        return next(of_leader, own)

    async def calls(self, tenant_id: str | None) -> CallFigures | None:
        """Return the calls of the last hour, see RecentCalls; None if they are not counted."""
        if self._recent_calls is None:
            return None
        figures = self._recent_calls.figures(tenant_id)
        for other in await self._workers.ask(CALLS, tenant_id):
            figures.update(other)
        return figures

    async def tight_budgets(self, tenant_id: str | None) -> Sequence[TightBudget] | None:
        """Return the budgets near their end, the tightest first; None if they are not noted."""
        if self._recent_calls is None:
            return None
        own = self._recent_calls.budgets.near_end(tenant_id)
        others = await self._workers.ask(BUDGETS, tenant_id)
        return _tightest_of([own, *others]) if others else own


def _worst_checks(of_workers: Iterable[Readiness]) -> dict[str, CheckResult]:
    worst: dict[str, CheckResult] = {}
    for readiness in of_workers:
        for name, check in readiness.checks.items():
            if name not in worst or worst[name]["status"] == "ok":
                worst[name] = check
    return worst


def _merged(statuses: Sequence[ServerStatus]) -> ServerStatus:
    worst = max(statuses, key=lambda it: (_FROM_GOOD_TO_BAD.index(it.state), it.stale))
    counts = [it.sessions for it in statuses if it.sessions is not None]
    sessions = None
    if counts:
        sessions = SessionCounts(
            open=sum(it.open for it in counts),
            busy=sum(it.busy for it in counts),
            max=sum(it.max for it in counts),
        )
    return replace(worst, sessions=sessions, reconnects=sum(it.reconnects for it in statuses))


def _tightest_of(of_workers: Iterable[Sequence[TightBudget]]) -> Sequence[TightBudget]:
    """Return the tightest budget of each tenant and rule, the tightest first."""
    found: dict[tuple[str, str, str], TightBudget] = {}
    for budget in tightest_first(chain.from_iterable(of_workers)):
        found.setdefault(budget.key, budget)
    return [*found.values()]
