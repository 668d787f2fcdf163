"""Names shared by several servers: filtered by agent first, then unique, unknown or ambiguous."""

import pytest

from tests.api.blocked_service import UNREACHABLE_SERVER
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.http_api import (
    DENIED,
    EVERYTHING,
    ITEM_7,
    TEXT,
    UNKNOWN,
    code,
    listed,
    offer,
    reached,
    two_servers,
    use,
)
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import running

SHARED = [
    ("execute", "whoami"),
    ("batch", "whoami"),
    ("prompt", "greet"),
    ("resource", TEXT),
    ("resource", ITEM_7),
]
"""Items of both servers, by bare name."""

PRESET_OF_A_B = make_preset("narrow", tools=[("a-b", "whoami")])
NOT_ON_A = ["a:whoami", "prompt:a:greet", f"a:{TEXT}", "resource:a:raw://item/{id}"]


@pytest.mark.requirement("A-08")
@pytest.mark.parametrize("entry_and_name", SHARED, ids=str)
@pytest.mark.parametrize(
    "agent",
    [
        make_agent(client_ids=["a-b"]),
        make_agent(exclude=NOT_ON_A),
        make_agent(preset="narrow"),
    ],
    ids=["client_ids", "exclude", "preset"],
)
async def test_a_bare_name_resolves_among_the_servers_of_the_agent(
    agent: Json, entry_and_name: tuple[str, str]
) -> None:
    entry, name = entry_and_name
    async with two_servers(agent, presets=[EVERYTHING, PRESET_OF_A_B]) as two:
        assert await reached(two.service, entry, name, "reader") == f"{name} of a-b"


@pytest.mark.requirement("A-10")
@pytest.mark.parametrize(("entry", "name"), SHARED)
async def test_a_shared_bare_name_is_ambiguous_and_no_server_is_called(
    entry: str, name: str
) -> None:
    async with two_servers(make_agent()) as two:
        error = (await use(two.service, entry, name, "reader"))["error"]
        candidates = [f"a:{name}", f"a-b:{name}"]
        assert (error["code"], error["details"], two.uses) == (
            "AMBIGUOUS_NAME",
            {"candidates": candidates},
            0,
        )
        assert all(candidate in error["message"] for candidate in candidates)


@pytest.mark.requirement("A-10", "A-19")
@pytest.mark.parametrize("agent", ["reader", None])
async def test_a_bare_name_stays_ambiguous_while_one_of_its_servers_is_unavailable(
    agent: str | None,
) -> None:
    """Otherwise the other server would receive a call meant for the unavailable one."""
    preset = make_preset(tools=[("a", "whoami"), ("a", "alpha"), ("bank", "whoami")])
    async with running_raw(name="a", **offer("alpha")) as a:
        config = Config(
            servers={"a": a.entry, "bank": UNREACHABLE_SERVER},
            presets=[preset],
            agents=[make_agent()],
        )
        async with running(config=config, require_agent=False) as service:
            for entry in ("execute", "batch"):
                error = (await use(service, entry, "whoami", agent))["error"]
                assert error["code"] == "AMBIGUOUS_NAME"
                assert error["details"] == {"candidates": ["a:whoami", "bank:whoami"]}
            assert a.script.requests["tools/call"] == 0
            assert await reached(service, "execute", "alpha", agent) == "alpha of a"


@pytest.mark.requirement("A-10", "F-06")
@pytest.mark.parametrize(("entry", "name"), SHARED)
async def test_each_candidate_resolves_and_its_server_receives_the_bare_name(
    entry: str, name: str
) -> None:
    async with two_servers(make_agent()) as two:
        error = (await use(two.service, entry, name, "reader"))["error"]
        answers = [
            await reached(two.service, entry, candidate, "reader")
            for candidate in error["details"]["candidates"]
        ]
        assert answers == [f"{name} of a", f"{name} of a-b"]


@pytest.mark.requirement("A-10")
async def test_a_list_shows_the_qualified_name_if_the_bare_one_is_ambiguous() -> None:
    async with two_servers(make_agent(exclude=["a:plain"])) as two:
        assert (await listed(two.service, "reader")).prompts == [
            "a:greet",
            "a-b:greet",
            "plain",
            "alpha",
            "beta",
        ]


@pytest.mark.requirement("P-13")
async def test_without_an_agent_the_first_server_owns_the_name() -> None:
    async with two_servers(require_agent=False) as two:
        answers = [await reached(two.service, entry, name) for entry, name in SHARED[2:]]
        assert answers == [f"{name} of a" for _, name in SHARED[2:]]
        assert (await listed(two.service)).prompts == ["greet", "plain", "alpha", "beta"]


@pytest.mark.parametrize("entry", ["execute", "batch"])
async def test_without_an_agent_a_unique_bare_name_can_be_used(entry: str) -> None:
    async with two_servers(make_agent(), require_agent=False) as two:
        assert await reached(two.service, entry, "alpha") == "alpha of a"
        assert await code(two.service, entry, "whoami") == "AMBIGUOUS_NAME"


async def test_bare_names_of_different_kinds_do_not_collide() -> None:
    async with two_servers(make_agent(client_ids=["a"])) as two:
        codes = [
            await code(two.service, entry, name, "reader")
            for entry, name in [("execute", "greet"), ("prompt", "whoami"), ("resource", "alpha")]
        ]
        assert codes == [UNKNOWN["execute"], UNKNOWN["prompt"], UNKNOWN["resource"]]


# Names of servers and tools that contain each other

ODD_NAMES = ["b:whoami", "-b:whoami", "b__whoami", "-b", "whoami-", "who", ":", "ümlaut", "x" * 300]
ODD = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ODD_NAMES]} | {
    "prompts": [{"name": name} for name in ODD_NAMES]
}
ODD_PRESET = make_preset(
    "odd", tools=[(s, name) for s in ("a", "a-b") for name in ("whoami", *ODD_NAMES)]
)


@pytest.mark.requirement("A-19")
async def test_an_agent_of_one_server_reaches_only_the_names_of_that_server() -> None:
    agents = [make_agent(server, client_ids=[server]) for server in ("a", "a-b")]
    async with two_servers(*agents, presets=[ODD_PRESET], more=ODD) as two:
        for agent in ("a", "a-b"):
            seen = await listed(two.service, agent)
            assert seen.tools == [f"{agent}:{name}" for name in ("whoami", *ODD_NAMES)]
            for name in ("whoami", *ODD_NAMES):
                answer = await reached(two.service, "execute", f"{agent}:{name}", agent)
                assert answer == f"{name} of {agent}"
        other = {"a": "a-b", "a-b": "a"}
        refused = [
            await code(two.service, "execute", f"{other[agent]}:{name}", agent)
            for agent in other
            for name in ("whoami", *ODD_NAMES)
        ]
        assert set(refused) == {DENIED["execute"]}


@pytest.mark.requirement("A-19", "A-10")
async def test_every_listed_name_resolves_to_its_own_server() -> None:
    async with two_servers(make_agent(), presets=[ODD_PRESET], more=ODD) as two:
        seen = await listed(two.service, "reader")
        tools = [await reached(two.service, "execute", name, "reader") for name in seen.tools]
        prompts = [await reached(two.service, "prompt", name, "reader") for name in seen.prompts]
    alone = {"alpha": "a", "beta": "a-b"}
    pairs = [
        (alone[name], name) if name in alone else name.split(":", 1)
        for name in (*seen.tools, *seen.prompts)
    ]
    assert [*tools, *prompts] == [f"{name} of {server}" for server, name in pairs]


IMPOSTORS = ["a-b:beta", "a-b__beta"]
"""Tools of server a that have the qualified name of server a-b's tool."""

IMPOSTOR_PRESET = make_preset(
    "impostors", tools=[("a-b", "beta"), *(("a", name) for name in IMPOSTORS)]
)


@pytest.mark.requirement("A-19", "A-16")
@pytest.mark.parametrize("name", IMPOSTORS)
async def test_a_qualified_name_never_resolves_to_another_servers_tool_with_that_name(
    name: str,
) -> None:
    tools = [{"name": it, "inputSchema": {"type": "object"}} for it in IMPOSTORS]
    agents = [make_agent("both"), make_agent("denied", exclude=["a-b:beta", "tool:beta"])]
    agents += [make_agent("other", client_ids=["a"])]
    presets = [IMPOSTOR_PRESET]
    async with two_servers(*agents, presets=presets, more={"tools": tools}) as two:
        assert await reached(two.service, "execute", name, "both") == "beta of a-b"
        codes = [await code(two.service, "execute", name, it) for it in ("denied", "other")]
        assert (codes, two.a.script.requests["tools/call"]) == ([DENIED["execute"]] * 2, 0)
