import asyncio

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.support.captured_logs import capture_logs
from tests.support.tables import each_row
from tests.unit.downstream.fake_server import FakeServer, failing_with, hang, tool
from tests.unit.downstream.observed_session import ObservedSession, running, until


def tools_of(watched: ObservedSession) -> list[str]:
    return list(watched.session.snapshot.tools) if watched.session.snapshot else []


async def test_a_changed_list_is_fetched_and_reported() -> None:
    server = FakeServer(tool("a"))
    async with running(server) as watched:
        server.lists["tools/list"].append(tool("b"))
        server.link.lists_changed()
        await until(lambda: watched.changes == 2)
        assert tools_of(watched) == ["a", "b"]


async def test_a_notification_without_a_change_is_not_reported() -> None:
    server = FakeServer(tool("a"))
    async with running(server) as watched:
        known = watched.session.snapshot
        assert known is not None
        server.link.lists_changed()
        await until(lambda: len(server.calls("tools/list")) == 2)
        await asyncio.sleep(1)
        now = watched.session.snapshot
        assert now is not None
        assert (watched.changes, now.tools is known.tools) == (1, True)


async def test_a_flood_of_changes_causes_few_discoveries() -> None:
    server = FakeServer(tool("a"))
    async with running(server):
        for _ in range(1000):
            server.link.lists_changed()
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
    assert 2 <= len(server.calls("tools/list")) <= 8


async def test_a_change_during_a_discovery_causes_another_discovery() -> None:
    server = FakeServer(tool("a"))
    async with running(server) as watched:
        server.answers["tools/list"] = hang
        server.link.lists_changed()
        await until(lambda: len(server.calls("tools/list")) == 2)
        for _ in range(10):
            server.link.lists_changed()
        del server.answers["tools/list"]
        server.lists["tools/list"].append(tool("b"))
        await until(lambda: watched.changes == 2)
        await asyncio.sleep(60)
    assert len(server.calls("tools/list")) == 3


async def test_lists_are_fetched_again_at_the_interval() -> None:
    server = FakeServer(tool("a"))
    async with running(server, refresh_interval_s=300.0):
        await asyncio.sleep(3100)
    assert len(server.calls("tools/list")) == 11


async def test_interval_zero_disables_refreshes() -> None:
    server = FakeServer(tool("a"))
    async with running(server, refresh_interval_s=0.0):
        await asyncio.sleep(10_000)
    assert len(server.calls("tools/list")) == 1


async def test_a_failed_refresh_keeps_the_last_valid_items_and_reports_their_age() -> None:
    server = FakeServer(tool("a"))
    async with running(server) as watched:
        before = watched.session.status.discovered_at
        server.answers["tools/list"] = failing_with(ConnectionFailure("garbage"))
        server.link.lists_changed()
        await until(lambda: watched.session.status.stale)
        status = watched.session.status
        assert (tools_of(watched), status.last_error, status.discovered_at) == (
            ["a"],
            "tools: garbage",
            before,
        )


async def test_a_failed_refresh_is_counted_and_reported_as_stale() -> None:
    server = FakeServer(tool("a"))
    async with running(server) as watched:
        server.answers["tools/list"] = failing_with(ConnectionFailure("garbage"))
        server.link.lists_changed()
        await until(lambda: watched.session.status.stale)
        assert (
            watched.sample("mcp_proxy_server_discovery_failures_total"),
            watched.sample("mcp_proxy_server_stale"),
            watched.sample("mcp_proxy_server_up"),
        ) == (1, 1, 1)


async def test_a_successful_refresh_after_a_failed_one_ends_staleness() -> None:
    server = FakeServer(tool("a"))
    async with running(server) as watched:
        server.answers["tools/list"] = failing_with(ConnectionFailure("garbage"))
        server.link.lists_changed()
        await until(lambda: watched.session.status.stale)
        del server.answers["tools/list"]
        server.link.lists_changed()
        await until(lambda: not watched.session.status.stale)
        assert watched.session.status.last_error is None


async def test_a_failed_refresh_is_retried_automatically() -> None:
    server = FakeServer(tool("a"))
    async with running(server, refresh_interval_s=0.0) as watched:
        server.answers["tools/list"] = failing_with(ConnectionFailure("garbage"))
        server.link.lists_changed()
        await until(lambda: watched.session.status.stale)
        del server.answers["tools/list"]
        await until(lambda: not watched.session.status.stale, within_s=40)


async def test_a_failed_refresh_causes_a_connection_check() -> None:
    server = FakeServer(tool("a"))
    async with running(server, connect_timeout_s=4):
        server.answers["tools/list"] = hang
        server.link.lists_changed()
        await until(lambda: server.pings == 1)


async def test_a_dropped_item_is_logged_once_per_change() -> None:
    server = FakeServer(tool("a"), tool("b", inputSchema=[]))
    with capture_logs() as logs:
        async with running(server) as watched:
            server.lists["tools/list"].append(tool("c"))
            server.link.lists_changed()
            await until(lambda: watched.changes == 2)
    lines = [line for line in logs if line["event"] == "server.item_dropped"]
    assert [(line["kind"], line["name"]) for line in lines] == [("tool", "b")]


async def test_a_list_that_keeps_failing_is_logged_once() -> None:
    server = FakeServer(tool("a"))
    server.capabilities = {"tools": {}, "prompts": {}}
    server.answers["prompts/list"] = failing_with(ConnectionFailure("garbage"))
    with capture_logs() as logs:
        async with running(server):
            await asyncio.sleep(100)
    assert [line["event"] for line in logs].count("server.discovery_failed") == 1


async def test_many_dropped_items_give_few_log_lines() -> None:
    server = FakeServer(tool("a"), *(tool(f"b{n}", inputSchema=[]) for n in range(50)))
    with capture_logs() as logs:
        async with running(server):
            pass
    lines = [line for line in logs if line["event"] == "server.item_dropped"]
    [rest] = [line for line in logs if line["event"] == "server.items_dropped"]
    assert (len(lines), rest["more"]) == (20, 30)


@each_row("event", ["server.connected", "server.lost", "server.connect_failed"])
async def test_each_change_of_state_is_one_log_line(event: str) -> None:
    server = FakeServer(tool("a"))
    with capture_logs() as logs:
        async with running(server):
            server.refuses_with = ConnectionFailure("connection refused")
            server.link.lose()
            await until(lambda: len(server.dials) == 2)
            await asyncio.sleep(0)
    assert [line["event"] for line in logs].count(event) == 1
