"""What one worker shows of all."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from mcp_tools_proxy.domain.server import ServerState, ServerStatus, SessionCounts, Transport
from mcp_tools_proxy.gateway.health import Health, Readiness
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.gateway.whole_service import CALLS, READINESS, SERVERS, WholeService
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.telemetry.recent_calls import CallFigures, CallSum, MinuteCalls, RecentCalls

NOW = 1_790_000_000


def status(state: ServerState, *, reconnects: int = 0, open_sessions: int = 0) -> ServerStatus:
    return ServerStatus(
        server_id="wiki",
        state=state,
        transport=Transport.STDIO,
        reconnects=reconnects,
        sessions=SessionCounts(open=open_sessions, busy=0, max=5),
    )


def service(
    size: int,
    own: ServerStatus,
    answers: Mapping[str, Sequence[object]] = MappingProxyType({}),
    *,
    is_starting: bool = False,
) -> WholeService:
    """Build the view of a worker whose questions the others answer."""

    async def ask(question: str, _value: object, _wait_s: float) -> Sequence[object]:
        return answers.get(question, ())

    workers = WorkerGroup(1, size)
    workers.connect(ask, lambda _name, _value: None)
    lifecycle = Lifecycle()
    if not is_starting:
        lifecycle.phase = Phase.SERVING
    health = Health(lifecycle, {"documents": lambda: {"status": "ok"}})
    return WholeService(
        workers,
        health,
        servers=lambda: [own],
        remote=lambda: None,
        recent_calls=RecentCalls(lambda: NOW),
    )


READY = status(ServerState.READY, reconnects=1, open_sessions=2)


async def test_a_service_of_one_process_has_no_check_of_workers() -> None:
    readiness = await service(1, READY).readiness()
    assert (readiness.status, [*readiness.checks]) == ("ready", ["documents"])


@pytest.mark.parametrize(("running", "expected"), [(2, "ready"), (1, "degraded")])
async def test_a_missing_worker_degrades_readiness(running: int, expected: str) -> None:
    good = Readiness("ready", {"documents": {"status": "ok"}})
    readiness = await service(2, READY, {READINESS: [good] * (running - 1)}).readiness()
    assert readiness.status == expected
    assert readiness.checks["workers"]["running"] == running


async def test_the_worst_state_of_a_dependency_is_shown() -> None:
    bad = Readiness("degraded", {"documents": {"status": "degraded", "folder": "vanished"}})
    readiness = await service(2, READY, {READINESS: [bad]}).readiness()
    assert readiness.checks["documents"] == {"status": "degraded", "folder": "vanished"}
    assert readiness.status == "degraded"


async def test_a_server_that_one_worker_cannot_reach_is_shown_as_that() -> None:
    lost = status(ServerState.RECONNECTING, reconnects=4, open_sessions=1)
    (shown,) = await service(2, READY, {SERVERS: [[lost]]}).servers()
    assert (shown.state, shown.reconnects) == (ServerState.RECONNECTING, 5)
    assert shown.sessions == SessionCounts(open=3, busy=0, max=10)


async def test_a_server_that_another_worker_does_not_know_yet_is_shown() -> None:
    assert [*await service(2, READY, {SERVERS: [[]]}).servers()] == [READY]


async def test_calls_of_all_workers_are_added_minute_by_minute() -> None:
    minute = NOW // 60 * 60
    other = CallFigures(
        whole=CallSum(codes={"OK": 2}, times={3: 2}, longest_s=0.5),
        by_server={"wiki": CallSum(codes={"OK": 2}, times={3: 2}, longest_s=0.5)},
        per_minute={"wiki": [2]},
        minutes=[MinuteCalls(minute, 2, 0)],
    )
    found = await service(3, READY, {CALLS: [other, other]}).calls(None)
    assert found is not None
    assert (found.whole.total, found.minutes[-1], found.per_minute["wiki"][-1]) == (
        4,
        MinuteCalls(minute, 4, 0),
        4,
    )


async def test_a_worker_that_starts_beside_another_one_is_no_reason_for_503() -> None:
    good = Readiness("ready", {"documents": {"status": "ok"}})
    starting = service(2, READY, {READINESS: [good]}, is_starting=True)
    assert (await starting.readiness()).status == "degraded"
    alone = service(2, READY, is_starting=True)
    assert (await alone.readiness()).status == "starting"
