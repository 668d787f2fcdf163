"""Circuit breakers of one session with a server, one for each calling tenant."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from mcp_tools_proxy.domain.errors import ServerUnavailable, ToolTimeout
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.connection import AccessRefused, ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from mcp_tools_proxy.wire.json_rpc import JsonRpcError

LONGEST_PAUSE_S = 300.0

MAX_CIRCUITS = 1000
"""Callers without a token can name any number of tenants."""

log = structlog.get_logger()


class CircuitBreakers:
    """The circuit breakers of a session by tenant.

    With one breaker for all, a tenant could cut others off from a shared server: a few slow calls
    opened the circuit, and another one kept it open as the probe.
    """

    def __init__(
        self, config: ServerConfig, metrics: ServerMetrics, clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._by_tenant: dict[str, CircuitBreaker] = {}

    def __len__(self) -> int:
        return len(self._by_tenant)

    def __repr__(self) -> str:
        return f"<CircuitBreakers {self._config.server_id} tenants={len(self)}>"

    @property
    def problem(self) -> str | None:
        """Why calls of a tenant are refused; None if no circuit is open."""
        return next((it.problem for it in self._by_tenant.values() if it.is_open), None)

    def check(self, tenant_id: str) -> None:
        """Raise ServerUnavailable if a call of a tenant would be refused now."""
        breaker = self._by_tenant.get(tenant_id)
        if breaker is not None:
            breaker.check()

    @contextmanager
    def entered(self, tenant_id: str) -> Iterator["CircuitBreaker"]:
        """Yield the breaker of a tenant for one call; it is kept while it has calls or failures."""
        breaker = self._by_tenant.get(tenant_id)
        if breaker is None:
            if len(self) >= MAX_CIRCUITS:
                self._remove_one()
            breaker = CircuitBreaker(self._config, self._metrics, self._clock)
            self._by_tenant[tenant_id] = breaker
        breaker.calls += 1
        try:
            yield breaker
        finally:
            breaker.calls -= 1
            if not breaker.calls and not breaker.failures:
                del self._by_tenant[tenant_id]

    def close(self) -> None:
        """Close all circuits."""
        for breaker in self._by_tenant.values():
            breaker.close()

    def _remove_one(self) -> None:
        """Remove the oldest breaker without a call; few breakers have one."""
        for tenant_id, breaker in self._by_tenant.items():
            if not breaker.calls:
                breaker.close()
                del self._by_tenant[tenant_id]
                return


class Admitted(NamedTuple):
    """An admitted call."""

    is_probe: bool
    losses: int


class CircuitBreaker:
    """Circuit that refuses calls of a server after consecutive losses or time-outs of calls.

    Any answer counts as a success, including errors. After a pause one call is admitted as a probe
    (half-open): its success closes the circuit, its failure opens it for twice as long. Calls
    admitted before the circuit opened do not change it. Calls lost together count as one: otherwise
    a tenant that made the server end a shared connection could open another tenant's circuit.
    ``clock`` returns seconds.
    """

    def __init__(
        self, config: ServerConfig, metrics: ServerMetrics, clock: Callable[[], float]
    ) -> None:
        self._server_id = config.server_id
        self._call_timeout_s = config.call_timeout_s
        self._threshold = config.breaker_failures
        self._pauses = Backoff(
            first_s=config.breaker_pause_s,
            longest_s=max(config.breaker_pause_s, LONGEST_PAUSE_S),
            least_share=1.0,
        )
        self._metrics = metrics
        self._clock = clock
        self.failures = 0
        self.calls = 0
        self._losses = 0
        """Calls lost together count once."""
        self._openings = 0
        self._next_call_at = 0.0
        self._is_probed = False
        self._reason = ""

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self._server_id} open={self.is_open}>"

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, except for one after each pause."""
        return self._openings > 0

    @property
    def problem(self) -> str | None:
        """Why calls are refused; None if the circuit is closed."""
        if not self.is_open:
            return None
        return f"{self.failures} calls in a row got no answer, the last one: {self._reason}"

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Admit a call and record its outcome. Raises ServerUnavailable."""
        admitted = self.enter()
        failure: str | None = ""
        is_lost = False
        try:
            yield
            failure = None
        except (JsonRpcError, ResponseTooLarge):
            failure = None
            raise
        except AccessRefused:
            raise
        except ConnectionFailure as fault:
            failure, is_lost = fault.reason, True
            raise
        except (TimeoutError, ToolTimeout):
            failure = f"no answer within {self._call_timeout_s:g} s"
            raise
        finally:
            self.leave(admitted, failure=failure, is_lost=is_lost)

    def enter(self) -> Admitted:
        """Admit a call, as the probe if the circuit is open. Raises ServerUnavailable."""
        if self._openings:
            self.check()
            self._is_probed = True
        return Admitted(self.is_open, self._losses)

    def check(self) -> None:
        """Raise ServerUnavailable if a call would be refused now."""
        if not self._openings:
            return
        wait_s = self._next_call_at - self._clock()
        if wait_s <= 0 and not self._is_probed:
            return
        raise ServerUnavailable(
            f"server {self._server_id} is unavailable: {self.problem}; try again later",
            details={"server_id": self._server_id},
            retry_after_s=round(max(0.1, wait_s), 1),
        )

    def leave(self, call: Admitted, *, failure: str | None = "", is_lost: bool = False) -> None:
        """Record the outcome of a call: ``failure`` tells why it got no answer, None if it did.

        An empty text means neither, as for a cancelled call. ``is_lost`` tells whether its
        connection failed.
        """
        if call.is_probe:
            self._is_probed = False
        if failure == "" or (self._openings and not call.is_probe):
            return
        if is_lost and call.losses != self._losses:
            return
        self._losses += is_lost
        if failure is None:
            self.failures = 0
            self.close()
            return
        self.failures += 1
        self._reason = failure
        if self.failures >= self._threshold:
            self._open()

    def close(self) -> None:
        """Close the circuit, so that calls are admitted."""
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
            failures=self.failures,
            reason=self._reason,
            next_call_s=round(pause_s, 2),
        )
