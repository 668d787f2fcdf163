"""Clients are notified of changes to their visible items only (P-22, F-12)."""

import pytest

from tests.mcp_server.list_change_listener import listening, switch
from tests.support.configuration import make_agent, make_preset, write_json
from tests.support.http_api import EVERYTHING
from tests.support.mcp_endpoint import ERAS, in_front_of_two, names
from tests.support.service import CONFIG_DIR

ONLY_ALPHA = make_preset("alpha", tools=[("a", "alpha")], prompts=[], resources=[])
SAME_TOOLS = EVERYTHING | {"id": "same", "prompts": []}
AGENTS = (make_agent("whole"), make_agent("only_b", client_ids=["a-b"]))
PATHS = ("/mcp", "/mcp/sse")


@pytest.mark.requirement("P-22")
@pytest.mark.requirement("F-12")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mode", ERAS)
async def test_a_switched_preset_is_notified_and_listed_on_the_same_connection(
    path: str, mode: str
) -> None:
    async with (
        in_front_of_two(presets=(EVERYTHING, ONLY_ALPHA)) as served,
        listening(served, path, mode=mode) as listener,
    ):
        await switch(served, "alpha")
        await listener.until("tools", "prompts", "resources")
        tools = names(await listener.client.list_tools())
        prompts = names(await listener.client.list_prompts())
    assert ([tool for tool in tools if ":" in tool], prompts) == (["a:alpha"], [])


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_without_visible_changes_is_not_notified(mode: str) -> None:
    only_b = make_preset("only_b", tools=[("a-b", "whoami"), ("a-b", "beta")])
    async with (
        in_front_of_two(*AGENTS, presets=(EVERYTHING, only_b)) as served,
        listening(served, "/mcp/agents/whole", mode=mode) as concerned,
        listening(served, "/mcp/agents/only_b", mode=mode) as unconcerned,
    ):
        await switch(served, "only_b")
        await concerned.until("tools", "prompts", "resources")
        tools = names(await unconcerned.client.list_tools())
    assert (unconcerned.changed, "a-b:beta" in tools) == ([], True)


@pytest.mark.requirement("P-18")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_of_an_outdated_list_is_refused_when_called(mode: str) -> None:
    async with (
        in_front_of_two(presets=(EVERYTHING, ONLY_ALPHA)) as served,
        served.client(mode=mode) as client,
    ):
        listed = names(await client.list_tools())
        await switch(served, "alpha")
        result = await client.call_tool("a-b:beta", {})
    assert ("a-b:beta" in listed, result.is_error) == (True, True)


async def test_an_agent_whose_profile_is_removed_is_notified_that_all_lists_changed() -> None:
    async with (
        in_front_of_two(*AGENTS, presets=(EVERYTHING,)) as served,
        listening(served, "/mcp/agents/only_b") as listener,
    ):
        write_json(CONFIG_DIR / "agents.json", {"agents": [make_agent("whole")]})
        await listener.until("tools", "prompts", "resources")


async def test_lists_are_byte_stable_and_private() -> None:
    async with in_front_of_two(presets=(EVERYTHING,)) as served:
        one, other = [await served.request("tools/list") for _ in range(2)]
    result = one.json()["result"]
    assert (one.content, result["cacheScope"], result["ttlMs"]) == (other.content, "private", 0)
