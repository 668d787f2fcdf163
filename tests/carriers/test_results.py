"""What a client is answered: results as their servers gave them, and errors that say why."""

from typing import Any

import pytest

from tests.carriers.gateway import Carrier, every_carrier, gateway_over, server_eras
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


@every_carrier
@pytest.mark.requirement("F-17", "W-13")
async def test_a_tool_s_result_arrives_as_its_server_sent_it(carrier: Carrier) -> None:
    sent = {**RESULTS, "a failed call": FAILED, "fields of tomorrow": UNKNOWN_FIELDS}
    async with gateway_over(carrier, "undecodable") as gateway:
        client = await gateway.connect()
        arrived = {
            name: theirs(await client.call("undecodable", {"result": result}))
            for name, result in sent.items()
        }
    assert arrived == sent


@every_carrier
async def test_structured_content_that_is_no_object_is_for_the_era_that_knows_it(
    carrier: Carrier,
) -> None:
    value = [1, {"a": None}]
    async with gateway_over(carrier, "undecodable") as gateway:
        client = await gateway.connect()
        sent = {"content": [TEXT], "structuredContent": value}
        result = await client.call("undecodable", {"result": sent})
    expected = None if carrier.era == LEGACY else value
    assert (result["content"], result.get("structuredContent")) == ([TEXT], expected)


@every_carrier
@pytest.mark.requirement("F-18")
async def test_content_without_a_type_gets_the_one_that_it_shows(carrier: Carrier) -> None:
    async with gateway_over(carrier, "no_type") as gateway:
        content = (await (await gateway.connect()).call("no_type"))["content"]
    assert [block["type"] for block in content] == ["text", "image"]


@every_carrier
@pytest.mark.requirement("F-19")
async def test_what_is_no_result_arrives_as_text_and_as_an_object(carrier: Carrier) -> None:
    sent: list[Json] = [{"answer": 42}, {"content": [{"kind": "odd"}]}]
    async with gateway_over(carrier, "undecodable") as gateway:
        client = await gateway.connect()
        results = [await client.call("undecodable", {"result": it}) for it in sent]
    for result, value in zip(results, sent, strict=True):
        assert result["structuredContent"].items() >= value.items()
        assert [block["type"] for block in result["content"]] == ["text"]
        assert result.get("isError", False) is False


@every_carrier
async def test_a_large_text_is_cut_and_marked_and_a_small_one_is_neither(carrier: Carrier) -> None:
    async with gateway_over(carrier, "big") as gateway:
        client = await gateway.connect()
        results = {
            size: await client.call("big", {"bytes": size}) for size in (1000, 30_000, 300_000)
        }
    marked = {size: result["_meta"].get(f"{PREFIX}truncated") for size, result in results.items()}
    assert marked == {1000: None, 30_000: True, 300_000: True}
    assert all(len(result["content"][0]["text"]) <= 20480 for result in results.values())


@every_carrier
async def test_an_image_over_the_limit_is_an_error_and_no_half_image(carrier: Carrier) -> None:
    async with gateway_over(carrier, "big_image") as gateway:
        client = await gateway.connect()
        result = await client.call("big_image", {"bytes": 3_000_000})
    assert (result["isError"], [block["type"] for block in result["content"]]) == (True, ["text"])


@every_carrier
@pytest.mark.requirement("W-14")
async def test_prompts_and_resources_are_answered_by_their_server(carrier: Carrier) -> None:
    """Nothing is invented for a resource without a type."""
    async with gateway_over(carrier) as gateway:
        client = await gateway.connect()
        greeting = {"name": "greet", "arguments": {"name": "Ann"}}
        prompt = theirs(await client.result("prompts/get", greeting))
        uris = ("raw://text", "raw://item/7")
        read = [theirs(await client.result("resources/read", {"uri": uri})) for uri in uris]
    assert prompt == {"messages": [GREETING]}
    assert read == [{"contents": [{"uri": uri, "text": f"{uri} of raw"}]} for uri in uris]


@every_carrier
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


@every_carrier
@pytest.mark.requirement("F-15", "W-14")
async def test_what_fails_is_an_error_and_no_empty_success(carrier: Carrier) -> None:
    async with gateway_over(carrier) as gateway:
        client = await gateway.connect()
        messages = {name: await client.request(*FAILURES[name]) for name in FAILURES}
        unknown = await client.request("no/such")
    codes = {name: message["error"]["code"] for name, message in messages.items()}
    assert not any("result" in message for message in messages.values())
    assert set(codes.values()) <= {-32602, -32002}, codes
    assert unknown["error"]["code"] == -32601


@every_carrier
@pytest.mark.requirement("W-12")
async def test_a_caller_s_own_meta_reaches_the_server_and_what_is_ours_cannot_be_forged(
    carrier: Carrier,
) -> None:
    own: dict[str, Any] = {"com.example/a": {"b": [1]}, "trace_id": "abc123"}
    forged = {f"{PREFIX}traceId": "forged", f"{PREFIX}x": "forged"}
    async with gateway_over(carrier, "meta") as gateway:
        client = await gateway.connect()
        result = await client.call("meta", _meta={**own, **forged})
    seen = result["structuredContent"]
    assert {key: seen.get(key) for key in own} == own
    assert "forged" not in str(result)
