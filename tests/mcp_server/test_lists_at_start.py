"""Lists over MCP during the first connection to servers (F-12)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.api.blocked_service import UNREACHABLE_SERVER
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_endpoint import MODERN, Served, serving
from tests.support.mcp_servers.blocked_server import BlockedServer, running_blocked
from tests.support.raw_mcp_client import ERAS, PREFIX, RawMcpClient, raw_client
from tests.support.service import TOOLS, Service, eventually, running

PENDING = f"{PREFIX}pending"
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
PRESET = make_preset(tools=[("s1", "echo")])
NEVER: dict[str, Any] = {"list_wait_s": 0}
LONG: dict[str, Any] = {"list_wait_s": BOUND_S}


def config_of(server: BlockedServer, *agents: Json, **more: Any) -> Config:
    entry = {**server.entry, **more}
    return Config(servers={"s1": entry}, presets=[PRESET], agents=list(agents) or None)


def files() -> list[Path]:
    return list(Path("cache").glob("server-*.json"))


@asynccontextmanager
async def known_server(**options: Any) -> AsyncIterator[BlockedServer]:
    """Serve once, so that the definitions of ``s1`` are stored, and block the server afterwards."""
    async with running_blocked(**options) as server:
        server.release()
        async with running(config=config_of(server)):

            async def kept() -> bool:
                return bool(files())

            await eventually(kept)
        server.hold()
        yield server


async def listed(client: RawMcpClient, method: str = "tools/list") -> tuple[list[str], object]:
    result = (await client.request(method))["result"]
    (items,) = (it for it in result.values() if isinstance(it, list))
    names = [it.get("name", it.get("uri")) for it in items]
    return names, result.get("_meta", {}).get(PENDING)


@pytest.mark.requirement("F-12")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", LISTS)
async def test_a_list_waits_for_the_servers_of_its_caller(era: str, method: str) -> None:
    async with (
        running_blocked() as server,
        serving(config=config_of(server), discovered=False, **LONG) as served,
    ):
        client = await raw_client(served, era)
        async with asyncio.TaskGroup() as tasks:
            answer = tasks.create_task(listed(client, method))
            await asyncio.sleep(0.1)
            assert not answer.done()
            server.release()
        names, pending = answer.result()
        assert names
        assert set(names) >= {"tools/list": {"s1:echo"}, "prompts/list": {"plain"}}.get(
            method, set()
        )
        assert pending in (None, ["s1"])  # the attempt ends shortly after the list is known


@pytest.mark.parametrize("settings", [NEVER, {"list_wait_s": 0.1}], ids=["never", "a moment"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_list_names_the_servers_that_it_did_not_wait_for(
    era: str, settings: dict[str, Any]
) -> None:
    async with (
        running_blocked() as server,
        serving(config=config_of(server), discovered=False, **settings) as served,
    ):
        names, pending = await listed(await raw_client(served, era))
        assert ("s1:echo" in names, pending) == (False, ["s1"])


async def test_a_list_does_not_wait_for_failed_servers_or_those_of_others() -> None:
    preset = make_preset(tools=[("down", "echo"), ("s1", "echo")])
    agents = [make_agent("a", client_ids=["down"])]
    async with running_blocked() as server:
        servers = {"down": UNREACHABLE_SERVER, "s1": server.entry}
        config = Config(servers=servers, presets=[preset], agents=agents)
        async with serving(config=config, discovered=False, **LONG) as served:
            pool = served.service.gateway.pool

            async def is_tried() -> bool:
                return list(pool.pending) == ["s1"]

            await eventually(is_tried)
            response = await served.request("tools/list", path="/mcp/agents/a")
            assert PENDING not in response.json()["result"]["_meta"]


@pytest.mark.requirement("F-12")
@pytest.mark.parametrize("era", ERAS)
async def test_definitions_of_the_last_run_are_listed_immediately_as_pending(era: str) -> None:
    async with (
        known_server() as server,
        serving(config=config_of(server), discovered=False, **LONG) as served,
    ):
        client = await raw_client(served, era)
        names, pending = await listed(client)
        assert ("s1:echo" in names, pending) == (True, ["s1"])
        shown = await served.service.get(TOOLS)
        assert shown["pending"] == ["s1"]
        assert "s1:echo" in [tool["name"] for tool in shown["tools"]]
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(client.call("echo", {"text": "hi"}))
            await until_waiting(served)
            server.release()
        assert not call.result().get("isError")
        await served.service.discovered()
        assert (await listed(client))[1] is None


async def until_waiting(served: Served) -> None:
    async def is_waiting() -> bool:
        session = served.service.gateway.pool.session("s1")
        return session is not None and session.sender.in_flight == 1

    await eventually(is_waiting)


@asynccontextmanager
async def started_again(server: BlockedServer, **entry: Any) -> AsyncIterator[Service]:
    config = config_of(server, **entry)
    async with running(config=config, discovered=False, **NEVER) as service:
        yield service


async def shows_echo(service: Service) -> bool:
    return "s1:echo" in await service.listed()


async def test_the_servers_list_replaces_its_stored_definitions() -> None:
    async with known_server() as server, started_again(server) as service:
        await eventually(lambda: shows_echo(service))
        del server.held.tools["echo"]
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(service.code("s1:echo", {"text": "hi"}))
            server.release()
        assert call.result() == "TOOL_NOT_ALLOWED"
        assert await service.listed() == []


async def test_stored_definitions_are_removed_after_the_first_failed_connection() -> None:
    async with known_server() as server:
        await server.stop()
        async with started_again(server) as service:
            await service.discovered()
            await eventually(lambda: is_missing(service))
            assert await service.code("s1:echo", {"text": "hi"}) == "SERVER_UNAVAILABLE"


async def is_missing(service: Service) -> bool:
    return not await shows_echo(service)


@pytest.mark.parametrize(
    "more", [{"headers": {"X-Key": "other"}}, {"transport": "http"}], ids=["headers", "transport"]
)
async def test_stored_definitions_are_not_used_for_a_different_entry(more: Json) -> None:
    async with known_server() as server, started_again(server, **more) as service:
        names: Sequence[str] = [tool["name"] for tool in (await service.get(TOOLS))["tools"]]
        assert "s1:echo" not in names


async def test_limits_of_an_entry_do_not_affect_its_stored_definitions() -> None:
    async with (
        known_server() as server,
        started_again(server, requestTimeoutSeconds=7) as service,
    ):
        await eventually(lambda: shows_echo(service))


async def test_a_profile_narrows_the_definitions_of_the_last_run() -> None:
    agents = [make_agent("a", exclude=["echo"]), make_agent("b")]
    async with known_server() as server:
        config = config_of(server, *agents)
        async with running(config=config, discovered=False, **NEVER) as service:

            async def agent_b_has_the_tool() -> bool:
                return "s1:echo" in str((await service.get(TOOLS, agent="b"))["tools"])

            await eventually(agent_b_has_the_tool)
            assert "s1:echo" not in str((await service.get(TOOLS, agent="a"))["tools"])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"lists": 7, "instructions": 7}'])
async def test_a_damaged_file_is_ignored(content: bytes) -> None:
    async with known_server() as server:
        (file,) = files()
        file.write_bytes(content)
        async with serving(config=config_of(server), discovered=False, **NEVER) as served:
            names, pending = await listed(await raw_client(served, MODERN))
            assert ("s1:echo" in names, pending) == (False, ["s1"])
            server.release()
            await served.service.discovered()
            assert await served.service.code("s1:echo", {"text": "hi"}) == "OK"


@pytest.mark.parametrize("mode", ["pin", "warn"])
async def test_definitions_of_the_last_run_are_pinned_like_those_of_the_server(mode: str) -> None:
    async with known_server() as server:
        settings = {**NEVER, "definitions": mode}
        async with running(config=config_of(server), discovered=False, **settings) as service:

            async def are_known() -> bool:
                return "s1" in service.gateway.publisher.snapshots

            async def is_listed() -> bool:
                return await shows_echo(service) == (mode == "warn")  # without a lock file

            await eventually(are_known)
            await eventually(is_listed)
            assert (await service.get(TOOLS))["pending"] == ["s1"]
