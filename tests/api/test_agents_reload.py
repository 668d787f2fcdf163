"""Agents follow their files at runtime; a mistake never widens access."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json, make_agent, make_preset, write_json
from tests.support.http_api import (
    ALL_OF_BOTH,
    ALPHA,
    DENIED,
    DOC_1,
    DOCUMENT_TOOL,
    ENTRIES,
    EVERYTHING,
    NOTHING,
    Listed,
    Two,
    code,
    config_of,
    listed,
    two_servers,
)
from tests.support.service import ACTIVE, CONFIG_DIR, READY, Service, eventually

AGENTS = CONFIG_DIR / "agents.json"
NARROW = CONFIG_DIR / "preset_narrow.json"
WIDE = make_agent()
CLOSED = make_agent(client_ids=[])


def narrow(tool: str = "alpha") -> Json:
    return make_preset("narrow", tools=[("a", tool)], prompts=[], resources=[])


def sees(service: Service, expected: Listed) -> Callable[[], Awaitable[bool]]:
    """Return a condition for ``eventually``: the agent's lists are these."""

    async def condition() -> bool:
        return await listed(service, "reader") == expected

    return condition


def has_left_lists(service: Service, word: str) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return word not in str(await listed(service, "reader"))

    return condition


def answers(service: Service, expected: str, **top_level: str) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return await service.code(DOCUMENT_TOOL, DOC_1, **top_level) == expected

    return condition


async def degraded(service: Service, file: Path) -> None:
    """Wait until a problem of a file degrades the service."""

    async def is_degraded() -> bool:
        report = await service.get(READY)
        problems = report["checks"]["config"]["problems"]
        return report["status"] == "degraded" and any(
            problem.startswith(f"{file.name}: ") for problem in problems
        )

    await eventually(is_degraded)


async def test_an_edited_profile_applies_on_every_route() -> None:
    async with two_servers(WIDE) as two:
        write_json(AGENTS, {"agents": [make_agent(exclude=["alpha", "raw://alpha"])]})
        await eventually(has_left_lists(two.service, "alpha"))
        codes = {entry: await code(two.service, entry, ALPHA[entry], "reader") for entry in ENTRIES}
        assert (codes, two.uses) == (DENIED, 0)


async def test_an_agent_whose_profile_was_removed_is_unknown() -> None:
    async with two_servers(make_agent("other"), WIDE) as two:
        write_json(AGENTS, {"agents": [make_agent("other")]})
        await eventually(answers(two.service, "AGENT_NOT_FOUND", agent="reader"))
        assert await two.service.code(DOCUMENT_TOOL, DOC_1, agent="other") == "OK"


async def test_the_first_profile_refuses_callers_without_an_agent() -> None:
    async with two_servers() as two:
        before = await two.service.code(DOCUMENT_TOOL, DOC_1)
        write_json(AGENTS, {"agents": [WIDE]})
        await eventually(answers(two.service, "AGENT_REQUIRED"))
        assert before == "OK"


@pytest.mark.requirement("A-07")
@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"agents": {}}',
        '{"agents": [{"name": "reader", "client_ids": "a"}]}',
        '{"agents": [{"name": "reader", "exclude_components": "alpha"}]}',
        '{"agents": [{"client_ids": []}]}',
        '{"agents": [{"name": "reader", "exclude": ["alpha"]}]}',
    ],
)
async def test_an_invalid_file_leaves_every_agent_unchanged(content: str) -> None:
    async with two_servers(CLOSED) as two:
        AGENTS.write_text(content)
        await degraded(two.service, AGENTS)
        assert await listed(two.service, "reader") == NOTHING
        assert await two.service.code(DOCUMENT_TOOL, DOC_1) == "AGENT_REQUIRED"


async def test_a_deleted_file_leaves_every_agent_unchanged() -> None:
    async with two_servers(CLOSED) as two:
        AGENTS.unlink()
        await degraded(two.service, AGENTS)
        assert await listed(two.service, "reader") == NOTHING
        assert await two.service.code(DOCUMENT_TOOL, DOC_1) == "AGENT_REQUIRED"


@pytest.mark.parametrize("content", ["{", '{"agents": [{"name": 1}]}', ""])
async def test_a_file_that_is_invalid_at_the_start_refuses_every_agent_until_it_is_fixed(
    content: str,
) -> None:
    CONFIG_DIR.mkdir()
    AGENTS.write_text(content)
    async with two_servers() as two:
        await degraded(two.service, AGENTS)
        codes = [await code(two.service, entry, ALPHA[entry]) for entry in ENTRIES]
        named = await two.service.code(DOCUMENT_TOOL, DOC_1, agent="reader")
        assert (codes, named, two.uses) == (["AGENT_REQUIRED"] * 4, "AGENT_NOT_FOUND", 0)
        agents = (await two.service.get(READY))["checks"]["agents"]
        assert agents == {"status": "degraded", "profiles": 0, "required": True}
        write_json(AGENTS, {"agents": [WIDE]})
        await eventually(answers(two.service, "OK", agent="reader"))


# A server's exclude


def conversations(two: Two) -> list[int]:
    """Count the requests that open or list in a session, for both servers."""
    methods = ("initialize", "server/discover", "tools/list", "subscriptions/listen")
    return [it.script.requests[method] for it in (two.a, two.a_b) for method in methods]


@pytest.mark.requirement("A-01")
async def test_an_edit_of_a_servers_exclude_applies_without_a_new_session() -> None:
    async with two_servers(WIDE) as two:
        before = conversations(two)
        config_of(two.a, two.a_b, WIDE, exclude={"a": ["alpha", "raw://alpha"]}).write(CONFIG_DIR)
        await eventually(has_left_lists(two.service, "alpha"))
        config_of(two.a, two.a_b, WIDE).write(CONFIG_DIR)
        await eventually(sees(two.service, ALL_OF_BOTH))
        assert conversations(two) == before


# Presets


async def test_an_edit_of_an_agents_preset_applies() -> None:
    async with two_servers(make_agent(preset="narrow"), presets=[EVERYTHING, narrow()]) as two:
        before = await listed(two.service, "reader")
        write_json(NARROW, narrow("whoami"))
        await eventually(sees(two.service, Listed(["a:whoami"], [], [], [])))
        assert before.tools == ["a:alpha"]


@pytest.mark.parametrize("how", ["broken", "gone"])
async def test_an_agents_preset_that_becomes_invalid_stays_unchanged(how: str) -> None:
    async with two_servers(make_agent(preset="narrow"), presets=[EVERYTHING, narrow()]) as two:
        if how == "broken":
            NARROW.write_text("{")
        else:
            NARROW.unlink()
        await degraded(two.service, NARROW)
        assert await listed(two.service, "reader") == Listed(["a:alpha"], [], [], [])


@pytest.mark.parametrize("content", [None, "{", '{"id": "another", "name": "x", "tools": []}'])
async def test_an_agent_whose_preset_was_never_valid_sees_no_server_items(
    content: str | None,
) -> None:
    CONFIG_DIR.mkdir()
    if content is not None:
        NARROW.write_text(content)
    async with two_servers(make_agent(preset="narrow")) as two:
        await degraded(two.service, AGENTS)
        codes = {entry: await code(two.service, entry, ALPHA[entry], "reader") for entry in ENTRIES}
        assert (await listed(two.service, "reader"), codes, two.uses) == (NOTHING, DENIED, 0)
        assert await two.service.code(DOCUMENT_TOOL, DOC_1, agent="reader") == "OK"
        write_json(NARROW, narrow())
        await eventually(sees(two.service, Listed(["a:alpha"], [], [], [])))


async def test_a_switch_of_the_active_preset_narrows_every_agent_immediately() -> None:
    other = make_preset("other", tools=[("a-b", "beta")], prompts=[], resources=[])
    agents = [WIDE, make_agent("narrowed", preset="narrow")]
    async with two_servers(*agents, presets=[EVERYTHING, narrow(), other]) as two:
        await two.service.http.put(ACTIVE, json={"preset_id": "other", "persist": False})
        assert await listed(two.service, "reader") == Listed(["a-b:beta"], [], [], [])
        assert await listed(two.service, "narrowed") == NOTHING


# Unknown names


@pytest.mark.requirement("A-15")
async def test_names_without_a_match_are_warnings() -> None:
    agent = make_agent(client_ids=["a", "a_b"], exclude=["alphaa"])
    with capture_logs() as lines:
        async with two_servers(agent, exclude={"a": ["whoamy"]}) as two:
            seen = await listed(two.service, "reader")
    logged = {it["path"]: it["reason"] for it in lines if it["event"] == "config.warning"}
    offered = "nothing offered by the servers that were discovered"
    assert logged == {
        "$.agents[0].client_ids[1]": '"a_b" is not a server in mcp.json; did you mean "a-b"?',
        "$.agents[0].exclude_components[0]": f'"alphaa" matches {offered}: "a"; "a-b"',
        "$.mcpServers.a.exclude[0]": f'"whoamy" matches {offered}: "a"',
    }
    assert seen.tools == ["a:whoami", "a:alpha"]
