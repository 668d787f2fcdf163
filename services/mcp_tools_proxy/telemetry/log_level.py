"""The level of this process's log, which an operator can change while it runs."""

import asyncio
from collections.abc import Callable
from typing import Literal

import structlog

from mcp_tools_proxy.telemetry.logging import set_log_level

LevelName = Literal["debug", "info", "warning", "error"]

log = structlog.get_logger()


class LogLevel:
    """The level in force: ``default``, that of the settings, or another until it is changed back.

    ``apply`` changes the level of the process.
    """

    def __init__(
        self, default: LevelName, *, apply: Callable[[LevelName], None] = set_log_level
    ) -> None:
        self.default = default
        self.current = default
        self._apply = apply
        self._timer: asyncio.TimerHandle | None = None

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the default is in force again; None where that is not planned."""
        if self._timer is None:
            return None
        return max(self._timer.when() - asyncio.get_running_loop().time(), 0.0)

    def change(self, level: LevelName, *, for_s: float | None) -> None:
        """Log from ``level`` up from now on, and from the default again after ``for_s`` seconds."""
        self._cancel_timer()
        log.warning("log_level.changed", level=level, before=self.current, for_s=for_s)
        self._set(level)
        if for_s is not None:
            self._timer = asyncio.get_running_loop().call_later(for_s, self.restore)

    def restore(self) -> None:
        """Log from the default up."""
        self._cancel_timer()
        if self.current != self.default:
            log.warning("log_level.restored", level=self.default, before=self.current)
            self._set(self.default)

    def _set(self, level: LevelName) -> None:
        self._apply(level)
        self.current = level

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
