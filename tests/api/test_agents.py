"""Access of each agent according to its client_ids and exclude_components."""

import pytest

from tests.support.configuration import Json, make_agent
from tests.support.http_api import (
    ALL_OF_BOTH,
    ALPHA,
    DENIED,
    DOC_1,
    DOCUMENT_TOOL,
    ENTRIES,
    ITEM,
    NOTHING,
    TEXT,
    USER,
    Listed,
    code,
    listed,
    reached,
    two_servers,
)
from tests.support.service import BATCH, TOOLS

OF_A = Listed(
    tools=["a:whoami", "a:alpha"],
    prompts=["greet", "plain", "alpha"],
    resources=[TEXT, "raw://alpha"],
    templates=[ITEM],
)
OF_A_B = Listed(
    tools=["a-b:whoami", "a-b:beta"],
    prompts=["greet", "plain", "beta"],
    resources=[TEXT, "raw://beta"],
    templates=[ITEM],
)


# client_ids


AGENTS: tuple[tuple[Json, Listed], ...] = (
    (make_agent("of-all"), ALL_OF_BOTH),
    (make_agent("null") | {"client_ids": None}, ALL_OF_BOTH),
    (make_agent("both", client_ids=["a", "a-b"]), ALL_OF_BOTH),
    (make_agent("both-reversed", client_ids=["a-b", "a"]), ALL_OF_BOTH),
    (make_agent("of-a", client_ids=["a"]), OF_A),
    (make_agent("of-a-b", client_ids=["a-b"]), OF_A_B),
    (make_agent("twice-and-gone", client_ids=["a-b", "a-b", "gone"]), OF_A_B),
    (make_agent("of-none", client_ids=[]), NOTHING),
    (make_agent("misspelt", client_ids=["a-", "-b", "A", "a-b-c"]), NOTHING),
)


@pytest.mark.requirement("A-03", "A-04", "A-17", "A-19")
async def test_an_agent_sees_only_the_servers_in_its_client_ids() -> None:
    async with two_servers(*(agent for agent, _ in AGENTS)) as two:
        for agent, expected in AGENTS:
            assert await listed(two.service, agent["name"]) == expected, agent


@pytest.mark.requirement("A-09", "A-11")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_an_item_on_another_server_is_denied_and_not_requested(entry: str) -> None:
    async with two_servers(make_agent(client_ids=["a-b"])) as two:
        answer = await code(two.service, entry, ALPHA[entry], "reader")
        assert (answer, two.uses) == (DENIED[entry], 0)


@pytest.mark.requirement("A-04")
async def test_an_agent_without_servers_keeps_the_document_tools() -> None:
    async with two_servers(make_agent(client_ids=[])) as two:
        assert await two.service.code(DOCUMENT_TOOL, DOC_1, agent="reader") == "OK"


# exclude_components


EXCLUDED: tuple[tuple[list[str], list[str]], ...] = (
    ([], []),
    (["nowhere", "tool:nowhere", "x:y"], []),
    (["alpha"], ["a:alpha", "alpha"]),
    (["tool:alpha"], ["a:alpha"]),
    (["prompt:alpha"], ["alpha"]),
    (["resource:alpha"], []),
    (["a:alpha"], ["a:alpha", "alpha"]),
    (["tool:a:alpha"], ["a:alpha"]),
    (["prompt:a:alpha"], ["alpha"]),
    (["raw://alpha"], ["raw://alpha"]),
    (["a:raw://alpha"], ["raw://alpha"]),
    (["resource:raw://alpha"], ["raw://alpha"]),
    (["resource:a:raw://alpha"], ["raw://alpha"]),
    (["tool:raw://alpha", "prompt:raw://alpha"], []),
    (["a-b:alpha", "tool:a-b:alpha"], []),
    (["Alpha", "alpha1", "alpha ", "a", "a:"], []),
)
"""Excluded items, and the items that are hidden as a result."""


@pytest.mark.requirement("A-05", "A-06", "A-15", "A-18")
async def test_an_agent_sees_everything_except_excluded_items() -> None:
    agents = [make_agent(f"r{n}", exclude=excluded) for n, (excluded, _) in enumerate(EXCLUDED)]
    async with two_servers(*agents) as two:
        for agent, (excluded, less) in zip(agents, EXCLUDED, strict=True):
            assert await listed(two.service, agent["name"]) == Listed(
                *([name for name in names if name not in less] for names in ALL_OF_BOTH)
            ), excluded


@pytest.mark.requirement("A-05", "A-11")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_an_excluded_item_is_denied_and_not_requested(entry: str) -> None:
    async with two_servers(make_agent(exclude=["alpha", "raw://alpha"])) as two:
        answer = await code(two.service, entry, ALPHA[entry], "reader")
        assert (answer, two.uses) == (DENIED[entry], 0)


@pytest.mark.requirement("A-05")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_an_item_that_is_not_excluded_can_be_used(entry: str) -> None:
    async with two_servers(make_agent(exclude=["beta", "raw://beta"])) as two:
        answer = await reached(two.service, entry, ALPHA[entry], "reader")
        assert answer == ("raw://alpha of a" if entry == "resource" else "alpha of a")


@pytest.mark.requirement("A-18")
@pytest.mark.parametrize(
    ("excluded", "denied"),
    [("tool:alpha", "execute"), ("prompt:alpha", "prompt"), ("resource:raw://alpha", "resource")],
)
async def test_a_kind_prefix_excludes_only_that_kind(excluded: str, denied: str) -> None:
    async with two_servers(make_agent(exclude=[excluded])) as two:
        answers = {e: await code(two.service, e, ALPHA[e], "reader") for e in DENIED}
        kind = DENIED[denied]
        assert answers == {e: kind if DENIED[e] == kind else "OK" for e in DENIED}


@pytest.mark.requirement("A-16")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_of_two_agents_only_the_excluding_one_is_restricted(entry: str) -> None:
    one, other = make_agent("one", exclude=["alpha", "raw://alpha"]), make_agent("other")
    async with two_servers(one, other) as two:
        codes = [await code(two.service, entry, ALPHA[entry], who) for who in ("one", "other")]
        assert codes == [DENIED[entry], "OK"]


@pytest.mark.requirement("A-16")
async def test_of_two_agents_the_one_without_excludes_sees_everything() -> None:
    one, other = make_agent("one", exclude=["alpha"]), make_agent("other")
    async with two_servers(one, other) as two:
        assert "a:alpha" not in (await listed(two.service, "one")).tools
        assert await listed(two.service, "other") == ALL_OF_BOTH


@pytest.mark.requirement("A-05")
@pytest.mark.parametrize("spelt", [DOCUMENT_TOOL, f"tool:{DOCUMENT_TOOL}"])
async def test_a_document_tool_is_excluded_by_name(spelt: str) -> None:
    async with two_servers(make_agent(exclude=[spelt])) as two:
        tools = (await two.service.get(TOOLS, agent="reader"))["tools"]
        answer = await two.service.code(DOCUMENT_TOOL, DOC_1, agent="reader")
        assert DOCUMENT_TOOL not in [tool["name"] for tool in tools]
        assert answer == "TOOL_NOT_ALLOWED"


async def test_each_call_of_a_batch_is_checked_for_the_agent() -> None:
    async with two_servers(make_agent(exclude=["alpha"])) as two:
        calls = [{"tool_name": name} for name in ("a:alpha", "beta", "a__alpha", "whoami")]
        body = {"calls": calls, "user": USER, "agent": "reader"}
        results = (await two.service.http.post(BATCH, json=body)).json()["results"]
        codes = [result.get("error", {}).get("code", "OK") for result in results]
        assert codes == ["TOOL_NOT_ALLOWED", "OK", "TOOL_NOT_ALLOWED", "AMBIGUOUS_NAME"]
        assert two.uses == 1
