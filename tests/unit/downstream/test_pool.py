import asyncio
from typing import Any

import pytest

from mcp_tools_proxy.domain.server import ServerState
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import Answer, FakeServer, hang, tool
from tests.unit.downstream.fake_servers import Fleet
from tests.unit.downstream.observed_session import call, make_config, until


@pytest.mark.requirement("F-24")
async def test_a_dead_server_does_not_delay_the_others() -> None:
    fleet = Fleet(a=FakeServer(tool("x")), b=FakeServer(tool("y")))
    fleet.servers["a"].refuses_with = ConnectionFailure("connection refused")
    fleet.apply(a="1", b="1")
    async with fleet.running() as pool:
        assert (await pool.wait_first_attempts(10), [*pool.snapshots]) == (True, ["b"])


@pytest.mark.requirement("P-15")
async def test_all_servers_are_connected_concurrently() -> None:
    fleet = Fleet(**{f"s{n}": FakeServer(tool("x")) for n in range(20)})
    for server in fleet.servers.values():
        server.dial_takes_s = 3
    fleet.apply(**dict.fromkeys(fleet.servers, "1"))
    async with fleet.running() as pool:
        started = clock()
        await pool.wait_first_attempts(60)
        assert (round(clock() - started, 1), len(pool.snapshots)) == (3, 20)


async def test_settling_ends_at_its_timeout() -> None:
    fleet = Fleet(a=FakeServer())
    fleet.servers["a"].dial_takes_s = 1000
    fleet.apply(a="1")
    async with fleet.running() as pool:
        assert not await pool.wait_first_attempts(2)


async def test_servers_can_be_added_while_the_pool_runs() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    async with fleet.running() as pool:
        fleet.apply(a="1")
        await pool.wait_first_attempts(10)
        assert ([*pool.snapshots], fleet.changes) == (["a"], 1)


@pytest.mark.requirement("P-21")
async def test_an_unchanged_server_keeps_its_session() -> None:
    fleet = Fleet(a=FakeServer(tool("x")), b=FakeServer(tool("y")))
    fleet.apply(a="1", b="1")
    async with fleet.running() as pool:
        before = pool.session("a")
        await pool.wait_first_attempts(10)
        fleet.apply(a="1")
        assert (pool.session("a") is before, len(fleet.servers["a"].dials)) == (True, 1)


async def test_a_removed_server_disappears_immediately() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.apply(a="1")
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        fleet.apply()
        assert (pool.session("a"), pool.snapshots, pool.statuses) == (None, {}, ())


async def test_calls_of_a_removed_server_finish_before_its_connection_closes() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    server = fleet.servers["a"]

    async def slow(params: object) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {"content": [], "closed": server.closed}

    server.answers["tools/call"] = slow
    fleet.apply(a="1")
    async with fleet.running() as pool, asyncio.TaskGroup() as tasks:
        await pool.wait_first_attempts(10)
        session = pool.session("a")
        assert session is not None
        answer = tasks.create_task(call(session))
        await until(server.calls)
        fleet.apply()
        assert (await answer)["closed"] == 0
        await until(lambda: server.closed == 1)


async def test_a_call_that_selected_a_server_before_its_removal_is_served() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.apply(a="1")
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        session = pool.session("a")
        assert session is not None
        fleet.apply()
        await asyncio.sleep(0.3)
        assert await call(session)


async def test_a_changed_server_offers_its_old_tools_until_rediscovery() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.apply(a="1")
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        fleet.servers["a"].dial_takes_s = 5
        fleet.apply(a="2")
        assert ([*pool.snapshots["a"].tools], pool.statuses[0].stale, fleet.state("a")) == (
            ["x"],
            True,
            ServerState.CONNECTING,
        )
        await until(lambda: fleet.state("a") is ServerState.READY)


async def test_the_old_session_of_a_changed_server_does_not_report_its_state() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.apply(a="1")
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        fleet.apply(a="2")
        await until(lambda: fleet.servers["a"].closed == 1)
        await until(lambda: fleet.state("a") is ServerState.READY)
        assert fleet.metrics.registry.get_sample_value("mcp_proxy_server_up", {"server": "a"}) == 1


async def test_a_disabled_server_is_not_connected() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    async with fleet.running() as pool:
        pool.apply({"a": make_config("a", enabled=False)})
        assert (await pool.wait_first_attempts(10), fleet.state("a"), pool.session("a")) == (
            True,
            ServerState.DISABLED,
            None,
        )


async def test_statuses_are_in_the_order_of_the_configuration() -> None:
    fleet = Fleet(b=FakeServer(), a=FakeServer())
    fleet.apply(b="1")
    fleet.apply(a="1", b="1")
    assert [status.server_id for status in fleet.pool.statuses] == ["a", "b"]


async def test_a_removed_server_is_removed_from_the_metrics() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.apply(a="1")
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        fleet.apply()
        await until(lambda: fleet.servers["a"].closed == 1)
        await asyncio.sleep(1)
    assert b'server="a"' not in fleet.metrics.exposition()


async def test_the_pool_survives_a_crash_of_one_session() -> None:
    fleet = Fleet(a=FakeServer(tool("x")), b=FakeServer(tool("y")))
    fleet.servers["a"].refusals = [RuntimeError("a defect")]
    fleet.apply(a="1", b="1")
    async with fleet.running() as pool:
        await until(lambda: len(pool.snapshots) == 2)


async def test_a_stray_cancellation_does_not_end_a_session() -> None:
    fleet = Fleet(a=FakeServer(tool("x")))
    fleet.servers["a"].answers["tools/list"] = _cancelled_once(fleet.servers["a"])
    fleet.apply(a="1")
    async with fleet.running() as pool:
        await until(lambda: pool.snapshots)


async def test_stopping_the_pool_closes_all_connections_despite_calls() -> None:
    fleet = Fleet(a=FakeServer(tool("x")), b=FakeServer(tool("y")))
    fleet.apply(a="1", b="1")
    for server in fleet.servers.values():
        server.answers["tools/call"] = hang
    async with asyncio.TaskGroup() as tasks:
        async with fleet.running() as pool:
            await pool.wait_first_attempts(10)
            sessions = [pool.session("a"), pool.session("b")]
            calls = [tasks.create_task(call(session)) for session in sessions if session]
            await asyncio.sleep(0.1)
        for one in calls:
            one.cancel()
    assert [server.closed for server in fleet.servers.values()] == [1, 1]


def _cancelled_once(server: FakeServer) -> Answer:
    async def answer(params: object) -> dict[str, Any]:
        if len(server.calls("tools/list")) == 1:
            raise asyncio.CancelledError
        return {"tools": [tool("x")]}

    return answer
