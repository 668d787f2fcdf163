import asyncio

import pytest

from mcp_tools_proxy.domain.errors import (
    ServerUnavailable,
    ToolTimeout,
)
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import ServerState, Transport
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import (
    DONE,
    FakeServer,
    after,
    answering,
    failing_with,
    hang,
    in_turn,
    tool,
)
from tests.unit.downstream.observed_session import ObservedSession, call, running, until


async def test_a_ready_session_offers_the_discovered_items() -> None:
    async with running(FakeServer(tool("add"))) as watched:
        status = watched.session.status
        assert (status.state, status.era, status.transport, status.counts["tools"]) == (
            ServerState.READY,
            "2025-11-25",
            Transport.STREAMABLE_HTTP,
            1,
        )


async def test_the_first_reconnect_starts_within_half_a_second() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        await call(watched.session)
        lost_at = clock()
        server.link.lose()
        await until(lambda: len(server.dials) == 2)
        assert server.dials[1] - lost_at < 0.5


async def test_a_slowly_closing_connection_does_not_delay_the_next_one() -> None:
    server = FakeServer(tool("add"))
    server.closing_takes_s = 4
    async with running(server) as watched:
        await call(watched.session)
        lost_at = clock()
        server.link.lose()
        await until(lambda: len(server.dials) == 2)
        assert (server.dials[1] - lost_at < 0.5, server.closed) == (True, 0)


async def test_a_session_ends_when_all_its_connections_are_closed() -> None:
    server = FakeServer(tool("add"))
    server.closing_takes_s = 4
    async with running(server) as watched:
        await call(watched.session)
        server.link.lose()
        await until(lambda: len(server.links) == 2)
    assert server.closed == 2


async def test_pauses_grow_up_to_thirty_seconds() -> None:
    server = FakeServer()
    server.refuses_with = ConnectionFailure("connection refused")
    async with running(server, ready=False):
        await until(lambda: len(server.dials) == 12)
    pauses = [later - sooner for sooner, later in zip(server.dials, server.dials[1:], strict=False)]
    assert (pauses == sorted(pauses), pauses[0] < 0.5, 14 < pauses[-1] <= 30) == (True, True, True)


async def test_a_server_that_dies_after_each_connect_is_dialled_at_growing_intervals() -> None:
    server = FakeServer(tool("add"))
    async with running(server):
        while len(server.links) < 9:
            server.link.lose()
            await _another_link(server)
    assert server.dials[-1] - server.dials[0] > 5


async def test_a_failed_server_is_reconnected_automatically() -> None:
    server = FakeServer(tool("add"))
    server.refusals = [ConnectionFailure("connection refused")] * 5
    async with running(server) as watched:
        assert await call(watched.session) == DONE


async def test_an_attempt_is_bounded_by_the_connect_timeout() -> None:
    server = FakeServer()
    server.dial_takes_s = 1000
    async with running(server, ready=False, connect_timeout_s=4) as watched:
        await watched.session.first_attempt_over.wait()
        took_s = round(clock() - server.dials[0], 1)
        assert (watched.session.status.last_error, took_s) == (
            'it did not answer within 4 s; if it needs longer, set "connectTimeoutSeconds" in '
            "mcp.json",
            4,
        )


async def test_a_hanging_first_discovery_closes_the_connection() -> None:
    server = FakeServer()
    server.answers["tools/list"] = hang
    async with running(server, ready=False, connect_timeout_s=4) as watched:
        await watched.session.first_attempt_over.wait()
        await until(lambda: server.closed)
        assert (watched.session.status.state, len(server.dials)) == (ServerState.UNREACHABLE, 1)


async def test_offered_items_are_kept_as_stale_while_the_server_is_down() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        server.refuses_with = ConnectionFailure("connection refused")
        server.link.lose()
        await until(lambda: watched.session.status.last_error == "connection refused")
        status, snapshot = watched.session.status, watched.session.snapshot
        assert snapshot is not None
        assert (status.state, status.stale, list(snapshot.tools)) == (
            ServerState.RECONNECTING,
            True,
            ["add"],
        )


async def test_the_metrics_show_that_a_server_is_down() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        server.refuses_with = ConnectionFailure("connection refused")
        server.link.lose()
        await until(lambda: len(server.dials) == 2)
        assert (
            watched.sample("mcp_proxy_server_up"),
            watched.sample("mcp_proxy_server_stale"),
        ) == (
            0,
            1,
        )


async def test_reconnects_are_counted() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        server.link.lose()
        await until(lambda: len(server.links) == 2)
        await call(watched.session)
        assert (
            watched.session.status.reconnects,
            watched.sample("mcp_proxy_server_reconnects_total"),
        ) == (1, 1)


async def test_a_timeout_on_a_live_connection_does_not_affect_other_calls() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(hang, after(12.0), answering(DONE))
    async with running(server, call_timeout_s=10) as watched, asyncio.TaskGroup() as tasks:
        late = tasks.create_task(_outcome(watched))
        await asyncio.sleep(5)
        other = tasks.create_task(_outcome(watched))
        assert (await late, await other, server.pings, len(server.links)) == (
            "TOOL_TIMEOUT",
            "TOOL_TIMEOUT",
            2,
            1,
        )


async def test_an_unresponsive_connection_is_replaced() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(hang, answering(DONE))

    async def no_pong() -> None:
        await asyncio.Event().wait()

    server.ping = no_pong
    async with running(server, call_timeout_s=10) as watched:
        with pytest.raises(ToolTimeout):
            await call(watched.session)
        assert (await call(watched.session), "hung" in str(watched.session.status.last_error)) == (
            DONE,
            False,
        )
        await until(lambda: len(server.links) == 2)


async def test_an_error_response_counts_as_a_sign_of_life() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(
        failing_with(ConnectionFailure("garbage")), answering(DONE)
    )

    async def unknown() -> None:
        raise JsonRpcError(-32601, "Method not found")

    server.ping = unknown
    async with running(server) as watched:
        with pytest.raises(ServerUnavailable):
            await call(watched.session)
        await asyncio.sleep(10)
    assert (server.pings, len(server.links)) == (1, 1)


async def test_inherited_items_are_stale_until_the_first_discovery() -> None:
    server = FakeServer(tool("add"))
    server.dial_takes_s = 5
    known = Snapshot(tools={"old": tool("old")})
    async with running(server, ready=False, inherited=known) as watched:
        await asyncio.sleep(1)
        assert (watched.session.snapshot, watched.session.status.stale) == (known, True)
        await until(lambda: not watched.session.status.stale)
        assert watched.changes == 1


async def _outcome(watched: ObservedSession) -> str:
    try:
        await call(watched.session)
    except ToolTimeout as error:
        return error.code
    return "OK"


async def _another_link(server: FakeServer) -> None:
    known = len(server.links)
    await until(lambda: len(server.links) > known)
