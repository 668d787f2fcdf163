"""What the backend is answered: results as their servers gave them, and errors that say why."""

import pytest

from tests.connector.backend_link import ERAS, begun, linked, linked_to_one
from tests.support.configuration import Json
from tests.support.raw_mcp_client import theirs
from tests.support.relay_samples import FAILURES, RESULTS, TEXT

eras = pytest.mark.parametrize("era", ERAS)

ODD_TOOL_RESULT: Json = {
    "content": [{**TEXT, "new": [1, None]}, {"type": "of-tomorrow", "anything": {"é": 0.5}}],
    "structuredContent": {"results": [{"title": "…"}]},
    "new": {"kept": [True]},
}
ODD_PROMPT: Json = {
    "description": "Ö",
    "messages": [
        {"role": "assistant", "content": {"type": "text", "text": "hi", "new": 1}, "new": None}
    ],
    "new": {"kept": [True]},
    "_meta": {"com.example/a": 1},
}
ODD_RESOURCE: Json = {
    "contents": [{"uri": "raw://text", "blob": "AAE=", "mimeType": "x/y", "new": {"a": [1]}}],
    "new": {"kept": [True]},
    "_meta": {"com.example/a": 1},
}


@eras
@pytest.mark.requirement("W-13")
@pytest.mark.parametrize("said", RESULTS.values(), ids=RESULTS.keys())
async def test_a_tool_s_result_is_answered_as_it_was_said(era: str, said: Json) -> None:
    async with linked_to_one("undecodable") as (_, backend, _):
        session = await begun(backend, era)
        assert theirs(await session.call("s1:undecodable", {"result": said})) == said


@eras
@pytest.mark.requirement("W-13")
async def test_structured_content_meta_and_error_flag_are_kept(era: str) -> None:
    said: Json = {
        "content": [{"type": "text", "text": "Result preview"}],
        "structuredContent": {"results": [{"title": "…"}]},
        "_meta": {"trace_id": "…"},
        "isError": True,
        "new": 1,
    }
    async with linked_to_one("undecodable") as (_, backend, _):
        session = await begun(backend, era)
        assert theirs(await session.call("s1:undecodable", {"result": said})) == said


@eras
@pytest.mark.requirement("W-13")
async def test_fields_of_a_tool_s_result_that_nobody_knows_are_kept(era: str) -> None:
    async with linked_to_one("undecodable") as (_, backend, _):
        session = await begun(backend, era)
        result = await session.call("s1:undecodable", {"result": ODD_TOOL_RESULT})
    assert theirs(result) == ODD_TOOL_RESULT


@eras
@pytest.mark.requirement("W-14")
async def test_a_prompt_is_got_by_its_name_with_arguments(era: str) -> None:
    async with linked_to_one() as (_, backend, _):
        session = await begun(backend, era)
        params = {"name": "greet", "arguments": {"name": "Ann"}}
        result = await session.result("prompts/get", params)
    text = "greet of raw for Ann"
    assert theirs(result) == {
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}]
    }


@eras
@pytest.mark.requirement("W-14")
@pytest.mark.parametrize("server_era", ["modern", "legacy"])
async def test_a_prompt_s_result_is_passed_on_with_all_its_fields(
    era: str, server_era: str
) -> None:
    raw = {"era": server_era, "more": {"prompts/get": ODD_PROMPT}}
    async with linked_to_one(raw=raw) as (_, backend, _):
        session = await begun(backend, era)
        assert theirs(await session.result("prompts/get", {"name": "plain"})) == ODD_PROMPT


@eras
@pytest.mark.requirement("W-14")
@pytest.mark.parametrize("uri", ["raw://text", "raw://item/7"])
async def test_a_resource_is_read_by_its_uri(era: str, uri: str) -> None:
    async with linked_to_one() as (_, backend, _):
        session = await begun(backend, era)
        result = await session.result("resources/read", {"uri": uri})
    assert theirs(result) == {"contents": [{"uri": uri, "text": f"{uri} of raw"}]}


@eras
@pytest.mark.requirement("W-14")
@pytest.mark.parametrize("server_era", ["modern", "legacy"])
async def test_a_resource_s_result_is_passed_on_with_all_its_fields(
    era: str, server_era: str
) -> None:
    raw = {"era": server_era, "more": {"resources/read": ODD_RESOURCE}}
    async with linked_to_one(raw=raw) as (_, backend, _):
        session = await begun(backend, era)
        assert theirs(await session.result("resources/read", {"uri": "raw://text"})) == ODD_RESOURCE


@eras
@pytest.mark.requirement("W-14")
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_prompt_or_resource_is_an_error_and_no_empty_success(
    era: str, failure: str
) -> None:
    async with linked_to_one() as (_, backend, _):
        message = await (await begun(backend, era)).ask(*FAILURES[failure])
    assert ("result" in message, message["error"]["code"] in {-32602, -32002}) == (False, True)


@eras
@pytest.mark.requirement("W-12")
@pytest.mark.parametrize("spelt", ["_meta", "meta"])
async def test_the_caller_s_meta_reaches_the_server(era: str, spelt: str) -> None:
    own = {"com.example/a": {"b": [1]}, "trace_id": "abc123"}
    async with linked_to_one("meta") as (_, backend, _):
        session = await begun(backend, era)
        seen = (await session.call("s1:meta", **{spelt: own}))["structuredContent"]
    assert {key: seen.get(key) for key in own} == own


@eras
async def test_the_backend_s_meta_cannot_give_a_call_another_trace_or_name(era: str) -> None:
    """What is ours stands under our own prefix, and none of the caller's words do."""
    forged = {
        "io.github.mcp-tools-proxy/traceId": "forged",
        "io.github.mcp-tools-proxy/x": "forged",
    }
    async with linked_to_one("meta") as (_, backend, _):
        session = await begun(backend, era)
        result = await session.call("s1:meta", _meta=forged)
    assert "forged" not in str(result)


@eras
async def test_a_method_that_nobody_knows_is_an_error(era: str) -> None:
    async with linked() as (_, backend):
        message = await (await begun(backend, era)).ask("no/such")
    assert message["error"]["code"] == -32601
