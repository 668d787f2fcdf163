import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import IdentityRequired, ServerBusy
from mcp_tools_proxy.domain.server import Isolation, ServerConfig, SessionCounts
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.pool import Pool
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from tests.support.builders import make_caller
from tests.support.leak_checks import texts_reachable_from
from tests.support.tables import each_row
from tests.unit.downstream.fake_server import FakeServer, after, hang, tool
from tests.unit.downstream.fake_servers import Fleet
from tests.unit.downstream.observed_session import make_config, until

MANY_TENANTS = 250
"""10,000 take 23 s with the same result."""


def entry(**fields: Any) -> ServerConfig:
    return make_config("a", **{"isolation": Isolation.TENANT, **fields})


class PoolFixture:
    """A pool with one server that has separate sessions per caller."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.server = fleet.servers["a"]

    @property
    def discovery(self) -> ReconnectingSession:
        session = self.fleet.pool.session("a")
        assert session is not None
        return session

    @property
    def counts(self) -> tuple[int, int, int]:
        (status,) = self.fleet.pool.statuses
        assert status.sessions is not None
        return status.sessions.open, status.sessions.busy, status.sessions.max

    @asynccontextmanager
    async def leased(self) -> AsyncIterator[ReconnectingSession]:
        if self.discovery.lease is None:
            yield self.discovery
            return
        async with self.discovery.lease(make_caller(), 0.0) as (session, _):
            yield session

    async def call(self, tenant_id: str = "t1", user_id: str = "u1", waited_s: float = 0.0) -> Any:
        """Call a tool; return the name of the session used."""
        lease = self.discovery.lease
        assert lease is not None
        caller = Caller(tenant_id=tenant_id, user_id=user_id)
        async with lease(caller, waited_s) as (session, waited):
            await session.sender.send(
                "tools/call", {"name": "x"}, tenant_id=tenant_id, waited_s=waited
            )
            return session

    def sample(self, name: str, **labels: str) -> float | None:
        return self.fleet.metrics.registry.get_sample_value(name, {"server": "a", **labels})


@asynccontextmanager
async def pool_fixture(
    server: FakeServer | None = None, **fields: Any
) -> AsyncIterator[PoolFixture]:
    fleet = Fleet(a=server or FakeServer(tool("x")))
    fleet.pool.apply({"a": entry(**fields)})
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        yield PoolFixture(fleet)


async def test_each_tenant_has_a_session_that_its_next_call_reuses() -> None:
    async with pool_fixture() as it:
        first, other, again = await it.call("t1"), await it.call("t2"), await it.call("t1", "u2")
        assert first is again is not other
        assert len(it.server.links) == 3
        assert it.counts == (2, 0, 50)
        assert it.sample("mcp_proxy_server_sessions") == 2


async def test_users_with_the_same_id_in_two_tenants_have_separate_sessions() -> None:
    async with pool_fixture(isolation=Isolation.USER) as it:
        sessions = [await it.call(t, u) for t, u in (("a", "bc"), ("ab", "c"), ("a", "b"))]
        assert len({id(session) for session in sessions}) == 3


@each_row(
    ("isolation", "caller", "part"),
    [
        (Isolation.TENANT, Caller(tenant_id="", user_id="u1"), "tenant_id"),
        (Isolation.USER, Caller(tenant_id="t1", user_id=""), "user_id"),
    ],
)
async def test_an_unknown_caller_does_not_get_a_session(
    isolation: Isolation, caller: Caller, part: str
) -> None:
    async with pool_fixture(isolation=isolation) as it:
        with pytest.raises(IdentityRequired) as caught:
            await it.call(caller.tenant_id, caller.user_id)
        assert caught.value.details == {"part": part}
        assert (len(it.server.links), it.counts) == (1, (0, 0, 50))


async def test_a_session_adopts_the_known_tools_without_discovery() -> None:
    async with pool_fixture() as it:
        listed = len(it.server.calls("tools/list"))
        await it.call()
        assert len(it.server.calls("tools/list")) == listed
        assert it.server.link.adopted == ["x"]
        it.server.lists["tools/list"] = [tool("y")]
        it.server.links[0].lists_changed()
        await until(lambda: it.server.link.adopted == ["y"])


async def test_an_unused_session_ends() -> None:
    async with pool_fixture(session_idle_s=60.0) as it:
        await it.call()
        await asyncio.sleep(50)
        await it.call()
        await asyncio.sleep(50)
        assert it.counts == (1, 0, 50)
        await asyncio.sleep(16)
        assert (it.counts, it.server.closed) == ((0, 0, 50), 1)
        assert it.sample("mcp_proxy_server_sessions_ended_total", reason="idle") == 1
        assert it.sample("mcp_proxy_server_sessions") == 0


async def test_the_least_recently_used_session_is_evicted() -> None:
    async with pool_fixture(max_sessions=2) as it:
        for tenant_id in ("t1", "t2", "t1", "t3"):
            await it.call(tenant_id)
            await asyncio.sleep(1)
        kept = await it.call("t1")
        assert kept is await it.call("t1")
        assert it.sample("mcp_proxy_server_sessions_ended_total", reason="evicted") == 1
        assert len(it.server.dials) == 4


async def test_the_number_of_connections_never_exceeds_the_limit() -> None:
    server = FakeServer(tool("x"))
    server.closing_takes_s = 1.0
    async with pool_fixture(server, max_sessions=2) as it, asyncio.TaskGroup() as tasks:
        most = 0
        calls = [tasks.create_task(it.call(f"t{n}")) for n in range(10)]
        while not all(call.done() for call in calls):
            most = max(most, len(server.links) - server.closed)
            await asyncio.sleep(0.1)
        assert most == 3  # including the discovery session


async def test_a_call_waits_for_a_slot_within_its_timeout() -> None:
    server = FakeServer(tool("x"))
    server.answers["tools/call"] = after(3)
    async with (
        pool_fixture(server, max_sessions=1, call_timeout_s=10) as it,
        asyncio.TaskGroup() as tasks,
    ):
        first = tasks.create_task(it.call("t1"))
        await asyncio.sleep(1)
        assert await it.call("t2") is not first
        assert server.timeouts[-1] == pytest.approx(8, abs=0.1)


async def test_a_call_that_does_not_get_a_slot_in_time_is_refused() -> None:
    server = FakeServer(tool("x"))
    server.answers["tools/call"] = hang
    async with pool_fixture(server, max_sessions=1, call_timeout_s=10) as it:
        first = asyncio.ensure_future(it.call("t1"))
        await asyncio.sleep(1)
        with pytest.raises(ServerBusy, match="reached its limit of 1 sessions"):
            await it.call("t2", waited_s=4.0)
        assert it.counts == (1, 1, 1)
        first.cancel()
        await asyncio.wait([first])
        server.answers.clear()
        await it.call("t2")


async def test_a_tenant_with_many_users_leaves_slots_for_others() -> None:
    server = FakeServer(tool("x"))
    server.answers["tools/call"] = after(15)
    async with pool_fixture(server, isolation=Isolation.USER, max_sessions=4) as it:
        many = [asyncio.ensure_future(it.call("t1", f"u{n}")) for n in range(8)]
        await asyncio.sleep(1)
        assert it.counts == (3, 3, 4)
        other = asyncio.ensure_future(it.call("t2"))
        await asyncio.sleep(1)
        assert it.counts == (4, 4, 4)
        await asyncio.gather(other, *many)


async def test_a_cancelled_waiter_leaves_its_slot_to_the_next() -> None:
    server = FakeServer(tool("x"))
    server.answers["tools/call"] = after(3)
    async with pool_fixture(server, max_sessions=1) as it:
        calls = [asyncio.ensure_future(it.call(f"t{n}")) for n in range(3)]
        await asyncio.sleep(1)
        calls[1].cancel()
        await calls[2]
        assert (calls[1].cancelled(), it.counts) == (True, (1, 0, 1))


async def test_calls_in_flight_are_limited_across_all_sessions() -> None:
    server = FakeServer(tool("x"))
    server.answers["tools/call"] = after(5)
    async with pool_fixture(server, max_calls_in_flight=2) as it:
        calls = [asyncio.ensure_future(it.call(f"t{n}")) for n in range(2)]
        await asyncio.sleep(1)
        with pytest.raises(ServerBusy, match="limit of 2 running calls"):
            await it.call("t3")
        await asyncio.gather(*calls)


async def test_a_lost_connection_affects_one_tenant_and_is_reopened_at_its_next_call() -> None:
    async with pool_fixture() as it:
        await it.call("t1")
        await it.call("t2")
        it.server.links[1].lose()
        await asyncio.sleep(60)
        assert len(it.server.links) == 3
        await it.call("t1")
        await it.call("t2")
        assert len(it.server.links) == 4


async def test_a_refusing_server_is_not_dialled_for_each_call() -> None:
    async with pool_fixture() as it:
        it.server.refuses_with = ConnectionFailure("no", sent=False)
        for _ in range(50):
            with pytest.raises(Exception, match="unavailable"):
                await it.call()
        assert len(it.server.dials) < 5


async def test_a_changed_entry_ends_its_sessions_after_their_calls() -> None:
    server = FakeServer(tool("x"))
    server.answers["tools/call"] = after(5)
    async with pool_fixture(server) as it:
        first = asyncio.ensure_future(it.call("t1"))
        await asyncio.sleep(1)
        it.fleet.pool.apply({"a": entry(url="new")})
        await asyncio.sleep(1)
        again = await it.call("t1")
        assert await first is not again
        await until(lambda: server.closed == 2)
        assert it.counts == (1, 0, 50)


async def test_a_removed_server_ends_its_sessions() -> None:
    async with pool_fixture() as it:
        await it.call("t1")
        await it.call("t2")
        it.fleet.pool.apply({})
        await until(lambda: it.server.closed == 3)
        assert it.sample("mcp_proxy_server_sessions") is None


async def test_subscriptions_are_kept_when_the_entry_changes() -> None:
    server = FakeServer(tool("x"))
    server.capabilities = {"tools": {}, "resources": {"subscribe": True}}
    async with pool_fixture(server, session_idle_s=5) as it:
        async with it.leased() as session:
            subscribing = asyncio.ensure_future(
                session.sender.subscribe("u://1", lambda: None, "tenant_1")
            )
            await asyncio.sleep(0.1)
            session.subscriptions.record_answer("u://1")
            unsubscribe = await subscribing
        await asyncio.sleep(60)
        assert it.counts == (1, 1, 50)
        it.fleet.pool.apply({"a": entry(url="new", session_idle_s=5)})
        await asyncio.sleep(60)
        assert it.counts == (1, 1, 50)
        unsubscribe()
        await asyncio.sleep(11)
        assert it.counts == (0, 0, 50)


@each_row("isolation", [Isolation.SHARED, Isolation.USER])
async def test_subscriptions_are_dropped_when_the_isolation_changes(
    isolation: Isolation,
) -> None:
    server = FakeServer(tool("x"))
    server.capabilities = {"tools": {}, "resources": {"subscribe": True}}
    async with pool_fixture(server, isolation=isolation) as it:
        async with it.leased() as session:
            subscribing = asyncio.ensure_future(
                session.sender.subscribe("u://1", lambda: None, "tenant_1")
            )
            await asyncio.sleep(0.1)
            session.subscriptions.record_answer("u://1")
            await subscribing
        it.fleet.pool.apply({"a": entry()})
        await it.call("tenant_1")
        assert (it.discovery.subscriptions.uris, it.counts[:2]) == (frozenset(), (1, 0))


async def test_a_crash_ends_only_its_own_session() -> None:
    async with pool_fixture() as it:
        other = await it.call("t2")
        it.server.refuses_with = KeyError("a defect")
        with pytest.raises(Exception, match="unavailable"):
            await it.call("t1")
        it.server.refuses_with = None
        await asyncio.sleep(1)
        await it.call("t1")
        assert other is await it.call("t2")
        assert it.sample("mcp_proxy_server_sessions_ended_total", reason="crashed") == 1


def kept_of(pool: Pool) -> set[str]:
    """Return the names of tenants and users that the pool holds in memory."""
    gc.collect()
    texts = texts_reachable_from(pool, without=(FakeServer,))
    return {it for it in texts if it.startswith(("tenant-", "user-"))}


async def test_many_successive_tenants_do_not_leak_memory() -> None:
    async with pool_fixture(session_idle_s=300.0) as it:
        tasks, most = len(asyncio.all_tasks()), 0
        for number in range(MANY_TENANTS):
            await it.call(f"tenant-{number}", f"user-{number}")
            if not number % 50:
                most = max(most, len(asyncio.all_tasks()) - tasks)
            await asyncio.sleep(3.6)
        assert 50 <= len(kept_of(it.fleet.pool)) <= 2 * (50 + 10)
        assert it.counts == (50, 0, 50)
        assert len(it.server.links) - it.server.closed == 51
        await asyncio.sleep(400)
        assert it.counts == (0, 0, 50)
        assert (len(it.server.links) - it.server.closed, len(asyncio.all_tasks())) == (1, tasks)
        assert most < 50 * 12
        assert kept_of(it.fleet.pool) == set()
        (status,) = it.fleet.pool.statuses
        assert status.sessions == SessionCounts(open=0, busy=0, max=50)
