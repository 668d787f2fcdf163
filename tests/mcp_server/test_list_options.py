from typing import Any

import pytest
from mcp import MCPError

from tests.mcp_server.listed_tools import (
    CALLED,
    LISTED,
    called_by,
    in_session,
    listed_by,
    listed_in,
)
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_endpoint import (
    BOTH,
    ERAS,
    TENANT,
    Served,
    answer,
    in_front_of_two,
    names,
    serving,
)
from tests.support.mcp_servers.raw_web import RawServer, running_raw

eras = pytest.mark.parametrize("mode", ERAS)
LONG = {"name": "create_a_very_long_report_of_everything", "inputSchema": {"type": "object"}}
ODD = {
    "name": "odd",
    "inputSchema": {
        "type": "object",
        "properties": {
            "a": {"type": ["boolean", "string"], "description": "either"},
            "b": {"$ref": "#/properties/a"},
            "tree": {"$ref": "#/$defs/Tree"},
        },
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            }
        },
    },
}


def alone(raw: RawServer, *agents: Json) -> Config:
    """Return the configuration of one server, whose tools every caller may use."""
    options = raw.script.options
    preset = make_preset(tools=[(options.name, it["name"]) for it in options.extra["tools"]])
    more = {"defaultPresetId": "work"}
    servers = {options.name: raw.entry}
    return Config(servers=servers, presets=[preset], agents=agents or None, more=more)


def has_none_of(schema: Any, *keys: str) -> bool:
    """Return whether a schema is free of the keywords and of type lists."""
    if isinstance(schema, list):
        return all(has_none_of(it, *keys) for it in schema)
    if not isinstance(schema, dict):
        return True
    if any(key in schema for key in keys) or isinstance(schema.get("type"), list):
        return False
    return all(has_none_of(it, *keys) for it in schema.values())


@pytest.mark.requirement("P-06")
@eras
@pytest.mark.parametrize(
    ("path", "style"),
    [
        ("/mcp", "alias"),
        ("/mcp/", "alias"),
        ("/mcp/agents/whole", "alias"),
        ("/mcp/sse", "server"),
        ("/mcp?name_style=server", "server"),
    ],
)
async def test_each_entry_has_its_own_default_and_calls_accept_every_spelling(
    path: str, style: str, mode: str
) -> None:
    async with (
        in_front_of_two(make_agent("whole"), require_agent=False, tool_name_style=None) as served,
        served.client(path, mode=mode) as client,
    ):
        assert await listed_by(client) == LISTED[style]
        for spelling in LISTED.values():
            assert await called_by(client, spelling) == CALLED


@eras
async def test_aliases_have_the_requested_length_and_those_of_any_length_can_be_called(
    mode: str,
) -> None:
    async with (
        running_raw(name="reports", only=(), extra={"tools": [LONG]}) as raw,
        serving(config=alone(raw), tool_name_style=None, name_max=40) as served,
    ):
        listed = {}
        for query in ("", "?name_max=16", "?name_max=24", "?name_max=64"):
            async with served.client(f"/mcp{query}", mode=mode) as client:
                (listed[query],) = await listed_by(client)
        lengths = [len(name) for name in listed.values()]
        async with served.client("/mcp", mode=mode) as client:
            for name in listed.values():
                assert not (await client.call_tool(name, {})).is_error
            first = listed["?name_max=16"]
            forged = first[:-1] + ("0" if first[-1] != "0" else "1")
            assert (await client.call_tool(forged, {})).is_error
    assert all(size <= limit for size, limit in zip(lengths, (40, 16, 24, 64), strict=True))
    assert listed["?name_max=64"] == "reports__create_a_very_long_report_of_everything"


@eras
@pytest.mark.parametrize("by_profile", [True, False])
async def test_plain_schemas_contain_neither_references_nor_type_lists(
    by_profile: bool, mode: str
) -> None:
    agent = make_agent("weak") | ({"schemas": "plain"} if by_profile else {})
    path = "/mcp/agents/weak" + ("" if by_profile else "?schemas=plain")
    async with (
        running_raw(name="s", only=(), extra={"tools": [ODD]}) as raw,
        serving(config=alone(raw, agent), tool_name_style=None) as served,
    ):
        async with served.client(path, mode=mode) as client:
            tools = {it.name: it.input_schema for it in (await client.list_tools()).tools}
            called = await client.call_tool("s__odd", {"a": True, "b": "x"})
            refused = await client.call_tool("s__odd", {"a": 1})
        async with served.client("/mcp/agents/weak?schemas=original", mode=mode) as client:
            original = {it.name: it.input_schema for it in (await client.list_tools()).tools}
    assert all(has_none_of(schema, "$ref", "$defs") for schema in tools.values())
    either = [{"type": "boolean"}, {"type": "string"}]
    assert tools["s__odd"]["properties"]["a"] == {"description": "either", "anyOf": either}
    assert tools["s__odd"]["properties"]["b"]["anyOf"] == either
    assert original["s__odd"]["properties"] == ODD["inputSchema"]["properties"]  # type: ignore[index]
    assert (called.is_error, refused.is_error) == (False, True)


NULLS = {
    "name": "nulls",
    "inputSchema": {
        "type": "object",
        "description": None,
        "properties": {
            "a": {"type": "string", "description": None, "enum": None, "default": None},
            "b": {"type": "array", "items": None},
            "c": {"type": "object", "properties": None, "required": None},
        },
        "required": None,
    },
    "outputSchema": {"type": "object", "properties": None, "required": None},
}
NO_PROPERTIES = {
    "name": "none",
    "inputSchema": {"type": "object", "properties": None, "required": None},
}


@eras
@pytest.mark.parametrize("query", ["", "?schemas=plain"])
async def test_null_keywords_of_a_schema_are_absent(query: str, mode: str) -> None:
    async with (
        running_raw(name="s", only=(), extra={"tools": [NULLS, NO_PROPERTIES]}) as raw,
        serving(config=alone(raw), tool_name_style=None) as served,
        served.client(f"/mcp{query}", mode=mode) as client,
    ):
        tools = {it.name: it for it in (await client.list_tools()).tools}
        called = [await client.call_tool(name, {}) for name in ("s__nulls", "s__none")]
        text = await client.call_tool("s__nulls", {"a": "x", "b": [1], "c": {"d": 1}})
    schema = tools["s__nulls"].input_schema
    assert schema["properties"]["a"] == {"type": "string", "default": None}
    assert "required" not in schema
    assert tools["s__nulls"].output_schema is not None
    assert [it.is_error for it in (*called, text)] == [False] * 3


async def test_a_name_with_a_leading_digit_is_listed_for_gemini_and_callable_by_every_name() -> (
    None
):
    tools = [{"name": "get", "inputSchema": {"type": "object"}}]
    tools.append({"name": "x" * 60, "inputSchema": {"type": "object"}})
    async with (
        running_raw(name="1p", only=(), extra={"tools": tools}) as raw,
        serving(config=alone(raw), tool_name_style=None) as served,
    ):
        listed = await served.service.get("/internal/mcp/tools", format="gemini")
        found = [it["name"] for it in listed["tools"] if it["name"][0] == "_"]
        for name in (*found, "1p__get", "1p:get", "get"):
            assert (await served.service.execute(name, {}))["status"] == "ok"
        assert await served.service.code("_1p__got") == "TOOL_NOT_FOUND"
    assert found == ["_1p__get", "_p__" + "x" * 60]


WRONG = ["schemas=", "schemas=simple", "schemas=plain&schemas=plain", "name_max=15", "name_max=65"]


@pytest.mark.parametrize("query", [*WRONG, "name_max=x", "name_max=", "name_max=20&name_max=20"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse"])
async def test_an_unknown_option_is_refused(path: str, query: str) -> None:
    async with in_front_of_two() as served:
        response = await served.http.get(f"{path}?{query}", headers={**BOTH, **TENANT})
    error = response.json()["error"]["data"]
    assert (response.status_code, error["code"]) == (400, "INVALID_REQUEST")
    assert error["details"] == {"field": query.partition("=")[0]}


async def test_a_session_keeps_its_options_and_is_unknown_with_others() -> None:
    async with in_front_of_two(tool_name_style=None) as served:
        session_id = await served.open_session(path="/mcp/?schemas=plain&name_max=16")
        kept = [await in_session(served, session_id, path) for path in ("/mcp", "/mcp/")]
        other = await in_session(served, session_id, "/mcp?name_max=17")
    assert [it.status_code for it in kept] == [200, 200]
    assert listed_in(kept[0]) == listed_in(kept[1]) == LISTED["alias"]
    assert other.status_code == 404


METHODS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]


@pytest.mark.parametrize("method", METHODS)
async def test_a_sessions_list_is_one_json_body(method: str) -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        response = await in_session(served, session_id, "/mcp", method)
    assert response.headers["content-type"] == "application/json"
    assert "result" in response.json()


def many(count: int) -> list[Json]:
    text = "x" * 20_000
    schema = {"type": "object"}
    return [{"name": f"t{i}", "description": text, "inputSchema": schema} for i in range(count)]


async def listed_over_sse(served: Served, mode: str) -> tuple[list[str], list[str]]:
    """List in pages, and return the names and the cursors."""
    found, cursors = [], []
    async with served.client("/mcp/sse", mode=mode) as client:
        cursor = None
        for _ in range(20):
            page = await client.list_tools(cursor=cursor)
            found += names(page)
            cursor = page.next_cursor
            if cursor is None:
                break
            cursors.append(cursor)
    return found, cursors


@eras
async def test_only_over_legacy_sse_has_a_list_over_a_mebibyte_pages(mode: str) -> None:
    async with (
        running_raw(name="big", only=(), extra={"tools": many(70)}) as raw,
        serving(config=alone(raw)) as served,
    ):
        found, cursors = await listed_over_sse(served, mode)
        async with served.client("/mcp", mode=mode) as client:
            whole = await client.list_tools()
    assert whole.next_cursor is None
    assert found == names(whole)
    assert len(cursors) == 2


@pytest.mark.parametrize("cursor", ["", "x", "0:1", "AAAA"])
async def test_a_cursor_of_another_list_is_invalid(cursor: str) -> None:
    async with (
        running_raw(name="big", only=(), extra={"tools": many(70)}) as raw,
        serving(config=alone(raw)) as served,
        served.client("/mcp/sse", mode="legacy") as client,
    ):
        with pytest.raises(MCPError) as refused:
            await client.list_tools(cursor=cursor)
    assert refused.value.code == -32602


async def test_over_streamable_http_no_cursor_is_valid() -> None:
    async with in_front_of_two() as served:
        response = await served.request("tools/list", {"cursor": "x"})
    assert answer(response)["error"]["code"] == -32602
