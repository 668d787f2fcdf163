from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.carriers.clients import McpClient
from tests.carriers.gateway import (
    Carrier,
    gateway_over,
    server_eras,
    shared_gateway,
)
from tests.support.configuration import Json
from tests.support.mcp_endpoint import LEGACY
from tests.support.raw_mcp_client import PREFIX, theirs
from tests.support.relay_samples import FAILURES, RESULTS, TEXT

FAILED: Json = {
    "content": [TEXT, {"type": "image", "data": "AA==", "mimeType": "image/png"}],
    "structuredContent": {"why": "ü"},
    "isError": True,
    "_meta": {"com.example/a": 1, "trace_id": "…"},
    "new": 1,
}
UNKNOWN_FIELDS: Json = {
    "content": [{**TEXT, "new": [1, None]}, {"type": "of-tomorrow", "anything": {"é": 0.5}}],
    "structuredContent": {"results": [{"title": "…"}]},
    "new": {"kept": [True]},
}
PROMPT: Json = {
    "description": "Ö",
    "messages": [
        {"role": "assistant", "content": {"type": "text", "text": "hi", "new": 1}, "new": None}
    ],
    "new": {"kept": [True]},
    "_meta": {"com.example/a": 1},
}
RESOURCE: Json = {
    "contents": [{"uri": "raw://text", "blob": "AAE=", "mimeType": "x/y", "new": {"a": [1]}}],
    "new": {"kept": [True]},
    "_meta": {"com.example/a": 1},
}
GREETING = {"role": "user", "content": {"type": "text", "text": "greet of raw for Ann"}}


@pytest.fixture(scope="module")
async def client(
    carrier: Carrier, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[McpClient]:
    folder = tmp_path_factory.mktemp("gateway")
    tools = ("undecodable", "no_type", "big", "big_image", "meta")
    async with shared_gateway(carrier, folder, *tools) as gateway:
        yield await gateway.connect()


@pytest.mark.requirement("F-17", "W-13")
async def test_a_tools_result_arrives_unchanged(client: McpClient) -> None:
    sent = {**RESULTS, "a failed call": FAILED, "fields of tomorrow": UNKNOWN_FIELDS}
    arrived = {
        name: theirs(await client.call("undecodable", {"result": result}))
        for name, result in sent.items()
    }
    assert arrived == sent


async def test_structured_content_that_is_not_an_object_is_sent_only_to_the_modern_era(
    carrier: Carrier, client: McpClient
) -> None:
    value = [1, {"a": None}]
    sent = {"content": [TEXT], "structuredContent": value}
    result = await client.call("undecodable", {"result": sent})
    expected = None if carrier.era == LEGACY else value
    assert (result["content"], result.get("structuredContent")) == ([TEXT], expected)


@pytest.mark.requirement("F-18")
async def test_content_without_a_type_gets_the_type_of_its_fields(client: McpClient) -> None:
    content = (await client.call("no_type"))["content"]
    assert [block["type"] for block in content] == ["text", "image"]


@pytest.mark.requirement("F-19")
async def test_an_invalid_result_arrives_as_text_and_as_an_object(client: McpClient) -> None:
    sent: list[Json] = [{"answer": 42}, {"content": [{"kind": "odd"}]}]
    results = [await client.call("undecodable", {"result": it}) for it in sent]
    for result, value in zip(results, sent, strict=True):
        assert result["structuredContent"].items() >= value.items()
        assert [block["type"] for block in result["content"]] == ["text"]
        assert result.get("isError", False) is False


async def test_only_a_large_text_is_cut_and_marked(client: McpClient) -> None:
    results = {size: await client.call("big", {"bytes": size}) for size in (1000, 30_000, 300_000)}
    marked = {size: result["_meta"].get(f"{PREFIX}truncated") for size, result in results.items()}
    assert marked == {1000: None, 30_000: True, 300_000: True}
    assert all(len(result["content"][0]["text"]) <= 20480 for result in results.values())


async def test_an_image_over_the_limit_is_an_error(client: McpClient) -> None:
    result = await client.call("big_image", {"bytes": 3_000_000})
    assert (result["isError"], [block["type"] for block in result["content"]]) == (True, ["text"])


@pytest.mark.requirement("W-14")
async def test_prompts_and_resources_are_answered_by_their_server(client: McpClient) -> None:
    greeting = {"name": "greet", "arguments": {"name": "Ann"}}
    prompt = theirs(await client.result("prompts/get", greeting))
    uris = ("raw://text", "raw://item/7")
    read = [theirs(await client.result("resources/read", {"uri": uri})) for uri in uris]
    assert prompt == {"messages": [GREETING]}
    assert read == [{"contents": [{"uri": uri, "text": f"{uri} of raw"}]} for uri in uris]


@server_eras
@pytest.mark.requirement("W-14")
async def test_results_of_prompts_and_resources_keep_all_their_fields(
    carrier: Carrier, server_era: str
) -> None:
    more = {"prompts/get": PROMPT, "resources/read": RESOURCE}
    async with gateway_over(carrier, era=server_era, more=more) as gateway:
        client = await gateway.connect()
        prompt = await client.result("prompts/get", {"name": "plain"})
        resource = await client.result("resources/read", {"uri": "raw://text"})
    assert (theirs(prompt), theirs(resource)) == (PROMPT, RESOURCE)


@pytest.mark.requirement("F-15", "W-14")
async def test_failures_are_errors_and_not_empty_results(client: McpClient) -> None:
    messages = {name: await client.request(*FAILURES[name]) for name in FAILURES}
    unknown = await client.request("no/such")
    codes = {name: message["error"]["code"] for name, message in messages.items()}
    assert not any("result" in message for message in messages.values())
    assert codes == {
        "no prompt": -32602,
        "no argument": -32602,
        "no resource": -32002 if client.era == LEGACY else -32602,
        "no reference": -32602,
    }
    assert unknown["error"]["code"] == -32601


@pytest.mark.requirement("W-12")
async def test_the_callers_meta_reaches_the_server_but_our_keys_cannot_be_forged(
    client: McpClient,
) -> None:
    own: dict[str, Any] = {"com.example/a": {"b": [1]}, "trace_id": "abc123"}
    forged = {f"{PREFIX}traceId": "forged", f"{PREFIX}x": "forged"}
    result = await client.call("meta", _meta={**own, **forged})
    seen = result["structuredContent"]
    assert {key: seen.get(key) for key in own} == own
    assert "forged" not in str(result)
