import pytest

from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.circuit_breaker import (
    LONGEST_PAUSE_S,
    MAX_CIRCUITS,
    CircuitBreaker,
    CircuitBreakers,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from tests.support.virtual_time import ManualClock

PAUSE_S = 10.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> CircuitBreaker:
    config = ServerConfig(
        server_id="s1", transport=Transport.STDIO, breaker_failures=2, breaker_pause_s=PAUSE_S
    )
    return CircuitBreaker(config, ServerMetrics(Metrics(), "s1"), clock)


def fail(breaker: CircuitBreaker) -> None:
    breaker.leave(breaker.enter(), failure="it hung")


def refused(breaker: CircuitBreaker) -> float:
    """Return after how many seconds a refused call may be retried."""
    with pytest.raises(ServerUnavailable) as caught:
        breaker.enter()
    assert caught.value.retry_after_s is not None
    return caught.value.retry_after_s


def test_pauses_double_up_to_the_maximum(breaker: CircuitBreaker, clock: ManualClock) -> None:
    fail(breaker)
    fail(breaker)
    pauses = []
    for _ in range(8):
        pauses.append(refused(breaker))
        clock.now += pauses[-1]
        fail(breaker)
    assert pauses[:4] == [10, 20, 40, 80]
    assert max(pauses) == LONGEST_PAUSE_S


def test_one_call_probes_at_a_time(breaker: CircuitBreaker, clock: ManualClock) -> None:
    fail(breaker)
    fail(breaker)
    clock.now += PAUSE_S
    probe = breaker.enter()
    refused(breaker)
    breaker.leave(probe)  # cancelled
    again = breaker.enter()
    breaker.leave(again, failure=None)
    assert not breaker.is_open
    assert [it.is_probe for it in (probe, again, breaker.enter())] == [True, True, False]


def test_calls_started_before_opening_do_not_close_it_or_extend_the_pause(
    breaker: CircuitBreaker, clock: ManualClock
) -> None:
    calls = [breaker.enter() for _ in range(4)]
    assert not any(it.is_probe for it in calls)
    for call in calls[:2]:
        breaker.leave(call, failure="it hung")
    clock.now += PAUSE_S / 2
    breaker.leave(calls[2], failure="it hung")
    breaker.leave(calls[3], failure=None)
    assert refused(breaker) == PAUSE_S / 2


def test_calls_lost_with_one_connection_count_once(breaker: CircuitBreaker) -> None:
    together = [breaker.enter() for _ in range(5)]
    for call in together:
        breaker.leave(call, failure="it ended", is_lost=True)
    assert (breaker.failures, breaker.is_open) == (1, False)
    later = [breaker.enter() for _ in range(5)]
    for call in later:
        breaker.leave(call, failure="it ended", is_lost=True)
    assert (breaker.failures, breaker.is_open) == (2, True)


def test_circuits_exist_only_after_failures_and_are_bounded() -> None:
    config = ServerConfig(server_id="s1", transport=Transport.STDIO, breaker_failures=1)
    breakers = CircuitBreakers(config, ServerMetrics(Metrics(), "s1"), ManualClock())
    with breakers.entered("fine") as breaker:
        breaker.leave(breaker.enter(), failure=None)
    assert len(breakers) == 0
    for number in range(MAX_CIRCUITS + 10):
        with breakers.entered(f"t{number}") as breaker:
            fail(breaker)
    assert len(breakers) == MAX_CIRCUITS
    assert breakers.problem is not None
    with breakers.entered("t0") as breaker:
        assert not breaker.is_open
