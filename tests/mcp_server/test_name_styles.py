"""Lists take the style of tool names from the query, the agent's profile or the setting."""

from contextlib import aclosing

import pytest

from tests.mcp_server.entries import HTTP_PATHS, Who, by_stdio
from tests.mcp_server.list_change_listener import listening
from tests.mcp_server.listed_tools import (
    CALLED,
    LISTED,
    called_by,
    in_session,
    listed_by,
    listed_in,
)
from tests.support.configuration import Json, make_agent, make_preset, write_json
from tests.support.http_api import EVERYTHING
from tests.support.mcp_endpoint import (
    BOTH,
    ERAS,
    INITIALIZE,
    TENANT,
    in_front_of_two,
)
from tests.support.program import UNLIMITED
from tests.support.raw_mcp_client import lines_of, next_data
from tests.support.service import CONFIG_DIR
from tests.support.tables import named_row
from tests.support.tokens import MODES

WHOLE = make_agent("whole")
styles = pytest.mark.parametrize("style", LISTED)
eras = pytest.mark.parametrize("mode", ERAS)


# Listed names can be called


@pytest.mark.requirement("F-11", "A-13")
@eras
@pytest.mark.parametrize("entry", HTTP_PATHS)
async def test_a_query_sets_the_style_and_each_name_calls_its_tool(entry: str, mode: str) -> None:
    path = HTTP_PATHS[entry].format(agent="whole")
    async with in_front_of_two(WHOLE, require_agent=False) as served:
        for style, expected in LISTED.items():
            async with served.client(f"{path}?name_style={style}", mode=mode) as client:
                listed = await listed_by(client)
                assert (listed, await called_by(client, listed)) == (expected, CALLED)


@styles
async def test_calls_accept_every_spelling_in_every_style(style: str) -> None:
    async with (
        in_front_of_two() as served,
        served.client(f"/mcp?name_style={style}") as client,
    ):
        found = [await called_by(client, LISTED[other]) for other in LISTED]
        ambiguous = await client.call_tool("whoami", {})
    assert found == [CALLED] * 3
    assert "AMBIGUOUS_NAME" in str(ambiguous.content)


PRECEDENCE = {
    "server": [
        ("?name_style=bare", "alias", "bare"),
        ("", "alias", "alias"),
        ("?other=x", None, "server"),
        ("?name%5Fstyle=alias", None, "alias"),
    ],
    "alias": [
        ("?name_style=server", "alias", "server"),
        ("", "bare", "bare"),
        ("", None, "alias"),
    ],
}
"""By setting: a query, the style of the profile, and the style of the list."""


@pytest.mark.parametrize("setting", PRECEDENCE)
@eras
async def test_the_query_overrides_the_profile_which_overrides_the_setting(
    mode: str, setting: str
) -> None:
    agents = [make_agent(str(profile), name_style=profile) for profile in ("alias", "bare", None)]
    async with in_front_of_two(*agents, tool_name_style=setting) as served:
        for query, profile, style in PRECEDENCE[setting]:
            with named_row(query, profile):
                path = f"/mcp/agents/{profile}{query}"
                async with served.client(path, mode=mode) as client:
                    assert await listed_by(client) == LISTED[style]


@eras
async def test_the_bare_setting_uses_full_names_for_tools_of_two_servers(
    mode: str,
) -> None:
    async with (
        in_front_of_two(tool_name_style="bare") as served,
        served.client("/mcp", mode=mode) as client,
    ):
        listed = await listed_by(client)
        assert (listed, await called_by(client, listed)) == (LISTED["bare"], CALLED)


async def test_a_name_is_bare_if_it_is_unique_for_this_agent() -> None:
    agents = [make_agent("of_a", client_ids=["a"], name_style="bare"), WHOLE]
    preset = make_preset("narrow", tools=[("a-b", "whoami")])
    agents.append(make_agent("narrow", preset="narrow", name_style="bare"))
    found = {}
    async with in_front_of_two(*agents, presets=(EVERYTHING, preset)) as served:
        for agent in ("of_a", "narrow", "whole"):
            async with served.client(f"/mcp/agents/{agent}") as client:
                listed = await listed_by(client)
                found[agent] = listed, await called_by(client, listed)
    assert found == {
        "of_a": (["whoami", "alpha"], CALLED[:2]),
        "narrow": (["whoami"], CALLED[2:3]),
        "whole": (LISTED["server"], CALLED),
    }


# Unknown styles


WRONG = [
    *("name_style=", "name_style", "name_style=Alias", "name_style=alias%00", "name_style=%ff"),
    *(f"name_style={'x' * 5000}", "name_style=alias&name_style=alias", "name%5fstyle=x"),
]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/agents/whole", "/mcp/sse"])
async def test_an_unknown_style_is_refused_before_any_message(path: str) -> None:
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    headers = {**BOTH, **TENANT}
    async with in_front_of_two(WHOLE, require_agent=False) as served:
        for url in (f"{path}?{query}" for query in WRONG):
            for response in (
                await served.http.post(url, json=body, headers=headers),
                await served.http.post(url, content=b"{", headers=headers),
                await served.http.get(url, headers=headers),
                await served.request("tools/list", path=url),
            ):
                error = response.json()["error"]
                assert (response.status_code, error["data"]["code"]) == (400, "INVALID_REQUEST")
                assert error["data"]["details"] == {"field": "name_style"}
                assert "mcp-session-id" not in response.headers
                assert "one of server, alias, bare" in error["message"]
                assert len(error["message"]) < 300
        assert served.facade.sessions == 0


async def test_the_caller_is_authenticated_first() -> None:
    settings, _ = MODES["token"]
    async with in_front_of_two(WHOLE, **settings()) as served:
        response = await served.request("tools/list", path="/mcp?name_style=x")
    assert response.status_code == 401


# Sessions of the older eras


@styles
async def test_a_session_keeps_its_initial_style(style: str) -> None:
    async with in_front_of_two(tool_name_style="alias") as served:
        session_id = await served.open_session(path=f"/mcp?name_style={style}")
        found = [
            listed_in(await in_session(served, session_id, path))
            for path in ("/mcp", f"/mcp?name_style={style}")
        ]
    assert found == [LISTED[style]] * 2


async def test_a_session_is_unknown_with_another_style() -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session(path="/mcp?name_style=alias")
        other = "/mcp?name_style=bare"
        headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        statuses = [
            (await in_session(served, session_id, other)).status_code,
            (await served.http.post(other, json=note, headers=headers)).status_code,
            (await served.http.get(other, headers=headers)).status_code,
            (await served.http.delete(other, headers=headers)).status_code,
            (await in_session(served, session_id, "/mcp")).status_code,
        ]
    assert statuses == [404, 404, 404, 404, 200]


async def test_a_session_without_a_style_uses_that_of_each_request() -> None:
    """It may come from a replica of a version without styles."""
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        found = [
            listed_in(await in_session(served, session_id, path))
            for path in ("/mcp?name_style=alias", "/mcp", "/mcp?name_style=bare")
        ]
    assert found == [LISTED["alias"], LISTED["server"], LISTED["bare"]]


async def test_a_stream_of_legacy_sse_names_its_style_and_refuses_others() -> None:
    async with (
        in_front_of_two() as served,
        served.http.stream("GET", "/mcp/sse?name_style=alias", headers=TENANT) as response,
        aclosing(lines_of(response)) as lines,
    ):
        address = await next_data(lines)
        session = address.removesuffix("&name_style=alias")
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        statuses = [
            (await served.http.post(url, json=body, headers=TENANT)).status_code
            for url in (address, session, f"{session}&name_style=bare")
        ]
    assert (session == address, statuses) == (False, [202, 202, 404])


# Changes


@pytest.mark.requirement("P-22")
@eras
@pytest.mark.parametrize("path", ["/mcp/agents/whole", "/mcp/agents/whole/sse"])
async def test_a_new_style_in_the_profile_is_a_change_of_the_list(path: str, mode: str) -> None:
    async with (
        in_front_of_two(WHOLE) as served,
        listening(served, path, mode=mode) as concerned,
        listening(served, f"{path}?name_style=bare", mode=mode) as unconcerned,
    ):
        before = await listed_by(concerned.client)
        write_json(
            CONFIG_DIR / "agents.json", {"agents": [make_agent("whole", name_style="alias")]}
        )
        await concerned.until("tools")
        after = await listed_by(concerned.client)
        other = await listed_by(unconcerned.client)
    assert (before, after, other) == (LISTED["server"], LISTED["alias"], LISTED["bare"])
    assert (concerned.changed, unconcerned.changed) == (["tools"], [])


async def test_a_misspelt_style_of_a_profile_is_reported_and_changes_nothing() -> None:
    async with in_front_of_two(make_agent("whole", name_style="alias")) as served:
        profiles: list[Json] = [make_agent("whole", name_style="aliases")]
        write_json(CONFIG_DIR / "agents.json", {"agents": profiles})
        await served.service.gateway.reloader.load()
        (problem,) = served.service.gateway.publisher.config.problems
        async with served.client("/mcp/agents/whole") as client:
            listed = await listed_by(client)
    assert (problem.file, problem.path) == ("agents.json", "$.agents[0].tool_name_style")
    assert all(style in problem.message for style in LISTED)
    assert listed == LISTED["alias"]


# Without HTTP


@pytest.mark.e2e
async def test_over_stdio_the_profile_and_the_setting_choose_the_style() -> None:
    found = {}
    agents = [make_agent("short", name_style="bare"), WHOLE]
    environment = {**UNLIMITED, "MCP_PROXY_TOOL_NAME_STYLE": "alias"}
    async with in_front_of_two(*agents):
        for agent in ("short", "whole"):
            async with by_stdio("auto", Who(agent=agent), environment) as client:
                found[agent] = await listed_by(client)
    assert found == {"short": LISTED["bare"], "whole": LISTED["alias"]}
