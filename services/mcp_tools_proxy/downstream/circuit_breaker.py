"""The circuit breakers of one session with a server, one for each tenant that calls by it."""

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
"""Tenants of one session whose calls got no answer; where callers need no token, anybody can name
any number of them."""

log = structlog.get_logger()


class CircuitBreakers:
    """The circuit breakers of a session by tenant.

    One for all tenants let each of them cut the others off from a shared server: some slow calls
    opened the circuit, and another one as the probe kept it open.
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
        """Why calls of a tenant are refused; None while none are."""
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
        """Remove the oldest breaker without a call; those with calls are few."""
        for tenant_id, breaker in self._by_tenant.items():
            if not breaker.calls:
                breaker.close()
                del self._by_tenant[tenant_id]
                return


class Admitted(NamedTuple):
    """A call that was let through."""

    is_probe: bool
    losses: int
    """How many losses of calls were counted before."""


class CircuitBreaker:
    """Refuses calls of a server after calls in a row that got no answer: lost or timed out.

    Any answer counts as a success, also an error of the tool or a JSON-RPC error. After a pause one
    call is let through (half-open): its success closes the circuit, its failure opens it for twice
    as long. A call that was let through before the circuit opened changes nothing then. Calls that
    are lost together count as one: another tenant that made the server end a shared connection once
    opened the circuit of a tenant with some calls in flight. ``clock`` returns seconds.
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
        """Calls in a row that got no answer."""
        self.calls = 0
        """Calls that are on their way."""
        self._losses = 0
        """How often calls were lost, as counted."""
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
        return f"{self.failures} calls in a row got no answer, the last one: {self._reason}"

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Admit a call, and record how it ends. Raises ServerUnavailable."""
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
        """Admit a call; while the circuit is open it is a probe. Raises ServerUnavailable."""
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
        """Note how a call ended: ``failure`` is why it got no answer, None if it got one.

        Empty is for a call that shows neither, such as a cancelled one. ``is_lost`` is whether its
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
            failures=self.failures,
            reason=self._reason,
            next_call_s=round(pause_s, 2),
        )
