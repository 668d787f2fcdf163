"""Tool names of ``GET /internal/mcp/tools`` in MCP's format: by the query, else the profile."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.configuration import make_agent, make_preset
from tests.support.http_api import EVERYTHING, Two, code, reached, two_servers
from tests.support.local_tools import LOCAL_TOOLS
from tests.support.service import TOOLS, Service

LISTED = {
    "server": ["a:whoami", "a:alpha", "a-b:whoami", "a-b:beta"],
    "alias": ["a__whoami", "a__alpha", "a-b__whoami", "a-b__beta"],
    "bare": ["a:whoami", "alpha", "a-b:whoami", "beta"],
}
styles = pytest.mark.parametrize("style", LISTED)


@pytest.fixture(scope="module")
async def two(shared_settings: dict[str, Any]) -> AsyncIterator[Two]:
    async with two_servers(**shared_settings) as started:
        yield started


async def listed(service: Service, **query: str) -> list[str]:
    tools = (await service.get(TOOLS, **query))["tools"]
    return [tool["name"] for tool in tools if tool["name"] not in LOCAL_TOOLS]


@styles
async def test_the_query_selects_the_name_style(style: str) -> None:
    async with two_servers(tool_name_style="alias") as two:
        assert await listed(two.service, name_style=style) == LISTED[style]
        assert await listed(two.service, format="mcp", name_style=style) == LISTED[style]
        called = [await reached(two.service, "execute", name) for name in LISTED[style]]
    assert called == ["whoami of a", "alpha of a", "whoami of a-b", "beta of a-b"]


async def test_only_the_name_differs_from_a_list_without_a_style(two: Two) -> None:
    plain = await two.service.http.get(TOOLS)
    bare = await two.service.http.get(TOOLS, params={"name_style": "bare"})
    same = await two.service.http.get(TOOLS, params={"name_style": "server"})
    shown = bare.text.replace('"alpha"', '"a:alpha"').replace('"beta"', '"a-b:beta"')
    assert (shown, same.content) == (plain.text, plain.content)
    assert same.headers["etag"] == plain.headers["etag"] != bare.headers["etag"]


@styles
async def test_the_tag_covers_the_style(two: Two, style: str) -> None:
    tags = {}
    for other in LISTED:
        answer = await two.service.http.get(TOOLS, params={"name_style": other})
        tags[other] = answer.headers["etag"]
    found = {}
    for other, tag in tags.items():
        answer = await two.service.http.get(
            TOOLS, params={"name_style": style}, headers={"If-None-Match": tag}
        )
        found[other] = answer.status_code
    assert found == {other: 304 if other == style else 200 for other in LISTED}


@styles
async def test_selected_tools_have_the_style_for_every_spelling_in_names(
    two: Two, style: str
) -> None:
    for names in ("alpha,a-b:whoami", "a:alpha,a-b__whoami", "a-b:whoami,a__alpha"):
        found = await listed(two.service, name_style=style, names=names)
        assert found == LISTED[style][1:3]
    answer = await two.service.get(TOOLS, name_style=style, names="whoami,beta")
    assert [tool["name"] for tool in answer["tools"]] == LISTED[style][3:]
    assert "2 servers have a tool named" in answer["warnings"][0]["message"]


async def test_a_profile_selects_the_style_if_the_query_does_not() -> None:
    agents = [make_agent("short", name_style="bare"), make_agent("plain")]
    async with two_servers(*agents, tool_name_style="alias") as two:
        assert await listed(two.service, agent="short") == LISTED["bare"]
        assert await listed(two.service, agent="short", name_style="server") == LISTED["server"]
        assert await listed(two.service, agent="plain") == LISTED["server"]


async def test_a_name_reveals_nothing_about_hidden_tools() -> None:
    """Two agents with different hidden tools, for any reason, have the same list."""
    presets = [EVERYTHING, make_preset("of_a", tools=[("a", "whoami"), ("a", "alpha")])]
    agents = [
        make_agent("of_a", client_ids=["a"]),
        make_agent("by_preset", preset="of_a"),
        make_agent("by_name", exclude=["a-b:whoami", "beta"]),
    ]
    async with two_servers(*agents, presets=presets) as two:
        for agent in agents:
            name = str(agent["name"])
            assert await listed(two.service, agent=name, name_style="bare") == ["whoami", "alpha"]
            assert await reached(two.service, "execute", "whoami", name) == "whoami of a"
            assert await code(two.service, "batch", "beta", name) in (
                "TOOL_NOT_ALLOWED",
                "TOOL_NOT_FOUND",
            )


@pytest.mark.parametrize("given", ["", "Alias", "qualified", "alias "])
async def test_an_unknown_style_is_refused_with_the_three_valid_ones(two: Two, given: str) -> None:
    answer = await two.service.http.get(TOOLS, params={"name_style": given})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "INVALID_REQUEST")
    assert error["details"] == {"field": "name_style"}
    shown = f'name_style: should be one of server, alias, bare, not "{given}"'
    assert error["message"] == shown


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("name_style=alias&name_style=alias", "is given twice; keep one of server, alias, bare"),
        ("name_style&x", 'should be one of server, alias, bare, not ""'),
        ("name%5fstyle=x&format=openai", 'should be one of server, alias, bare, not "x"'),
    ],
)
async def test_a_duplicate_or_empty_style_is_refused_like_over_mcp(
    two: Two, query: str, problem: str
) -> None:
    answer = await two.service.http.get(f"{TOOLS}?{query}")
    headers = {"Accept": "text/event-stream"}
    over_mcp = await two.service.http.get(f"/mcp?{query}", headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["details"]) == (400, {"field": "name_style"})
    assert error["message"] == over_mcp.json()["error"]["message"] == f"name_style: {problem}"


@pytest.mark.parametrize("tool_format", ["openai", "anthropic", "gemini"])
async def test_model_formats_use_aliases_in_every_style(
    tool_format: str,
) -> None:
    agents = [make_agent("short", name_style="bare"), make_agent("plain")]
    queries = [{"agent": "short"}, {"agent": "plain"}, {"agent": "plain", "name_style": "bare"}]
    async with two_servers(*agents) as two:
        answers = [
            await two.service.http.get(TOOLS, params={"format": tool_format, **query})
            for query in queries
        ]
    (content,) = {answer.content for answer in answers}
    assert b"a-b__beta" in content
