"""Argument names that model APIs refuse get aliases; servers receive the declared names."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest

from tests.api.document_operator import ADMIN
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import ERAS, Served, serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import TOOLS
from tests.support.tokens import bearer

TEXT: Json = {"type": "string"}
ROW: Json = {
    "type": "object",
    "properties": {"@id": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
    "required": ["@id"],
    "additionalProperties": False,
}
QUERY: Json = {
    "name": "query",
    "inputSchema": {
        "type": "object",
        "properties": {
            "$filter": TEXT,
            "filter": {"type": "integer"},
            "filter[x]": {"type": "object", "properties": {"a b": TEXT}},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
            "free": {"type": "object"},
        },
        "required": ["$filter"],
        "additionalProperties": False,
        "$defs": {"row": ROW},
    },
}
SENT: Json = {
    "filter_2": "f",
    "filter": 1,
    "filter_x": {"a_b": "v"},
    "rows": [{"id": "1", "children": [{"id": "2"}]}],
    "free": {"id": "3", "a_b": "4"},
}
RECEIVED: Json = {
    "$filter": "f",
    "filter": 1,
    "filter[x]": {"a b": "v"},
    "rows": [{"@id": "1", "children": [{"@id": "2"}]}],
    "free": {"id": "3", "a_b": "4"},
}


@asynccontextmanager
async def offered(
    *tools: Json, bind: Json | None = None, **settings: Any
) -> AsyncIterator[tuple[Served, RawServer]]:
    async with running_raw(only=(), extra={"tools": deepcopy([*tools])}) as server:
        presets = [make_preset(tools=[("s", it["name"]) for it in tools])]
        servers = {"s": {**server.entry, **({"bind": bind} if bind else {})}}
        config = Config(servers=servers, presets=presets, more={"defaultPresetId": "work"})
        async with serving(config=config, **settings) as served:
            yield served, server


async def received(served: Served, arguments: Json, **more: Any) -> Any:
    envelope = await served.service.execute("s:query", arguments, **more)
    if envelope["status"] == "error":
        return envelope["error"]["code"]
    return envelope["result"]["structured_content"]["arguments"]


def schema_in(tool: Json) -> Json:
    tool = tool.get("function", tool)
    schema: Json = tool.get("parameters") or tool.get("input_schema") or tool["inputSchema"]
    return schema


async def schemas(served: Served, **query: str) -> list[Json]:
    tools = (await served.service.get(TOOLS, **query))["tools"]
    return [schema_in(it) for it in tools if "query" in json.dumps(it)[:80]]


@pytest.mark.parametrize("tool_format", ["openai", "anthropic", "gemini"])
async def test_model_formats_have_accepted_names_and_servers_receive_declared_ones(
    tool_format: str,
) -> None:
    async with offered(QUERY) as (served, _):
        (schema,) = await schemas(served, format=tool_format, names="s:query")
        assert set(schema["properties"]) == {*SENT}
        assert schema["required"] == ["filter_2"]
        assert "$filter" not in json.dumps(schema)
        assert "@id" not in json.dumps(schema)
        assert await received(served, SENT) == RECEIVED
        assert await received(served, RECEIVED) == RECEIVED


@pytest.mark.parametrize("mode", ERAS)
async def test_plain_schemas_over_mcp_have_accepted_names_and_full_schemas_declared_ones(
    mode: str,
) -> None:
    async with offered(QUERY, tool_name_style=None) as (served, _):
        async with served.client("/mcp?schemas=plain", mode=mode) as client:
            listed = {it.name: it.input_schema for it in (await client.list_tools()).tools}
            called = await client.call_tool("s__query", SENT)
        async with served.client("/mcp", mode=mode) as client:
            original = {it.name: it.input_schema for it in (await client.list_tools()).tools}
    assert set(listed["s__query"]["properties"]) == {*SENT}
    assert original["s__query"] == QUERY["inputSchema"]
    assert called.structured_content is not None
    assert called.structured_content["arguments"] == RECEIVED


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"filter_2": "a", "$filter": "b"}, "INVALID_ARGUMENTS"),
        ({"filter": "a", "filter_2": "b"}, "INVALID_ARGUMENTS"),
        ({"filter_2": 1}, "INVALID_ARGUMENTS"),
        ({}, "INVALID_ARGUMENTS"),
        ({"filter_2": "a", "rows": []}, {"$filter": "a", "rows": []}),
    ],
)
async def test_declared_names_take_precedence_over_aliases(
    arguments: Json, expected: object
) -> None:
    """An alias of an argument that is also given by name is one argument too many."""
    async with offered(QUERY) as (served, server):
        assert await received(served, arguments) == expected
        assert server.script.calls["query"] == (expected != "INVALID_ARGUMENTS")


async def test_bound_arguments_are_hidden_and_change_no_other_alias() -> None:
    async with offered(QUERY, bind={"filter": 7, "filter[x].a b": "x"}) as (served, _):
        (schema,) = await schemas(served, format="openai", names="s:query")
        assert set(schema["properties"]) == {"filter_2", "filter_x", "rows", "free"}
        bound = {"filter": 7, "filter[x]": {"a b": "x"}}
        assert await received(served, {"filter_2": "f"}) == {"$filter": "f", **bound}
        assert await received(served, {"filter_2": "f", "filter_x": {"a_b": "y"}}) == (
            "INVALID_ARGUMENTS"
        )


async def test_records_and_idempotency_use_the_declared_names() -> None:
    async with offered(QUERY, admin_token=ADMIN) as (served, server):
        first = await received(served, {"filter_2": "f"}, idempotency_key="k")
        again = await received(served, {"$filter": "f"}, idempotency_key="k")
        assert first == again == {"$filter": "f"}
        assert server.script.calls["query"] == 1
        found = await served.http.get("/internal/mcp/audit?tool=s:query", headers=bearer(ADMIN))
        records = found.json()["records"]
    assert [it["payload"]["arguments"] for it in records] == [["$filter"], ["$filter"]]


UNCALLABLE: dict[str, Json] = {
    "required and false": {"properties": {"a": False}, "required": ["a"]},
    "required and not anything": {"properties": {"a": {"not": {}}}, "required": ["a"]},
    "required and not declared": {"required": ["a"], "additionalProperties": False},
    "nested": {
        "properties": {"a": {"type": "object", "properties": {"b": False}, "required": ["b"]}},
        "required": ["a"],
    },
    "by reference": {
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "required": ["a"],
        "$defs": {"n": False},
    },
    "every alternative": {"anyOf": [False, {"not": {}}]},
    "one part": {"allOf": [{}, {"not": {}}]},
}
CALLABLE: dict[str, Json] = {
    "optional and false": {"properties": {"a": False}},
    "required and open": {"required": ["a"]},
    "by a pattern": {
        "required": ["a"],
        "patternProperties": {"^a$": {}},
        "additionalProperties": False,
    },
    "one alternative": {"anyOf": [False, {}]},
    "endless": {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
}


async def test_a_tool_whose_arguments_cannot_be_satisfied_is_the_only_one_not_listed() -> None:
    schemas = {**UNCALLABLE, **CALLABLE}
    tools = [
        {"name": f"t{i}", "inputSchema": {"type": "object", **schema}}
        for i, schema in enumerate(schemas.values())
    ]
    async with offered(*tools) as (served, _):
        listed = {it["name"] for it in (await served.service.get(TOOLS))["tools"]}
        found = {name: f"s:t{i}" in listed for i, name in enumerate(schemas)}
        assert found == {**dict.fromkeys(UNCALLABLE, False), **dict.fromkeys(CALLABLE, True)}
        (missing, *_) = (await served.service.get("/internal/mcp/presets/active"))["missing"]
        assert "no arguments satisfy its inputSchema" in json.dumps(missing)
