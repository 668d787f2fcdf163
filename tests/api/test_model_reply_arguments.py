"""Arguments of a model's calls: JSON strings, parsed like a request's body."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.api.model_reply_calls import DOC, METADATA, apis, batch, codes
from tests.support.configuration import Json
from tests.support.model_apis import CHAT, RESPONSES, ModelApi
from tests.support.service import Service, running

texts = pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(**shared_settings) as started:
        yield started


@apis
@pytest.mark.parametrize("arguments", [None, {}], ids=["null", "empty"])
async def test_missing_arguments_are_an_empty_object(
    service: Service, api: ModelApi, arguments: object
) -> None:
    calls = [api.item("c", "list_available_tools", arguments)]
    assert codes(await batch(service, calls)) == ["OK"]


@texts
async def test_an_empty_string_is_an_empty_object(service: Service, api: ModelApi) -> None:
    assert codes(await batch(service, [api.item("c", "list_available_tools", "")])) == ["OK"]


BROKEN = {
    "cut off": '{"doc_id": "doc',
    "no object": '["doc_1"]',
    "a text": '"doc_1"',
    "NaN": '{"doc_id": NaN}',
    "infinity": '{"doc_id": 1e400}',
    "twice": '{"doc_id": "doc_2", "doc_id": "doc_1"}',
    "twice, escaped": '{"doc\\u005fid": "doc_2", "a\\u003ab": 1, "a:b": 2}',
    "too deep": '{"doc_id": ' + "[" * 64 + "]" * 64 + "}",
    "a lone surrogate": '{"doc_id": "\\ud800"}',
    "a comment": '{"doc_id": "doc_1"} // here',
    "two values": '{"doc_id": "doc_1"},{"doc_id": "doc_1"}',
    "a number": 1,
    "a list": [DOC],
}


@texts
@pytest.mark.parametrize("kind", BROKEN)
async def test_arguments_that_are_not_an_object_fail_only_that_call(
    service: Service, api: ModelApi, kind: str
) -> None:
    calls = [
        api.item("c1", METADATA, DOC),
        api.item("c2", METADATA, BROKEN[kind]),
        api.item("c3", METADATA, DOC),
    ]
    answer = await batch(service, calls)
    assert codes(answer) == ["OK", "INVALID_ARGUMENTS", "OK"]
    message = answer["results"][1]["error"]["message"]
    assert message.startswith("arguments: ") or "has this key twice" in message
    assert api.results(answer["messages"])[1] == ("c2", f"INVALID_ARGUMENTS: {message}")


async def test_argument_strings_are_parsed_separately(service: Service) -> None:
    """Joined by commas, these three are three objects."""
    parts = ['{"doc_id": "doc_1"},{"doc_id": "doc_1"}', '{"x": [{}', "{}]}"]
    calls = [CHAT.item(f"c{n}", METADATA, text) for n, text in enumerate(parts)]
    assert codes(await batch(service, calls)) == ["INVALID_ARGUMENTS"] * 3


async def test_a_duplicate_key_is_named(service: Service) -> None:
    text = '{"doc_id": "doc_1", "x": {"y": [{"z": 1, "z": 2}]}}'
    answer = await batch(service, [CHAT.item("c", METADATA, text)])
    assert answer["results"][0]["error"] == {
        "code": "INVALID_ARGUMENTS",
        "message": "x.y.0.z: the same object has this key twice; keep one of them",
        "details": {"arguments": ["x"]},
    }


async def test_the_arguments_of_a_reply_share_the_limit_of_the_duplicate_key_search(
    service: Service,
) -> None:
    """Nine texts of 9,990 keys stalled every other call for 56 ms."""
    text = json.dumps({f"k{n}": 0 for n in range(6_000)})[:-1] + ', "k0": 1}'
    calls = [CHAT.item(f"c{n}", METADATA, text) for n in range(3)]
    problems = [it["error"]["message"] for it in (await batch(service, calls))["results"]]
    assert [problem.partition(":")[0] for problem in problems] == ["k0", "arguments", "arguments"]


async def test_the_arguments_of_a_reply_share_the_limit_of_values() -> None:
    text = json.dumps({"doc_id": [1] * 40})
    async with running(max_json_items=100) as service:
        calls = [CHAT.item(f"c{n}", METADATA, text) for n in range(3)]
        answer = await batch(service, calls)
    problems = [it["error"]["message"] for it in answer["results"]]
    assert ["100 JSON values" in problem for problem in problems] == [False, False, True]


async def test_invalid_json_is_refused_after_the_name(service: Service) -> None:
    """The order of checks in contract §1."""
    calls = [CHAT.item("c", "no_such_tool", "{")]
    assert codes(await batch(service, calls)) == ["TOOL_NOT_FOUND"]


async def test_arguments_of_one_megabyte_are_accepted(service: Service) -> None:
    calls = [CHAT.item("c", METADATA, json.dumps({"doc_id": "x" * 900_000}))]
    assert codes(await batch(service, calls)) == ["INVALID_ARGUMENTS"]
