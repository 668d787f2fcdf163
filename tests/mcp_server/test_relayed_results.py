"""What a server lists and answers reaches an MCP client as it was said, in both eras."""

from typing import Any

import pytest

from tests.support.configuration import Json
from tests.support.mcp_endpoint import LEGACY, MODERN
from tests.support.raw_mcp_client import ERAS, PREFIX, in_front_of_one, theirs, wire
from tests.support.relay_samples import (
    EXTRA,
    FAILURES,
    LISTS,
    RESULTS,
    TEXT,
)

eras = pytest.mark.parametrize("era", ERAS)


@eras
@pytest.mark.parametrize("method", LISTS)
async def test_a_descriptor_is_listed_as_its_server_sent_it(era: str, method: str) -> None:
    kind, expected = LISTS[method]
    async with in_front_of_one(("rich",), extra=EXTRA) as (served, _):
        client = await wire(served, era)
        listed = (await client.ask(method))["result"][kind]
    assert expected in listed


@eras
@pytest.mark.requirement("F-11")
@pytest.mark.parametrize("method", LISTS)
async def test_each_item_of_the_view_is_listed_once(era: str, method: str) -> None:
    async with in_front_of_one(("rich", "rich"), extra=EXTRA) as (served, _):
        client = await wire(served, era)
        listed = (await client.ask(method))["result"][LISTS[method][0]]
    keys = [item.get("uri") or item.get("uriTemplate") or item["name"] for item in listed]
    assert len(keys) == len(set(keys))


@eras
@pytest.mark.requirement("F-17")
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS.keys())
async def test_a_result_arrives_as_it_was_said(era: str, result: Json) -> None:
    async with in_front_of_one(("undecodable",)) as (served, _):
        client = await wire(served, era)
        assert theirs(await client.call("undecodable", {"result": result})) == result


@pytest.mark.parametrize(
    ("era", "expected"), [(MODERN, [1, {"a": None}]), (LEGACY, None)], ids=ERAS
)
async def test_structured_content_that_is_no_object_is_for_the_era_that_knows_it(
    era: str, expected: object
) -> None:
    said = {"content": [TEXT], "structuredContent": [1, {"a": None}]}
    async with in_front_of_one(("undecodable",)) as (served, _):
        client = await wire(served, era)
        result = await client.call("undecodable", {"result": said})
    assert (result["content"], result.get("structuredContent")) == ([TEXT], expected)


@eras
async def test_a_failed_call_keeps_what_its_server_said_of_it(era: str) -> None:
    said: Json = {
        "content": [TEXT, {"type": "image", "data": "AA==", "mimeType": "image/png"}],
        "structuredContent": {"why": "ü"},
        "isError": True,
        "_meta": {"com.example/a": 1},
    }
    async with in_front_of_one(("undecodable",)) as (served, _):
        client = await wire(served, era)
        result = await client.call("undecodable", {"result": said})
    assert theirs(result) == said


@eras
@pytest.mark.requirement("F-18")
async def test_content_without_a_type_gets_the_one_that_it_shows(era: str) -> None:
    async with in_front_of_one(("no_type",)) as (served, _):
        client = await wire(served, era)
        content = (await client.call("no_type"))["content"]
    assert [block["type"] for block in content] == ["text", "image"]


@eras
@pytest.mark.requirement("F-19")
@pytest.mark.parametrize("said", [{"answer": 42}, {"content": [{"kind": "odd"}]}])
async def test_what_is_no_result_arrives_as_text_and_as_an_object(era: str, said: Json) -> None:
    async with in_front_of_one(("undecodable",)) as (served, _):
        client = await wire(served, era)
        result = await client.call("undecodable", {"result": said})
    assert (
        result["structuredContent"].items() >= said.items(),
        [block["type"] for block in result["content"]],
        result.get("isError", False),
    ) == (True, ["text"], False)


@eras
@pytest.mark.parametrize("size", [30_000, 300_000])
async def test_a_large_text_is_cut_and_says_so(era: str, size: int) -> None:
    async with in_front_of_one(("big",)) as (served, _):
        client = await wire(served, era)
        result = await client.call("big", {"bytes": size})
    assert (len(result["content"][0]["text"]) <= 20480, result["_meta"][f"{PREFIX}truncated"]) == (
        True,
        True,
    )


@eras
async def test_a_result_that_is_whole_does_not_say_that_it_was_cut(era: str) -> None:
    async with in_front_of_one(("big",)) as (served, _):
        client = await wire(served, era)
        result = await client.call("big", {"bytes": 1000})
    assert f"{PREFIX}truncated" not in result["_meta"]


@eras
async def test_an_image_over_the_limit_is_an_error_and_no_half_image(era: str) -> None:
    async with in_front_of_one(("big_image",)) as (served, _):
        client = await wire(served, era)
        result = await client.call("big_image", {"bytes": 3_000_000})
    assert (result["isError"], [block["type"] for block in result["content"]]) == (True, ["text"])


@eras
async def test_nothing_is_invented_for_a_resource_without_a_type(era: str) -> None:
    async with in_front_of_one(()) as (served, _):
        client = await wire(served, era)
        (content,) = (await client.ask("resources/read", {"uri": "raw://text"}))["result"][
            "contents"
        ]
    assert content == {"uri": "raw://text", "text": "raw://text of raw"}


@eras
@pytest.mark.requirement("F-15")
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_prompt_or_resource_is_an_error_and_no_empty_success(
    era: str, failure: str
) -> None:
    async with in_front_of_one(()) as (served, _):
        client = await wire(served, era)
        message = await client.ask(*FAILURES[failure])
    assert ("result" in message, message["error"]["code"] in {-32602, -32002}) == (False, True)


@eras
async def test_a_callers_own_meta_reaches_the_server_and_the_protocols_does_not(era: str) -> None:
    meta: dict[str, Any] = {"com.example/a": {"b": [1]}, f"{PREFIX}traceId": "x"}
    async with in_front_of_one(("meta",)) as (served, _):
        client = await wire(served, era)
        seen = (await client.call("meta", _meta=meta))["structuredContent"]
    assert (seen["com.example/a"], seen.get(f"{PREFIX}traceId") == "x") == ({"b": [1]}, False)
