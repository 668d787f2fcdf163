from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.downstream.reload_storm import Storm
from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.leak_checks import ResourcesInUse
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.service import ACTIVE, CONFIG_DIR, SERVERS, Service, eventually, running

RELOADS, SWITCHES = 12, 10
CALLS_BETWEEN = 15
TOOLS = [f"{server}:{tool}" for server in ("s1", "s2", "s3", "s4") for tool in ("t1", "t2")]
FIRST = {"s1:t1", "s2:t1", "s4:t1"}
SECOND = {"s1:t1", "s2:t2", "s3:t1"}
"""Tools of the two presets; s1:t2, s3:t2 and s4:t2 are in neither."""
NEVER = {"s1:t2", "s3:t2", "s4:t2"}
CLEAR = {"OK", "TOOL_NOT_ALLOWED", "SERVER_UNAVAILABLE"}
"""Allowed codes of a call while its server comes and goes."""


def preset_of(tools: set[str], preset_id: str = "work") -> Json:
    pairs = [(server, name) for server, _, name in (tool.partition(":") for tool in sorted(tools))]
    return make_preset(preset_id, tools=pairs)


@asynccontextmanager
async def three_servers() -> AsyncIterator[dict[str, RawServer]]:
    """Run s1, s2 and s3 over three transports; s4 is a process started by the gateway."""
    extra = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("t1", "t2")]}
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(
                running_raw(transport, name=name, only=(), extra=extra)
            )
            for name, transport in (("s1", "http"), ("s2", "sse"), ("s3", "ws"))
        }


def entry_of_s4() -> Json:
    tools = '{"tools": [{"name": "t1", "inputSchema": {"type": "object"}}]}'
    return raw_entry(name="s4", extra=tools)


def entries_of(servers: dict[str, RawServer], number: int) -> dict[str, Json]:
    """Return entries: s2 differs each time, s3 comes and goes, s4 changes occasionally."""
    s4 = entry_of_s4()
    entries = {"s1": servers["s1"].entry, "s2": servers["s2"].entry}
    entries["s2"] |= {"headers": {"X-Number": str(number)}}
    entries["s4"] = s4 | {"env": s4["env"] | {"NUMBER": str(number // 10)}}
    return entries | ({"s3": servers["s3"].entry} if number % 3 else {})


def rewrite(servers: dict[str, RawServer], number: int) -> set[str] | None:
    """Write the files again, sometimes broken; return the allowed tools, or None if broken."""
    preset_file = CONFIG_DIR / "preset_work.json"
    if number % 10 == 5:
        preset_file.write_text('{"id": "work", "tools": [')
        return None
    if number % 10 == 7:
        (CONFIG_DIR / "mcp.json").write_text('{"mcpServers": {"s1": {}}}')
    else:
        write_json(CONFIG_DIR / "mcp.json", {"mcpServers": entries_of(servers, number)})
    tools = (FIRST, SECOND)[number % 2]
    write_json(preset_file, preset_of(tools))
    return tools


@pytest.mark.requirement("P-08", "P-16", "P-18", "P-21")
async def test_many_reloads_under_load_give_no_wrong_answer_and_leak_nothing() -> None:
    async with three_servers() as servers:
        last = Config(servers=entries_of(servers, 0), presets=[preset_of(FIRST)])
        async with running(config=last) as service:
            await eventually_all(service, FIRST)
            held, discovered = ResourcesInUse.now(), servers["s1"].script.requests.copy()
            storm = Storm(service, TOOLS)
            allowed = FIRST
            storm.may(allowed)
            async with storm.calling_continuously():
                for number in range(1, RELOADS + 1):
                    rewritten = rewrite(servers, number)
                    storm.may(allowed, rewritten or allowed)
                    await service.gateway.reloader.load()
                    allowed = rewritten or allowed
                    storm.may(allowed)
                    await storm.passes(CALLS_BETWEEN)
                storm.may(allowed, FIRST)
                last.write(CONFIG_DIR)
                await eventually(lambda: has_servers(service, ["s1", "s2", "s4"]))
                storm.may(FIRST)
                await storm.passes(CALLS_BETWEEN)

            assert storm.faults == []
            assert storm.codes_of_all() <= CLEAR, storm.codes
            assert storm.codes["s1:t1"].keys() == {"OK"}, "its server never changed"
            assert all(storm.codes[tool].keys() == {"TOOL_NOT_ALLOWED"} for tool in NEVER)
            requests = servers["s1"].script.requests - discovered
            assert set(requests) == {"tools/call"}, "it kept its session"

            await eventually_all(service, FIRST)  # s2 was changed last, and may still be connecting
            await eventually(lambda: none_is_connected(servers["s3"]))
            await eventually(held.is_not_exceeded)


@pytest.mark.requirement("P-17", "P-18", "P-20")
@pytest.mark.parametrize("persist", [True, False])
async def test_after_a_switch_later_calls_get_only_tools_of_the_preset(persist: bool) -> None:
    async with three_servers() as servers:
        entries = {**entries_of(servers, 1), "s4": entry_of_s4()}
        presets = [preset_of(FIRST, "first"), preset_of(SECOND, "second")]
        more = {"defaultPresetId": "first"}
        config = Config(servers=entries, presets=presets, more=more)
        async with running(config=config) as service:
            await eventually_all(service, FIRST)
            storm = Storm(service, TOOLS)
            storm.may(FIRST)
            async with storm.calling_continuously():
                for number in range(SWITCHES):
                    before, after, preset_id = (
                        (SECOND, FIRST, "first") if number % 2 else (FIRST, SECOND, "second")
                    )
                    storm.may(before, after)
                    choice = {"preset_id": preset_id, "persist": persist}
                    assert (await service.http.put(ACTIVE, json=choice)).status_code == 200
                    storm.may(after)
                    assert set(await service.listed()) == after
                    await storm.passes(CALLS_BETWEEN)
            assert storm.faults == []
            assert storm.codes_of_all() == {"OK", "TOOL_NOT_ALLOWED"}, storm.codes
            assert storm.codes["s1:t1"].keys() == {"OK"}
            assert all(storm.codes[tool].keys() == {"TOOL_NOT_ALLOWED"} for tool in NEVER)


async def eventually_all(service: Service, tools: set[str]) -> None:
    """Wait until exactly these are listed and their servers answer."""

    async def tools_are_callable() -> bool:
        if set(await service.listed()) != tools:
            return False
        return {await service.code(tool) for tool in tools} == {"OK"}

    await eventually(tools_are_callable)


async def has_servers(service: Service, server_ids: list[str]) -> bool:
    servers = (await service.get(SERVERS))["servers"]
    return [server["server_id"] for server in servers] == server_ids


async def none_is_connected(server: RawServer) -> bool:
    return server.connection_count == 0 and not server.script.listeners
