"""Whether this replica should get traffic, and what is wrong with its dependencies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase

CheckResult = Mapping[str, object]
"""What is told of one dependency: ``{"status": "ok" | "degraded", …}``."""

ReadinessCheck = Callable[[], CheckResult]
"""Tells of one dependency without asking it."""

_WELL = frozenset({ServerState.READY, ServerState.DISABLED})


@dataclass(frozen=True, slots=True)
class Readiness:
    """``status`` is ready, degraded, starting or stopping; ``checks`` has a line for each part."""

    status: str
    checks: Mapping[str, CheckResult]

    @property
    def serving(self) -> bool:
        """Whether traffic should come here: a degraded dependency takes no replica out."""
        return self.status in {"ready", "degraded"}

    @property
    def brief(self) -> "Readiness":
        """The same for whoever is no operator: states and numbers, no errors, problems or paths."""
        checks = {name: _brief(line) for name, line in self.checks.items()}
        return Readiness(self.status, checks)


def _brief(line: CheckResult) -> CheckResult:
    return {
        key: value
        for key, value in line.items()
        if key in ("status", "state") or isinstance(value, int | float)
    }


class Health:
    """Asks each dependency's last known state (contract §1, /health/ready)."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        checks: Mapping[str, ReadinessCheck],
        servers: Callable[[], Iterable[ServerStatus]] = tuple,
        started: Callable[[], bool] = lambda: True,
    ) -> None:
        """``started`` tells whether the servers of the start were waited for long enough."""
        self._lifecycle = lifecycle
        self._checks = dict(checks)
        self._servers = servers
        self._started = started

    def add(self, name: str, check: ReadinessCheck) -> None:
        """Tell of one dependency more: one that is built after this."""
        self._checks[name] = check

    def readiness(self) -> Readiness:
        """Say whether this replica is ready; touches no dependency."""
        checks = {name: check() for name, check in self._checks.items()}
        checks |= {f"server:{server.server_id}": _server_line(server) for server in self._servers()}
        if self._lifecycle.phase is not Phase.SERVING:
            return Readiness(self._lifecycle.phase.value, checks)
        if not self._started():
            return Readiness(Phase.STARTING.value, checks)
        degraded = any(check["status"] != "ok" for check in checks.values())
        return Readiness("degraded" if degraded else "ready", checks)


def backend_readiness(status: RemoteStatus, problem: str | None = None) -> CheckResult:
    """Tell of the remote backend; one that is away degrades, other callers are served as before.

    ``problem`` is why all that it asks is refused.
    """
    line = {
        "status": "ok" if status.state is RemoteState.ONLINE and problem is None else "degraded",
        "state": status.state.value,
        "since": status.since,
        "last_error": status.last_error,
        "problem": problem,
    }
    return {key: value for key, value in line.items() if value is not None}


def _server_line(server: ServerStatus) -> CheckResult:
    well = server.state in _WELL and not server.stale and not server.problems
    line: dict[str, object] = {
        "status": "ok" if well else "degraded",
        "state": server.state.value,
        "stale": server.stale,
    }
    return line | ({"problems": server.problems} if server.problems else {})
