"""Whether this replica should get traffic, and what is wrong with its dependencies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase

Check = Callable[[], Mapping[str, object]]
"""Tells of one dependency without asking it: ``{"status": "ok" | "degraded", …}``."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """``status`` is ready, degraded, starting or stopping; ``checks`` has a line for each part."""

    status: str
    checks: Mapping[str, Mapping[str, object]]

    @property
    def serving(self) -> bool:
        """Whether traffic should come here: a degraded dependency takes no replica out."""
        return self.status in {"ready", "degraded"}


class Health:
    """Asks each dependency's last known state (contract §1, /health/ready)."""

    def __init__(self, lifecycle: Lifecycle, checks: Mapping[str, Check]) -> None:
        self._lifecycle = lifecycle
        self._checks = checks

    def readiness(self) -> Readiness:
        """Say whether this replica is ready; touches no dependency."""
        checks = {name: check() for name, check in self._checks.items()}
        if self._lifecycle.phase is not Phase.SERVING:
            return Readiness(self._lifecycle.phase.value, checks)
        degraded = any(check["status"] != "ok" for check in checks.values())
        return Readiness("degraded" if degraded else "ready", checks)
