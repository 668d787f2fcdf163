import pytest

from mcp_tools_proxy.mcp.server.handshake_session import Declared
from mcp_tools_proxy.mcp.server.http import session_records
from mcp_tools_proxy.mcp.server.http.session_ids import SessionClaims, SessionName
from mcp_tools_proxy.mcp.server.http.session_records import MAX_AGE_S, SessionRecords
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS
from tests.support.tables import each_row
from tests.support.virtual_time import ManualClock

IDLE_S = 100.0


def records(clock: ManualClock, *, is_alone: bool = True) -> SessionRecords:
    return SessionRecords(idle_s=IDLE_S, is_alone=is_alone, clock=clock)


ONE, TWO, THREE, FOUR = (SessionName("tenant_1", nonce) for nonce in (b"1", b"2", b"3", b"4"))


def claims(name: SessionName = ONE, age_s: float = 1.0) -> SessionClaims:
    return SessionClaims(Declared(HANDSHAKE_VERSIONS[0], {}), age_s, b"", name)


async def test_a_session_continues_while_it_is_used() -> None:
    clock = ManualClock()
    known = records(clock)
    known.begin(ONE)
    for _ in range(5):
        clock.now += IDLE_S - 1
        assert await known.use(claims())


async def test_an_inactive_session_ends() -> None:
    clock = ManualClock()
    known = records(clock)
    known.begin(ONE)
    clock.now += IDLE_S
    assert not await known.use(claims())


@each_row("is_alone", [True, False])
async def test_an_ended_session_stays_ended(is_alone: bool) -> None:
    known = records(ManualClock(), is_alone=is_alone)
    known.begin(ONE)
    known.begin(TWO)
    known.end(ONE)
    assert not await known.use(claims(ONE))
    assert await known.use(claims(TWO))


@each_row("is_alone", [True, False])
async def test_a_session_ends_at_its_maximum_age(is_alone: bool) -> None:
    known = records(ManualClock(), is_alone=is_alone)
    known.begin(ONE)
    assert await known.use(claims(age_s=MAX_AGE_S))
    assert not await known.use(claims(age_s=MAX_AGE_S + 1))


async def test_a_session_possibly_used_on_another_replica_continues() -> None:
    known = records(ManualClock(), is_alone=False)
    assert await known.use(claims())


async def test_sessions_in_use_continue_if_the_memory_limit_is_exceeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_records, "MAX_KNOWN", 2)
    clock = ManualClock()
    known = records(clock)
    for name in (ONE, TWO, THREE):
        known.begin(name)
    assert await known.use(claims(ONE))
    clock.now += IDLE_S
    assert not await known.use(claims(FOUR))


async def test_the_number_of_remembered_ended_sessions_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_records, "MAX_KNOWN", 2)
    known = records(ManualClock(), is_alone=False)
    for name in (ONE, TWO, THREE):
        known.end(name)
    found = [await known.use(claims(name)) for name in (ONE, TWO, THREE)]
    assert [record is not None for record in found] == [True, False, False]
