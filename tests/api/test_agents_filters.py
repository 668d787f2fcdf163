"""Filters in addition to an agent's own lists: the server's exclude, presets, and all combined."""

import pytest

from tests.support.configuration import make_agent, make_preset
from tests.support.http_api import (
    ALPHA,
    DENIED,
    DOC_1,
    DOCUMENT_TOOL,
    ENTRIES,
    EVERYTHING,
    ITEM,
    NOTHING,
    TEXT,
    UNKNOWN,
    Listed,
    code,
    listed,
    two_servers,
    use,
)
from tests.support.service import TOOLS

# A server's own exclude


@pytest.mark.requirement("A-01", "A-02")
@pytest.mark.parametrize("agent", [None, "reader"])
@pytest.mark.parametrize(
    "excluded", [["alpha", "raw://alpha"], ["a:alpha", "resource:raw://alpha"]]
)
async def test_items_that_a_server_excludes_are_hidden_from_all_agents(
    excluded: list[str], agent: str | None
) -> None:
    async with two_servers(
        make_agent(client_ids=["a"]), exclude={"a": excluded}, require_agent=False
    ) as two:
        names = {name for names in await listed(two.service, agent) for name in names}
        assert not [name for name in names if "alpha" in name]
        assert {"a:whoami", "greet", TEXT} <= names


@pytest.mark.requirement("A-01")
@pytest.mark.parametrize("agent", [None, "reader"])
@pytest.mark.parametrize("entry", ENTRIES)
async def test_items_that_a_server_excludes_are_refused_like_unknown_ones(
    entry: str, agent: str | None
) -> None:
    excluded = {"a": ["alpha", "raw://alpha"]}
    async with two_servers(make_agent(), exclude=excluded, require_agent=False) as two:
        service = two.service
        answer = await use(service, entry, ALPHA[entry], agent)
        nowhere = await use(service, entry, ALPHA[entry].replace("alpha", "omega"), agent)
        assert answer["error"]["message"].replace("alpha", "omega") == nowhere["error"]["message"]
        assert (answer["error"]["code"], two.uses) == (nowhere["error"]["code"], 0)


@pytest.mark.requirement("A-01", "A-19")
async def test_a_servers_exclude_applies_only_to_that_server() -> None:
    async with two_servers(make_agent(), exclude={"a": ["whoami", "greet", TEXT]}) as two:
        seen = await listed(two.service, "reader")
        assert seen.tools == ["a:alpha", "a-b:whoami", "a-b:beta"]
        assert "greet" in seen.prompts
        assert TEXT in seen.resources


# An agent's preset


NARROW = make_preset("narrow", tools=[("a", "alpha"), ("a", "hidden")], resources=[("a", TEXT)])
ACTIVE = make_preset("active", tools=[("a", "whoami"), ("a", "alpha"), ("a-b", "beta")])


@pytest.mark.requirement("A-14")
async def test_an_agents_preset_narrows_the_active_one() -> None:
    async with two_servers(make_agent(preset="narrow"), presets=[ACTIVE, NARROW]) as two:
        assert await listed(two.service, "reader") == Listed(
            ["a:alpha"], ["greet", "plain", "alpha"], [TEXT], []
        )


@pytest.mark.requirement("A-14")
async def test_an_agents_preset_does_not_add_to_the_active_preset() -> None:
    active = make_preset("active", tools=[("a-b", "beta")], prompts=[], resources=[])
    agent = make_agent(preset=EVERYTHING["id"])
    async with two_servers(agent, presets=[active, EVERYTHING]) as two:
        codes = [await code(two.service, e, name, "reader") for e, name in ALPHA.items()]
        assert codes == [
            DENIED["execute"],
            UNKNOWN["batch"],
            UNKNOWN["prompt"],
            UNKNOWN["resource"],
        ]
        assert (await listed(two.service, "reader"), two.uses) == (
            Listed(["a-b:beta"], [], [], []),
            0,
        )


@pytest.mark.requirement("A-14")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_items_missing_from_the_agents_preset_are_denied(entry: str) -> None:
    of_the_other = make_preset("narrow", tools=[("a-b", "beta")])
    async with two_servers(make_agent(preset="narrow"), presets=[EVERYTHING, of_the_other]) as two:
        answer = await code(two.service, entry, ALPHA[entry], "reader")
        assert (answer, two.uses) == (DENIED[entry], 0)


async def test_presets_do_not_filter_the_document_tools() -> None:
    nothing = make_preset("nothing", prompts=[], resources=[])
    async with two_servers(make_agent(preset="nothing"), presets=[EVERYTHING, nothing]) as two:
        answer = await two.service.code(DOCUMENT_TOOL, DOC_1, agent="reader")
        assert (answer, await listed(two.service, "reader")) == ("OK", NOTHING)


# All together


@pytest.mark.requirement("A-14")
async def test_all_filters_are_combined() -> None:
    agent = make_agent(client_ids=["a"], exclude=["prompt:greet", "a-b:alpha"], preset="narrow")
    narrow = make_preset("narrow", tools=[("a", "alpha"), ("a-b", "beta")])
    async with two_servers(agent, exclude={"a": [ITEM]}, presets=[EVERYTHING, narrow]) as two:
        assert await listed(two.service, "reader") == Listed(
            ["a:alpha"], ["plain", "alpha"], [TEXT, "raw://alpha"], []
        )


@pytest.mark.requirement("A-12", "A-13")
async def test_the_listed_tools_of_an_agent_are_the_ones_it_may_call() -> None:
    agent = make_agent(client_ids=["a"], exclude=["whoami", DOCUMENT_TOOL])
    async with two_servers(agent) as two:
        shown = await two.service.result("list_available_tools", {"format": "mcp"}, agent="reader")
        tools = (await two.service.get(TOOLS, agent="reader"))["tools"]
        remote = [it for it in shown["definitions"] if ":" in it["name"]]
        assert shown["tools"] == [tool["name"] for tool in tools]
        assert remote == [
            {
                "name": "a:alpha",
                "alias": "a__alpha",
                "description": "Is alpha.",
                "input_schema": {"type": "object"},
            }
        ]
