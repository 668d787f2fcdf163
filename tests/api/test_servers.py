"""States of downstream servers: the servers route and the readiness lines."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.server_programs import raw_entry, stdio_entry
from tests.support.mcp_servers.threaded_server import running_server
from tests.support.service import CONFIG_DIR, READY, SERVERS, Envelope, Service, eventually, running

UNREACHABLE_SERVER: Json = {"transport": "streamable-http", "url": "http://127.0.0.1:9/mcp"}
"""An entry of a server that does not exist."""


async def only_server(service: Service) -> Envelope:
    (server,) = (await service.get(SERVERS))["servers"]
    shown: Envelope = server
    return shown


@pytest.mark.parametrize(("era", "version"), [("modern", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_ready_server_shows_its_protocol_and_offers(era: str, version: str) -> None:
    async with (
        running_raw(era=era, only=("echo", "meta")) as server,
        running(config=Config(servers={"s1": server.entry})) as service,
    ):
        shown = await only_server(service)
    age = datetime.now(UTC) - datetime.fromisoformat(shown.pop("discovered_at"))
    assert timedelta() <= age < timedelta(seconds=30)
    assert 0 < shown.pop("connect_ms") < 20_000
    assert shown == {
        "server_id": "s1",
        "state": "ready",
        "transport": "streamable-http",
        "era": version,
        "stale": False,
        "counts": {"tools": 2, "prompts": 2, "resources": 1, "resource_templates": 1},
        "reconnects": 0,
    }


@pytest.mark.parametrize("mode", ["http", "sse", "ws"])
async def test_every_network_transport_becomes_ready(mode: str) -> None:
    async with (
        running_server(mode) as server,
        running(config=Config(servers={"s1": server.entry})) as service,
    ):
        assert (await only_server(service))["state"] == "ready"


@pytest.mark.parametrize("entry", [stdio_entry(), raw_entry()], ids=["sdk", "raw"])
async def test_a_stdio_server_becomes_ready(entry: Json) -> None:
    async with running(config=Config(servers={"s1": entry})) as service:
        assert (await only_server(service))["state"] == "ready"


@pytest.mark.requirement("F-24")
async def test_an_unreachable_server_delays_nothing_and_has_a_reason(server: RawServer) -> None:
    config = Config(
        servers={"dead": UNREACHABLE_SERVER, "s1": server.entry},
        presets=[make_preset(tools=[("s1", "echo"), ("dead", "echo")])],
    )
    async with running(config=config) as service:
        dead, alive = (await service.get(SERVERS))["servers"]
        assert (dead["state"], bool(dead["last_error"]), alive["state"]) == (
            "unreachable",
            True,
            "ready",
        )
        assert await service.code("s1:echo") == "OK"


@pytest.mark.requirement("P-07")
async def test_a_tool_of_an_undiscovered_server_is_missing(server: RawServer) -> None:
    preset = make_preset(tools=[("dead", "echo")])
    async with running(
        config=Config(servers={"dead": UNREACHABLE_SERVER}, presets=[preset])
    ) as service:
        assert (await service.listed(), await service.code("dead:echo")) == (
            [],
            "SERVER_UNAVAILABLE",
        )


async def test_a_disabled_server_is_shown_and_never_connected(server: RawServer) -> None:
    entry = {**server.entry, "enabled": False}
    async with running(config=Config(servers={"s1": entry})) as service:
        state = (await only_server(service))["state"]
        assert (state, sum(server.script.requests.values())) == ("disabled", 0)


async def test_a_disconnected_server_is_stale_and_still_listed(server: RawServer) -> None:
    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "echo")])])
    async with running(config=config) as service:
        await server.stop()
        assert await service.code("s1:echo") == "SERVER_UNAVAILABLE"

        async def stale() -> bool:
            return bool((await only_server(service))["stale"])

        await eventually(stale)
        assert await service.listed() == ["s1:echo"]


async def line(service: Service, name: str) -> Envelope:
    response = await service.http.get(READY)
    assert response.status_code == 200, response.text
    shown: Envelope = response.json()["checks"][name]
    return shown


async def test_the_line_of_a_ready_server_is_ok(server: RawServer) -> None:
    async with running(config=Config(servers={"s1": server.entry})) as service:
        assert await line(service, "server:s1") == {
            "status": "ok",
            "state": "ready",
            "stale": False,
        }


async def test_an_unreachable_server_degrades() -> None:
    async with running(config=Config(servers={"dead": UNREACHABLE_SERVER})) as service:
        status = (await service.get(READY))["status"]
        assert (status, (await line(service, "server:dead"))["status"]) == ("degraded", "degraded")


async def test_a_disabled_server_does_not_degrade() -> None:
    config = Config(servers={"s1": {**UNREACHABLE_SERVER, "enabled": False}})
    async with running(config=config) as service:
        assert (await service.get(READY))["status"] == "ready"


async def test_the_line_of_a_complete_preset_is_ok(server: RawServer) -> None:
    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "echo")])])
    async with running(config=config) as service:
        assert await line(service, "preset") == {"status": "ok", "active": "work", "missing": 0}


async def test_a_preset_with_missing_items_degrades(server: RawServer) -> None:
    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "gone")])])
    async with running(config=config) as service:
        assert await line(service, "preset") == {
            "status": "degraded",
            "active": "work",
            "missing": 1,
            "reasons": ['server "s1" does not offer this tool'],
        }


async def test_a_file_that_becomes_invalid_degrades_until_it_is_fixed(
    server: RawServer,
) -> None:
    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "echo")])])
    async with running(config=config) as service:
        (CONFIG_DIR / "mcp.json").write_text("{")

        async def broken() -> bool:
            return bool((await line(service, "config"))["status"] == "degraded")

        async def is_fixed() -> bool:
            return not await broken()

        await eventually(broken)
        assert await service.code("s1:echo") == "OK"
        write_json(CONFIG_DIR / "mcp.json", {"mcpServers": {"s1": server.entry}})
        await eventually(is_fixed)


async def test_a_file_that_is_invalid_at_the_start_degrades(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "mcp.json").write_text('{"mcpServers": {"s": {}}}')
    async with running(config_dir=folder) as service:
        config = await line(service, "config")
        assert (config["status"], str(tmp_path) in str(config)) == ("degraded", False)
