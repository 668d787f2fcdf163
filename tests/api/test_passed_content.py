"""Content forwarded from servers to models and MCP Apps: pages, images and arguments."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import BATCH, Service, running

USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
IMAGE = {"type": "image", "data": "A" * 40_000, "mimeType": "image/png"}


def tool(name: str, schema: Json, **fields: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object", **schema}, **fields}


@asynccontextmanager
async def serving(*tools: Json, entry: Json | None = None) -> AsyncIterator[Service]:
    async with running_raw(only=("bare", "meta"), extra={"tools": [*tools]}) as server:
        names = [("s1", "bare"), ("s1", "meta"), *(("s1", it["name"]) for it in tools)]
        config = Config(
            servers={"s1": {**server.entry, **(entry or {})}}, presets=[make_preset(tools=names)]
        )
        async with running(config=config) as service:
            yield service


async def batch(service: Service, *calls: Json) -> Any:
    return (await service.http.post(BATCH, json={"calls": calls, "user": USER})).json()


def chat_call(call_id: object, name: str, arguments: object) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


@pytest.mark.parametrize(
    "structured",
    [
        {"result": IMAGE},
        {"images": [IMAGE]},
        {"url": "data:image/png;base64," + str(IMAGE["data"])},
    ],
    ids=["object", "list", "data URL"],
)
async def test_an_image_that_is_also_in_structured_content_counts_once(structured: Json) -> None:
    async with serving(entry={"maxResultBytes": 50_000}) as service:
        result = {"content": [IMAGE], "structuredContent": structured}
        call = chat_call("1", "s1__bare", {"result": result})
        other = {"content": [IMAGE], "structuredContent": {"x": "B" * 40_000}}
        answer = await batch(service, call, chat_call("2", "s1__bare", {"result": other}))
        assert [it["status"] for it in answer["results"]] == ["ok", "error"]
        assert answer["results"][1]["error"]["code"] == "RESULT_TOO_LARGE"


@pytest.mark.parametrize("text", [" ", "\n", "null", " null\n", "\t \r\n"])
async def test_blank_and_null_arguments_are_an_empty_object(text: str) -> None:
    needy = tool("needy", {"properties": {"a": {}}, "required": ["a"]})
    async with serving(needy) as service:
        calls = [chat_call("1", "s1__meta", text), chat_call("2", "s1__needy", text)]
        fine, missing = (await batch(service, *calls))["results"]
        assert fine["status"] == "ok"
        assert missing["error"]["code"] == "INVALID_ARGUMENTS"
        assert "a" in missing["error"]["message"]


@pytest.mark.parametrize("ids", [["", ""], ["same", "same"], [None, None], ["a", ""]], ids=repr)
async def test_chat_completions_are_answered_by_position(ids: list[Any]) -> None:
    async with serving() as service:
        calls = [
            chat_call(it, "s1__bare", {"result": {"content": [{"type": "text", "text": str(n)}]}})
            for n, it in enumerate(ids)
        ]
        messages = (await batch(service, *calls))["messages"]
        assert [m["content"] for m in messages] == ["0", "1"]
        assert [m["tool_call_id"] for m in messages] == [it or "" for it in ids]


@pytest.mark.parametrize(
    ("visibility", "is_listed"),
    [(["app"], False), ([], False), (["model", "app"], True), ("app", True), (None, True)],
    ids=repr,
)
async def test_an_apps_only_tool_is_not_in_lists_for_models(
    visibility: object, *, is_listed: bool
) -> None:
    button = tool("button", {}, _meta={"ui": {"visibility": visibility}})
    async with serving(button) as service:
        for shape in ("openai", "anthropic", "gemini"):
            listed = (await service.http.get(f"/internal/mcp/tools?format={shape}")).text
            assert ("button" in listed) is is_listed
        assert "button" in (await service.http.get("/internal/mcp/tools")).text
        catalog = await service.execute("list_available_tools", {})
        assert ("s1:button" in catalog["result"]["tools"]) is is_listed


NESTED = {"type": "object", "properties": {"n": {"default": 1}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "arguments", "code"),
    [
        ({"properties": {"a": {"default": 5}}, "required": ["a"]}, {}, None),
        ({"properties": {"o": NESTED}, "required": ["o"]}, {"o": {}}, None),
        ({"properties": {"a": {"default": None}, "b": {}}, "required": ["a"]}, {"b": 1}, None),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}, "INVALID_ARGUMENTS"),
        (
            {"properties": {"a": {"type": "string", "default": 5}}, "required": ["a"]},
            {},
            "INVALID_ARGUMENTS",
        ),
    ],
    ids=repr,
)
async def test_a_required_property_with_a_default_is_not_missing(
    schema: Json, arguments: Json, code: str | None
) -> None:
    async with serving(tool("asked", schema)) as service:
        answer = await service.execute("s1:asked", arguments)
        found = (answer.get("error") or {}).get("code")
        assert (found == "INVALID_ARGUMENTS") is (code == "INVALID_ARGUMENTS")


@pytest.mark.parametrize(
    ("uri", "size", "entry", "code"),
    [
        ("ui://app/page.html", 1_300_000, {}, None),
        ("file:///notes.json", 300_000, {}, None),
        ("file:///notes.json", 1_300_000, {}, "RESULT_TOO_LARGE"),
        ("ui://app/page.html", 1_300_000, {"maxResultBytes": 1_000_000}, "RESULT_TOO_LARGE"),
        ("ui://app/page.html", 4_300_000, {}, "RESULT_TOO_LARGE"),
        ("ui://app/page.html", 300_000, {"maxTextBytes": 100}, None),
    ],
)
async def test_a_resource_is_limited_only_by_the_maximum_result_size(
    uri: str, size: int, entry: Json, code: str | None
) -> None:
    contents = [{"uri": uri, "mimeType": "text/html", "text": "x" * size}]
    read = {"resources/read": {"contents": contents}}
    listed = {"resources": [{"uri": uri, "name": "page"}]}
    async with running_raw(only=(), extra=listed, more=read) as server:
        preset = make_preset(resources=[("s1", uri)])
        config = Config(servers={"s1": {**server.entry, **entry}}, presets=[preset])
        async with running(config=config) as service:
            body = {"uri": uri, "user": USER}
            answer = (await service.http.post("/internal/mcp/resources/read", json=body)).json()
    if code is None:
        assert answer["result"]["contents"] == contents
        assert answer["result"]["truncated"] is False
    else:
        assert answer["error"]["code"] == code
