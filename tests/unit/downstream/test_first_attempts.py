import asyncio

import pytest

from mcp_tools_proxy.domain.errors import ServerBusy, ServerUnavailable
from mcp_tools_proxy.domain.server import ServerState
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import FakeServer, tool
from tests.unit.downstream.fake_servers import Fleet
from tests.unit.downstream.observed_session import make_config, until


def fleet_of_one(**config: float) -> Fleet:
    """Configure one server, ``a``, whose dial takes 5 s."""
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.servers["a"].dial_takes_s = 5
    fleet.pool.apply({"a": make_config("a", **config)})
    return fleet


async def test_waiting_ends_when_the_server_is_connected() -> None:
    fleet = fleet_of_one()
    async with fleet.running() as pool:
        assert list(pool.pending) == ["a"]
        await pool.wait_first_attempt("a", 0.0)
        assert (list(pool.pending), [*pool.snapshots]) == ([], ["a"])


async def test_a_failed_attempt_gives_the_reason_and_the_next_retry() -> None:
    fleet = fleet_of_one()
    fleet.servers["a"].refuses_with = ConnectionFailure("connection refused")
    async with fleet.running() as pool:
        with pytest.raises(ServerUnavailable, match="connection refused") as raised:
            await pool.wait_first_attempt("a", 0.0)
        assert (raised.value.retry_after_s or 0) > 0
        assert list(pool.pending) == []


async def test_waiting_is_limited_by_the_calls_remaining_time() -> None:
    fleet = fleet_of_one(call_timeout_s=4)
    async with fleet.running() as pool:
        started = clock()
        with pytest.raises(ServerUnavailable):
            await pool.wait_first_attempt("a", 1.0)
        assert clock() - started == pytest.approx(3.0)


async def test_waiting_counts_as_a_call_in_flight() -> None:
    fleet = fleet_of_one(max_calls_in_flight=1)
    async with fleet.running() as pool, asyncio.TaskGroup() as tasks:
        tasks.create_task(pool.wait_first_attempt("a", 0.0))
        await asyncio.sleep(1)
        with pytest.raises(ServerBusy):
            await pool.wait_first_attempt("a", 0.0)


async def test_waiting_counts_against_the_tenants_limit() -> None:
    fleet = fleet_of_one(max_calls_in_flight=2)
    async with fleet.running() as pool, asyncio.TaskGroup() as tasks:
        tasks.create_task(pool.wait_first_attempt("a", 0.0, "tenant_1"))
        await asyncio.sleep(1)
        with pytest.raises(ServerBusy, match="limit of 1 running calls"):
            await pool.wait_first_attempt("a", 0.0, "tenant_1")
        await pool.wait_first_attempt("a", 0.0, "tenant_2")


async def test_waiting_for_a_removed_server_fails_immediately() -> None:
    fleet = fleet_of_one()
    async with fleet.running() as pool, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pool.wait_first_attempt("a", 0.0))
        await asyncio.sleep(1)
        started = clock()
        pool.apply({})
        await waiting
        assert clock() == started


async def test_a_server_with_known_tools_is_not_pending() -> None:
    fleet = fleet_of_one()
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        pool.apply({"a": make_config("a", url="another")})
        assert list(pool.pending) == []


async def test_a_server_is_pending_until_its_tools_can_be_called() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.pool.apply({"a": make_config("a")})
    async with fleet.running() as pool:
        fleet.published.clear()
        await until(lambda: fleet.changes == 1)
        await asyncio.sleep(1)
        assert ([*pool.snapshots], list(pool.pending)) == (["a"], ["a"])
        assert fleet.state("a") is ServerState.CONNECTING
        fleet.published.set()
        assert await pool.wait_first_attempts(10)
        assert (list(pool.pending), fleet.state("a")) == ([], ServerState.READY)
