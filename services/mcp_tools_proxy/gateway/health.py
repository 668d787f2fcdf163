"""Readiness of this replica and the state of its dependencies."""

from collections.abc import Callable, Iterable, Mapping

from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase

CheckResult = Mapping[str, object]
"""State of one dependency in ``/health/ready``: ``{"status": "ok" | "degraded", …}``."""

ReadinessCheck = Callable[[], CheckResult | None]
"""Returns the last known state of a dependency without contacting it.

None while only another worker process uses it.
"""

_HEALTHY = frozenset({ServerState.READY, ServerState.DISABLED})


@dataclass(frozen=True, slots=True)
class Readiness:
    """``status`` is ready, degraded, starting or stopping; ``checks`` has all dependencies."""

    status: str
    checks: Mapping[str, CheckResult]

    @property
    def serving(self) -> bool:
        """Whether this replica should receive traffic; degraded replicas do."""
        return self.status in {"ready", "degraded"}

    @property
    def brief(self) -> "Readiness":
        """The report for non-operators: states and numbers without errors, problems and paths."""
        checks = {name: _brief(check) for name, check in self.checks.items()}
        return Readiness(self.status, checks)


def _brief(check: CheckResult) -> CheckResult:
    return {
        key: value
        for key, value in check.items()
        if key in ("status", "state") or isinstance(value, int | float)
    }


class Health:
    """Collects the last known state of each dependency (contract §1, /health/ready)."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        checks: Mapping[str, ReadinessCheck],
        servers: Callable[[], Iterable[ServerStatus]] = tuple,
        started: Callable[[], bool] = lambda: True,
    ) -> None:
        """Initialize; ``started`` returns whether the startup wait is over."""
        self._lifecycle = lifecycle
        self._checks = checks
        self._servers = servers
        self._started = started

    def readiness(self) -> Readiness:
        """Return the readiness of this replica from last known states, without I/O."""
        found = ((name, check()) for name, check in self._checks.items())
        checks = {name: result for name, result in found if result is not None}
        checks |= {f"server:{it.server_id}": _server_check(it) for it in self._servers()}
        if self._lifecycle.phase is not Phase.SERVING:
            return Readiness(self._lifecycle.phase.value, checks)
        if not self._started():
            return Readiness(Phase.STARTING.value, checks)
        degraded = any(check["status"] != "ok" for check in checks.values())
        return Readiness("degraded" if degraded else "ready", checks)


def backend_readiness(status: RemoteStatus, problem: str | None = None) -> CheckResult:
    """Build the readiness check of the remote backend.

    An offline backend degrades the replica, which still serves other callers. ``problem`` is the
    reason why all calls of the backend are refused, or None.
    """
    check = {
        "status": "ok" if status.state is RemoteState.ONLINE and problem is None else "degraded",
        "state": status.state.value,
        "since": status.since,
        "last_error": status.last_error,
        "problem": problem,
    }
    return without_none(check)


def _server_check(server: ServerStatus) -> CheckResult:
    is_healthy = server.state in _HEALTHY and not server.stale and not server.problems
    check: dict[str, object] = {
        "status": "ok" if is_healthy else "degraded",
        "state": server.state.value,
        "stale": server.stale,
        "reason": None if is_healthy or server.state is ServerState.READY else server.unavailable,
        "problems": server.problems or None,
    }
    return without_none(check)
