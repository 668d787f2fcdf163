"""A circuit breaker of one session with a server: of all callers, or of one tenant or user."""

from collections.abc import Callable

import structlog

from mcp_tools_proxy.aiokits.backoff import Backoff
from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics

LONGEST_PAUSE_S = 300.0

log = structlog.get_logger()


class CircuitBreaker:
    """Refuses calls of a server after calls in a row that got no answer: lost or timed out.

    Any answer counts as a success, also an error of the tool or a JSON-RPC error. After a pause one
    call is let through (half-open): its success closes the circuit, its failure opens it for twice
    as long. A call that was let through before the circuit opened changes nothing then. ``clock``
    returns seconds.
    """

    def __init__(
        self, config: ServerConfig, metrics: ServerMetrics, clock: Callable[[], float]
    ) -> None:
        self._server_id = config.server_id
        self._threshold = config.breaker_failures
        self._pauses = Backoff(
            first_s=config.breaker_pause_s,
            longest_s=max(config.breaker_pause_s, LONGEST_PAUSE_S),
            least_share=1.0,
        )
        self._metrics = metrics
        self._clock = clock
        self._failures = 0
        self._openings = 0
        """How often the circuit has opened since it was closed."""
        self._next_call_at = 0.0
        self._is_probed = False
        self._reason = ""

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self._server_id} open={self.is_open}>"

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, but for one after each pause."""
        return self._openings > 0

    @property
    def problem(self) -> str | None:
        """Why calls are refused; None while they are not."""
        if not self.is_open:
            return None
        return f"{self._failures} calls in a row got no answer, the last one: {self._reason}"

    def enter(self) -> bool:
        """Admit a call; return whether it probes the server. Raises ServerUnavailable."""
        if not self._openings:
            return False
        wait_s = self._next_call_at - self._clock()
        if wait_s <= 0 and not self._is_probed:
            self._is_probed = True
            return True
        raise ServerUnavailable(
            f"server {self._server_id} is unavailable: {self.problem}; try again later",
            details={"server_id": self._server_id},
            retry_after_s=round(max(0.1, wait_s), 1),
        )

    def leave(self, *, is_probe: bool, failure: str | None = "") -> None:
        """Note how a call ended: ``failure`` is why it got no answer, None if it got one.

        Empty is for a call that shows neither, such as a cancelled one.
        """
        if is_probe:
            self._is_probed = False
        if failure == "" or (self._openings and not is_probe):
            return
        if failure is None:
            self._failures = 0
            self.close()
            return
        self._failures += 1
        self._reason = failure
        if self._failures >= self._threshold:
            self._open()

    def close(self) -> None:
        """Close the circuit: calls are let through."""
        if self._openings:
            self._openings = 0
            self._metrics.circuit_changed(-1)
            log.info("server.circuit_closed", server_id=self._server_id)

    def _open(self) -> None:
        pause_s = self._pauses.pause_s(self._openings)
        if not self._openings:
            self._metrics.circuit_changed(1)
        self._openings += 1
        self._next_call_at = self._clock() + pause_s
        log.warning(
            "server.circuit_opened",
            server_id=self._server_id,
            failures=self._failures,
            reason=self._reason,
            next_call_s=round(pause_s, 2),
        )
