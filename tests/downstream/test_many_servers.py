import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.local_tools import LOCAL_TEMPLATES
from tests.support.mcp_servers.blocked_server import running_blocked
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import (
    PROMPTS,
    RESOURCES,
    SERVERS,
    Envelope,
    Service,
    eventually,
    running,
)

USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
COLONS = ["b:t", "t", "x::y", ":z", "t:"]
"""Tool names, some of which look like names of other servers once qualified."""
SERVERS_COUNT, TOOLS_EACH = 20, 50


def tools_of(*names: str) -> dict[str, list[Json]]:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


@asynccontextmanager
async def servers_of(**options: dict[str, Any]) -> AsyncIterator[dict[str, RawServer]]:
    """Run a server for each name, which returns its name."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(running_raw(name=name, only=(), **more))
            for name, more in options.items()
        }


def entries_of(servers: dict[str, RawServer]) -> dict[str, Json]:
    return {name: server.entry for name, server in servers.items()}


async def get_prompt(service: Service, name: str) -> str:
    body = {"name": name, "user": USER}
    envelope: Envelope = (await service.http.post(f"{PROMPTS}/get", json=body)).json()
    if envelope["status"] != "ok":
        return str(envelope["error"]["code"])
    return str(envelope["result"]["messages"][0]["content"]["text"])


async def read_resource(service: Service, uri: str) -> str:
    body = {"uri": uri, "user": USER}
    envelope: Envelope = (await service.http.post(f"{RESOURCES}/read", json=body)).json()
    text: str = envelope["result"]["contents"][0]["text"]
    return text


@pytest.mark.requirement("P-09", "F-06", "F-08")
async def test_servers_and_tools_with_ambiguous_joined_names_are_distinguished() -> None:
    named = {"extra": tools_of(*COLONS)}
    async with servers_of(a=named, **{"a-b": named, "b": named}) as servers:
        pairs = [(server, tool) for server in servers for tool in COLONS]
        config = Config(servers=entries_of(servers), presets=[make_preset(tools=pairs)])
        async with running(config=config) as service:
            for server, tool in pairs:
                result = await service.result(f"{server}:{tool}")
                answer = result["structured_content"]
                assert (answer["server"], answer["tool"]) == (server, tool)


@pytest.mark.requirement("P-08", "P-09", "F-08")
async def test_a_name_that_collides_with_a_visible_one_is_not_allowed() -> None:
    async with servers_of(a={"extra": tools_of("b:t")}, b={"extra": tools_of("t")}) as servers:
        preset = make_preset(tools=[("a", "b:t")])
        async with running(config=Config(servers=entries_of(servers), presets=[preset])) as service:
            names = ("a:b:t", "b:t", "a:b", "a:t", "a:b:t:", "a::b:t", "A:b:t")
            codes = [await service.code(name) for name in names]
            assert codes == ["OK"] + ["TOOL_NOT_ALLOWED"] * 6
            assert servers["b"].script.calls.total() == 0


@pytest.mark.requirement("P-13", "F-13")
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_an_item_of_two_servers_comes_from_the_first_in_scope_order(
    order: tuple[str, str],
) -> None:
    async with servers_of(a={}, b={}) as servers:
        first = order[0]
        preset = make_preset(tools=[(server, "whoami") for server in order])
        async with running(config=Config(servers=entries_of(servers), presets=[preset])) as service:
            prompts = [prompt["name"] for prompt in (await service.get(PROMPTS))["prompts"]]
            listed = await service.get(RESOURCES)
            assert prompts == ["greet", "plain"]
            assert [resource["uri"] for resource in listed["resources"]] == ["raw://text"]
            assert len(listed["resource_templates"]) == len(LOCAL_TEMPLATES) + 1
            assert await get_prompt(service, "plain") == f"plain of {first} for all"
            assert await read_resource(service, "raw://text") == f"raw://text of {first}"
            assert await read_resource(service, "raw://item/7") == f"raw://item/7 of {first}"


@pytest.mark.requirement("P-13")
async def test_an_item_removed_from_the_first_server_comes_from_the_second() -> None:
    shared: dict[str, list[Json]] = {"prompts": [{"name": "shared"}]}
    async with servers_of(a={"extra": dict(shared)}, b={"extra": shared}) as servers:
        preset = make_preset(prompts=[("a", "shared"), ("b", "shared")])
        async with running(config=Config(servers=entries_of(servers), presets=[preset])) as service:
            assert await get_prompt(service, "shared") == "shared of a for all"
            del servers["a"].script.options.extra["prompts"]
            servers["a"].script.notify_list_changed("prompts")
            await eventually(lambda: prompt_is(service, "shared", "shared of b for all"))


@pytest.mark.requirement("P-15", "F-24")
async def test_nineteen_servers_are_usable_before_the_slow_twentieth() -> None:
    slow = "s19"
    options: dict[str, dict[str, Any]] = {
        f"s{number}": {"tools": TOOLS_EACH} for number in range(SERVERS_COUNT - 1)
    }
    async with (
        servers_of(**options) as ready,
        running_blocked(name=slow, only=(), tools=TOOLS_EACH) as held,
    ):
        servers = {**ready, slow: held}
        pairs = [
            (server, f"tool_{number:03}")
            for server in servers
            for number in range(1, TOOLS_EACH + 1)
        ]
        config = Config(servers=entries_of(servers), presets=[make_preset(tools=pairs)])
        async with running(config=config, discovered=False) as service:
            quick = [server for server in servers if server != slow]
            await eventually(lambda: are_listed(service, TOOLS_EACH * len(quick)))
            codes = await asyncio.gather(*(service.code(f"{s}:tool_001") for s in quick))
            assert set(codes) == {"OK"}
            states = {s["server_id"]: s["state"] for s in (await service.get(SERVERS))["servers"]}
            assert states == {s: "connecting" if s == slow else "ready" for s in servers}
            held.release()
            await eventually(lambda: are_listed(service, TOOLS_EACH * SERVERS_COUNT))
            assert await service.code(f"{slow}:tool_001") == "OK"


async def are_listed(service: Service, count: int) -> bool:
    return len(await service.listed()) == count


async def prompt_is(service: Service, name: str, text: str) -> bool:
    return await get_prompt(service, name) == text
