"""GET tools: the formats, the subsets, the warnings."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.http_api import Two, two_servers
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import TOOLS, Envelope, Service, running

FORMATS = ("mcp", "openai", "anthropic", "gemini")
REMOTE = ["a:whoami", "a:alpha", "a-b:whoami", "a-b:beta"]
ALIASES = ["a__whoami", "a__alpha", "a-b__whoami", "a-b__beta"]
FIRST = make_agent(client_ids=["a"])
EVERY = make_agent()
COMMAS: Json = {"name": "x,y", "inputSchema": {"type": "object"}}
LOOKBEHIND: Json = {
    "name": "loose",
    "inputSchema": {
        "type": "object",
        "properties": {"id": {"type": "string", "pattern": "(?<=a)b"}},
    },
}


@pytest.fixture(scope="module")
async def two(shared_settings: Json) -> AsyncIterator[Two]:
    async with two_servers(**shared_settings) as started:
        yield started


@pytest.fixture
async def of_first() -> AsyncIterator[Two]:
    async with two_servers(FIRST) as started:
        yield started


@pytest.fixture
async def of_every() -> AsyncIterator[Two]:
    async with two_servers(EVERY) as started:
        yield started


def preset_of(*tools: str) -> Json:
    return make_preset(tools=[("a", name) for name in tools])


async def fetch(service: Service, *names: str, **query: str) -> Envelope:
    """GET tools with ``names`` unchanged."""
    parameters = httpx.QueryParams({**query, "names": names} if names else query)
    answer: Envelope = (await service.http.get(TOOLS, params=parameters)).json()
    return answer


def names_in(answer: Envelope) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in answer["tools"]]


def remote(names: list[str]) -> list[str]:
    return [name for name in names if ":" in name or "__" in name]


# Formats


@pytest.mark.parametrize("agent", [None, "reader"])
async def test_every_format_lists_the_same_tools_in_the_same_order(agent: str | None) -> None:
    parameters = {} if agent is None else {"agent": agent}
    async with two_servers(EVERY, require_agent=False) as two:
        for tool_format in FORMATS:
            answer = await fetch(two.service, format=tool_format, **parameters)
            names = REMOTE if tool_format == "mcp" else ALIASES
            assert (answer["format"], remote(names_in(answer))) == (tool_format, names)


async def test_the_default_format_is_mcp(two: Two) -> None:
    assert await fetch(two.service) == await fetch(two.service, format="mcp")


@pytest.mark.parametrize(
    ("tool_format", "shown"),
    [
        (
            "openai",
            {
                "type": "function",
                "function": {
                    "name": "a__alpha",
                    "description": "Is alpha.",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
        ),
        (
            "anthropic",
            {
                "name": "a__alpha",
                "description": "Is alpha.",
                "input_schema": {"type": "object"},
            },
        ),
        ("gemini", {"name": "a__alpha", "description": "Is alpha."}),
    ],
)
@pytest.mark.requirement("A-12")
async def test_a_tool_has_the_shape_of_the_api(
    of_first: Two, tool_format: str, shown: Json
) -> None:
    answer = await fetch(of_first.service, "alpha", format=tool_format, agent="reader")
    assert answer == {"tools": [shown], "format": tool_format}


@pytest.mark.requirement("A-12")
@pytest.mark.parametrize("tool_format", FORMATS)
async def test_a_list_for_a_model_omits_other_servers_and_then_excluded_items(
    tool_format: str,
) -> None:
    agent = make_agent(client_ids=["a"], exclude=["alpha", "beta"])
    async with two_servers(agent) as two:
        found = remote(names_in(await fetch(two.service, format=tool_format, agent="reader")))
        assert found == (["a:whoami"] if tool_format == "mcp" else ["a__whoami"])


@pytest.mark.requirement("A-17")
@pytest.mark.parametrize("tool_format", FORMATS)
async def test_an_agent_of_the_first_server_sees_the_tool_that_both_have(
    of_first: Two,
    tool_format: str,
) -> None:
    answer = await fetch(of_first.service, "whoami", format=tool_format, agent="reader")
    assert len(answer["tools"]) == 1


@pytest.mark.requirement("A-13")
@pytest.mark.parametrize("tool_format", FORMATS)
async def test_every_listed_name_calls_its_own_tool(tool_format: str) -> None:
    async with two_servers(make_agent(exclude=["a:alpha"])) as two:
        listed = remote(names_in(await fetch(two.service, format=tool_format, agent="reader")))
        ran = [await two.service.result(name, agent="reader") for name in listed]
        found = [
            (it["structured_content"]["server"], it["structured_content"]["tool"]) for it in ran
        ]
        assert found == [("a", "whoami"), ("a-b", "whoami"), ("a-b", "beta")]


# Names


NAMED: tuple[tuple[list[str], list[str]], ...] = (
    (["a:alpha"], ["a:alpha"]),
    (["a__alpha"], ["a:alpha"]),
    (["alpha"], ["a:alpha"]),
    (["beta", "alpha"], ["a:alpha", "a-b:beta"]),
    (["a-b__beta, alpha"], ["a:alpha", "a-b:beta"]),
    (["alpha", "a:alpha", "a__alpha,alpha"], ["a:alpha"]),
    (["read_doc_pages,", ",beta"], ["read_doc_pages", "a-b:beta"]),
    (["x,y"], ["a:x,y"]),
    (["a:x,y"], ["a:x,y"]),
    ([""], []),
    ([",", ""], []),
    (["", "alpha"], ["a:alpha"]),
)
"""Values of ``names``, and the listed tools."""


async def test_names_accept_the_spellings_of_execute_repeated_or_separated_by_commas() -> None:
    preset = make_preset(tools=[("a", "alpha"), ("a", "x,y"), ("a-b", "beta")])
    async with two_servers(EVERY, presets=[preset], more={"tools": [COMMAS]}) as two:
        for names, expected in NAMED:
            answer = await fetch(two.service, *names, agent="reader")
            assert (names_in(answer), "warnings" in answer) == (expected, False), names


async def test_names_work_without_an_agent_if_execute_accepts_them(two: Two) -> None:
    answer = await fetch(two.service, "a__alpha", "beta", "whoami")
    warned = [warning["tool"] for warning in answer["warnings"]]
    assert (names_in(answer), warned) == (["a:alpha", "a-b:beta"], ["whoami"])


async def test_an_ambiguous_name_is_omitted_with_advice(
    of_every: Two,
) -> None:
    answer = await fetch(of_every.service, "whoami", agent="reader")
    assert (answer["tools"], answer["warnings"]) == (
        [],
        [
            {
                "tool": "whoami",
                "message": '2 servers have a tool named "whoami"; name one as server_id:tool',
            }
        ],
    )


async def test_a_hidden_name_is_reported_like_an_unknown_one() -> None:
    async with two_servers(make_agent(client_ids=["a"], exclude=["alpha"])) as two:
        for hidden in ("a:alpha", "a__alpha", "alpha", "a-b:beta", "beta"):
            answer = await fetch(two.service, hidden, "no_such_tool", agent="reader")
            messages = [
                warning["message"].replace(hidden, "no_such_tool") for warning in answer["warnings"]
            ]
            found = answer["tools"], messages[0], len(messages)
            assert found == ([], messages[1], 2), hidden


async def test_of_many_unknown_names_the_first_are_listed_and_the_others_counted(two: Two) -> None:
    warnings = (await fetch(two.service, *[f"n{n}" for n in range(130)] * 2))["warnings"]
    assert (len(warnings), warnings[-1]) == (
        101,
        {"message": "30 more names match no tool that you may run"},
    )


async def test_unknown_keys_of_the_query_are_ignored(two: Two) -> None:
    assert await fetch(two.service, "alpha", name="x") == await fetch(two.service, "alpha")


# Warnings


@pytest.mark.parametrize(
    ("tool_format", "warned"),
    [("mcp", []), ("openai", ["a:loose"]), ("anthropic", []), ("gemini", [])],
)
async def test_a_schema_that_an_api_does_not_fully_support_causes_a_warning(
    tool_format: str, warned: list[str]
) -> None:
    presets = [preset_of("alpha", "loose")]
    async with two_servers(presets=presets, more={"tools": [LOOKBEHIND]}) as two:
        answer = await fetch(two.service, format=tool_format)
        assert [warning["tool"] for warning in answer.get("warnings", [])] == warned


async def test_only_listed_tools_cause_warnings() -> None:
    presets = [preset_of("alpha", "loose")]
    async with two_servers(presets=presets, more={"tools": [LOOKBEHIND]}) as two:
        await fetch(two.service, format="openai")
        assert "warnings" not in await fetch(two.service, "a:alpha", format="openai")


async def test_more_tools_than_an_api_accepts_cause_a_warning() -> None:
    tools = [("a", f"tool_{number:03}") for number in range(1, 131)]
    async with running_raw(tools=130) as server:
        config = Config(servers={"a": server.entry}, presets=[make_preset(tools=tools)])
        async with running(config=config) as service:
            answers = [await fetch(service, format=it) for it in FORMATS]
    warned = [[list(warning) for warning in it.get("warnings", [])] for it in answers]
    assert warned == [[["message"]] if it == "openai" else [] for it in FORMATS]


# list_available_tools


@pytest.mark.requirement("A-13")
@pytest.mark.parametrize("tool_format", ["openai", "anthropic", "gemini"])
async def test_the_tool_returns_the_definitions_of_the_route(
    of_first: Two, tool_format: str
) -> None:
    listed = await fetch(of_first.service, format=tool_format, agent="reader")
    arguments = {"format": tool_format}
    result = await of_first.service.result("list_available_tools", arguments, agent="reader")
    assert (result["definitions"], remote(result["tools"])) == (listed["tools"], REMOTE[:2])


async def test_the_tool_returns_definitions_only_with_format_or_names(two: Two) -> None:
    default = await two.service.result("list_available_tools")
    names = [*default["tools"]]
    shaped = await two.service.result("list_available_tools", {"format": "mcp"})
    named = await two.service.result("list_available_tools", {"names": names})
    both = await two.service.result("list_available_tools", {"format": "mcp", "names": names})
    assert list(default) == ["tools", "summaries", "not_configured"]
    assert named == shaped == both
    assert both == {**default, "definitions": both["definitions"]}
    assert [it["name"] for it in both["definitions"]] == names


async def test_a_summary_is_the_first_sentence_of_a_description() -> None:
    described = [
        ("Find notes. Case does not count.", "Find notes."),
        ("\n\n  Find notes\nby words", "Find notes"),
        ("x" * 200, "x" * 159 + "…"),
        ("", ""),
    ]
    listed: list[Json] = [
        {"name": f"t{n}", "inputSchema": {"type": "object"}, "description": text}
        for n, (text, _) in enumerate(described)
    ]
    async with running_raw(only=(), extra={"tools": listed}) as server:
        tools = [("a", tool["name"]) for tool in listed]
        config = Config(servers={"a": server.entry}, presets=[make_preset(tools=tools)])
        async with running(config=config) as service:
            shown = (await service.result("list_available_tools"))["summaries"]
    assert [shown[f"a:t{n}"] for n in range(4)] == [summary for _, summary in described]
    assert shown["read_doc_section"] == (
        "Read one section of a document; read_doc_metadata lists the section ids."
    )


async def test_the_tool_lists_only_the_given_names_and_warns_about_the_others(
    of_every: Two,
) -> None:
    arguments = {"names": ["beta", "a__alpha,nope"]}
    result = await of_every.service.result("list_available_tools", arguments, agent="reader")
    assert (
        result["tools"],
        [definition["alias"] for definition in result["definitions"]],
        [warning["tool"] for warning in result["warnings"]],
    ) == (["a:alpha", "a-b:beta"], ["a__alpha", "a-b__beta"], ["nope"])


async def test_the_tool_lists_nothing_for_no_names(two: Two) -> None:
    result = await two.service.result("list_available_tools", {"names": []})
    assert (result["tools"], result["summaries"], result["definitions"]) == ([], {}, [])


@pytest.mark.parametrize("arguments", [{"format": "xml"}, {"names": "a:alpha"}, {"names": [1]}])
async def test_the_tool_refuses_other_arguments(two: Two, arguments: Json) -> None:
    assert await two.service.code("list_available_tools", arguments) == "INVALID_ARGUMENTS"


async def test_a_list_that_exceeds_a_result_advises_to_use_names() -> None:
    async with running(max_result_bytes=3_000) as service:
        error = (await service.execute("list_available_tools", {"format": "mcp"}))["error"]
        named = await service.code("list_available_tools", {"names": ["read_doc_metadata"]})
        assert (error["code"], "in names" in error["message"], named) == (
            "RESULT_TOO_LARGE",
            True,
            "OK",
        )
