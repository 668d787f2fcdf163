"""POST /internal/mcp/execute/batch with an unchanged model reply: the calls that run."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from mcp_tools_proxy.http.api.batch_routes import CallId
from mcp_tools_proxy.wire.model_replies.model_call import CALL_ID_PATTERN
from mcp_tools_proxy.wire.model_replies.reply import MAX_CALLS_ELSEWHERE
from tests.api.model_reply_calls import CALL_OF, DOC, METADATA, USER, apis, batch, codes, field
from tests.support.model_apis import ANTHROPIC, APIS, CHAT, GEMINI, RESPONSES, Json, ModelApi
from tests.support.service import BATCH, Service, running

PLAIN = {"tool_name": METADATA, "arguments": DOC}


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(**shared_settings) as started:
        yield started


@apis
async def test_a_models_calls_run_in_order(service: Service, api: ModelApi) -> None:
    calls = [api.item("c1", METADATA, DOC), api.item("c2", "no_such_tool", {})]
    answer = await batch(service, calls, trace_id="t-1")
    assert codes(answer) == ["OK", "TOOL_NOT_FOUND"]
    assert [id_ for id_, _ in api.results(answer["messages"])] == ["c1", "c2"]
    assert [it["trace_id"] for it in answer["results"]] == ["t-1"] * 2
    assert list(answer) == ["results", "messages", "trace_id"]


@apis
async def test_the_envelopes_equal_those_of_plain_calls(service: Service, api: ModelApi) -> None:
    answer = await batch(service, [CALL_OF[api]], trace_id="t")
    assert answer["results"] == (await batch(service, [PLAIN], trace_id="t"))["results"]


SEARCH = {"tool_name": "doc_local_search", "arguments": {"doc_id": "doc_1", "query": "zzzz"}}
PLAIN_ANSWER = (
    b'{"results":[{"status":"ok","result":{"snippets":[],"count":0,"doc_id":"doc_1","tokens":0,'
    b'"searched_for":["zzzz"]},'
    b'"trace_id":"t"},{"status":"error","error":{"code":"DOCUMENT_NOT_FOUND","message":"there is '
    b'no document \\"x\\"; check the doc_id letter by letter against the one you were given, or ask'
    b' the user which document is meant"},"trace_id":"t"},{"status":"error","error":{"code":'
    b'"TOOL_NOT_FOUND","message":"no tool is named \\"y\\"; use the name of a tool that '
    b'list_available_tools shows, or server_id:tool","details":{"expected":"the name of a tool that'
    b' list_available_tools shows, or server_id:tool"}},"trace_id":"t"}],"trace_id":"t"}'
)


async def test_plain_calls_are_answered_as_before_replies_were_supported(service: Service) -> None:
    calls = [SEARCH, PLAIN | {"arguments": {"doc_id": "x"}}, CALL_OF[CHAT] | {"tool_name": "y"}]
    body = {"calls": calls, "user": USER, "trace_id": "t", "results": "full"}
    assert (await service.http.post(BATCH, json=body)).content == PLAIN_ANSWER


@pytest.mark.parametrize(
    ("calls", "place"),
    [
        ([{}], "calls.0.tool_name"),
        ([None], "calls.0"),
        ([1, CALL_OF[CHAT]], "calls.0"),
        ([{"type": "unknown", "name": METADATA}], "calls.0.tool_name"),
        ([PLAIN, CALL_OF[CHAT]], "calls.1.tool_name"),
        ([PLAIN, None], "calls.1"),
    ],
)
async def test_an_unrecognised_api_is_refused_like_plain_calls(
    service: Service, calls: object, place: str
) -> None:
    assert field(await batch(service, calls)) == place


@pytest.mark.parametrize(
    ("first", "second"),
    [(a, b) for a in (*APIS, None) for b in (*APIS, None) if a is not b and a is not None],
    ids=lambda api: "plain" if api is None else api.name,
)
async def test_the_error_names_the_first_item_of_another_shape(
    service: Service, first: ModelApi, second: ModelApi | None
) -> None:
    other = PLAIN if second is None else second.item("call_2", METADATA, DOC)
    assert field(await batch(service, [CALL_OF[first], other, other])) == "calls.1"


@apis
@pytest.mark.parametrize("garbage", [None, 1, "x", [], [CALL_OF[CHAT]], {}, {"type": 1}])
async def test_invalid_items_are_refused(service: Service, api: ModelApi, garbage: object) -> None:
    place = field(await batch(service, [CALL_OF[api], garbage]))
    assert place == ("calls.1.type" if isinstance(garbage, dict) else "calls.1")


SKIPPED: dict[ModelApi, list[Json]] = {
    RESPONSES: [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []},
        {"type": "web_search_call_output"},
        {"type": "of_next_year"},
    ],
    GEMINI: [
        {"text": "Hm.", "thought": True},
        {"text": "I look it up.", "thoughtSignature": "x"},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": None, "function_call": None, "inline_data": None},
        {"ofNextYear": {}},
    ],
    ANTHROPIC: [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "I look it up.", "citations": None},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "of_next_year"},
    ],
}


@pytest.mark.parametrize("api", SKIPPED, ids=lambda api: api.name)
async def test_items_other_than_calls_are_skipped(service: Service, api: ModelApi) -> None:
    answer = await batch(service, [*SKIPPED[api], CALL_OF[api], *SKIPPED[api]])
    assert (codes(answer), len(api.results(answer["messages"]))) == (["OK"], 1)


@pytest.mark.parametrize("api", SKIPPED, ids=lambda api: api.name)
async def test_a_reply_without_calls_ends_the_loop(service: Service, api: ModelApi) -> None:
    answer = await batch(service, SKIPPED[api], trace_id="t")
    assert answer == {"results": [], "messages": [], "trace_id": "t"}


@pytest.mark.parametrize("item", [{"type": "compaction", "encrypted_content": "x"}, {"type": "x"}])
async def test_a_reply_with_only_unknown_items_ends_the_loop(service: Service, item: Json) -> None:
    answer = await batch(service, [item], trace_id="t")
    assert answer == {"results": [], "messages": [], "trace_id": "t"}


@pytest.mark.parametrize(
    ("api", "item"),
    [
        (RESPONSES, {"type": "web_search_call", "id": "ws_1", "status": "completed"}),
        (RESPONSES, {"type": "mcp_call", "id": "m", "name": METADATA, "arguments": "{}"}),
        (RESPONSES, {"type": "computer_call", "call_id": "call_1", "action": {}}),
        (ANTHROPIC, {"type": "server_tool_use", "id": "s", "name": METADATA, "input": DOC}),
        (ANTHROPIC, {"type": "mcp_tool_use", "id": "m", "name": METADATA, "input": DOC}),
    ],
)
async def test_a_call_that_the_vendor_runs_fails_alone_and_gets_no_message(
    service: Service, api: ModelApi, item: Json
) -> None:
    answer = await batch(service, [item, CALL_OF[api], item])
    assert codes(answer) == ["TOOL_NOT_FOUND", "OK", "TOOL_NOT_FOUND"]
    assert [id_ for id_, _ in api.results(answer["messages"])] == ["call_1"]


@pytest.mark.parametrize(
    ("api", "item", "message"),
    [
        (
            CHAT,
            {"id": "c", "type": "custom", "custom": {"name": METADATA, "input": "doc_1"}},
            {"role": "tool", "tool_call_id": "c"},
        ),
        (
            RESPONSES,
            {"type": "custom_tool_call", "call_id": "c", "name": METADATA, "input": "doc_1"},
            {"type": "custom_tool_call_output", "call_id": "c"},
        ),
    ],
    ids=["chat", "responses"],
)
async def test_a_custom_tool_call_fails_alone(
    service: Service, api: ModelApi, item: Json, message: Json
) -> None:
    answer = await batch(service, [item, CALL_OF[api]])
    assert codes(answer) == ["INVALID_ARGUMENTS", "OK"]
    assert message.items() <= answer["messages"][0].items()


@apis
@pytest.mark.parametrize(
    "call_id", [None, "", 7, ["x"], {}, "ид", "a b", "a\n", "x" * 16_385], ids=repr
)
async def test_a_call_without_a_valid_id_refuses_the_reply(
    service: Service, api: ModelApi, call_id: object
) -> None:
    answer = await batch(service, [CALL_OF[api], api.item(call_id, METADATA, DOC)])
    if not api.ids_identify and call_id in (None, ""):  # messages have the order of the calls
        assert [id_ for id_, _ in api.results(answer["messages"])] == ["call_1", ""]
        return
    assert field(answer) == f"calls.1.{api.id_field}"


@apis
async def test_an_id_that_contains_a_signature_is_accepted(service: Service, api: ModelApi) -> None:
    call_id = 'functions.read:0__thought__"\\' + "Cs8B" * 4_000
    answer = await batch(service, [api.item(call_id, METADATA, DOC)])
    assert [it for it, _ in api.results(answer["messages"])] == [call_id]


@apis
async def test_a_duplicate_id_refuses_the_reply(service: Service, api: ModelApi) -> None:
    calls = [CALL_OF[api], api.item("call_2", METADATA, DOC), CALL_OF[api]]
    answer = await batch(service, calls)
    if not api.ids_identify:  # messages have the order of the calls
        assert len(api.results(answer["messages"])) == len(calls)
        return
    assert field(answer) == f"calls.2.{api.id_field}"


@apis
@pytest.mark.parametrize("name", [None, 7, {}], ids=repr)
async def test_a_call_without_a_name_refuses_the_reply(
    service: Service, api: ModelApi, name: object
) -> None:
    place = field(await batch(service, [api.item("c", name, DOC)]))
    assert place == f"calls.0.{api.name_field}"


@apis
async def test_an_empty_name_is_an_unknown_tool(service: Service, api: ModelApi) -> None:
    assert codes(await batch(service, [api.item("c", "", DOC)])) == ["TOOL_NOT_FOUND"]


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ({"id": "c", "type": "function"}, "calls.0.function"),
        ({"id": "c", "type": "function", "function": "x"}, "calls.0.function"),
        ({"id": "c", "type": 30.0, "function": {"name": "f"}}, "calls.0.type"),
        ({"id": "c", "type": "custom"}, "calls.0.custom"),
    ],
)
async def test_a_call_without_its_function_refuses_the_reply(
    service: Service, item: Json, place: str
) -> None:
    assert field(await batch(service, [item])) == place


async def test_a_function_call_without_a_type_is_accepted(service: Service) -> None:
    item = {"id": "c", "function": {"name": METADATA, "arguments": DOC}}
    assert codes(await batch(service, [item])) == ["OK"]


async def test_a_call_of_an_unknown_kind_fails_alone(service: Service) -> None:
    """The API expects a message for each id, for any kind of call."""
    item = {"id": "b", "type": "web_search", "web_search": {"query": "x"}}
    answer = await batch(service, [CALL_OF[CHAT], item])
    assert codes(answer) == ["OK", "TOOL_NOT_FOUND"]
    assert [id_ for id_, _ in CHAT.results(answer["messages"])] == ["call_1", "b"]


@pytest.mark.parametrize("status", ["incomplete", "in_progress"])
async def test_a_truncated_call_is_not_run(service: Service, status: str) -> None:
    """Its arguments would be read as empty."""
    cut_off = RESPONSES.item("c", "list_available_tools", "") | {"status": status}
    answer = await batch(service, [cut_off, CALL_OF[RESPONSES]])
    assert codes(answer) == ["INVALID_ARGUMENTS", "OK"]


async def test_a_gemini_call_that_continues_in_another_part_is_not_run(service: Service) -> None:
    item = GEMINI.item("c", "list_available_tools", {})
    item["functionCall"]["willContinue"] = True
    answer = await batch(service, [item, CALL_OF[GEMINI]])
    assert codes(answer) == ["INVALID_ARGUMENTS", "OK"]


async def test_a_gemini_call_in_snake_case_without_id_and_arguments_is_run(
    service: Service,
) -> None:
    """Google's Python package writes such parts."""
    item = {"text": None, "function_call": {"name": "list_available_tools", "id": None}}
    answer = await batch(service, [item])
    (part,) = answer["messages"][0]["parts"]
    assert codes(answer) == ["OK"]
    assert part["functionResponse"].keys() == {"name", "response"}


async def test_a_function_call_that_is_not_an_object_refuses_the_reply(service: Service) -> None:
    assert field(await batch(service, [{"functionCall": "x"}])) == "calls.0.functionCall"


async def test_an_agent_object_of_the_models_api_is_ignored(service: Service) -> None:
    """Items of OpenAI's agents name the agent in an object."""
    item = CALL_OF[RESPONSES] | {"agent": {"agent_name": "/root/x"}}
    assert codes(await batch(service, [item])) == ["OK"]


@apis
async def test_an_agent_within_a_call_refuses_the_reply(service: Service, api: ModelApi) -> None:
    assert field(await batch(service, [CALL_OF[api] | {"agent": "a"}])) == "calls.0.agent"


async def test_the_limit_of_calls_does_not_count_other_items() -> None:
    async with running(max_batch_calls=2) as service:
        skipped: list[Any] = [{"type": "text", "text": "x"}, {"type": "server_tool_use", "id": "s"}]
        calls = [ANTHROPIC.item(f"c{n}", METADATA, DOC) for n in range(3)]
        elsewhere: list[Any] = [{"type": "server_tool_use"}] * (MAX_CALLS_ELSEWHERE + 1)
        assert field(await batch(service, elsewhere)) == "calls"
        taken = await batch(service, [*skipped * 20, *calls[:2]])
        assert codes(taken)[-3:] == ["TOOL_NOT_FOUND", "OK", "OK"]
        assert field(await batch(service, [*skipped, *calls])) == "calls"


async def test_each_call_of_a_reply_is_charged_separately() -> None:
    async with running(rate_limit_calls=3) as service:
        calls = [CHAT.item(f"c{n}", METADATA, DOC) for n in range(5)]
        answer = await batch(service, calls)
    assert sorted(codes(answer)) == ["OK"] * 3 + ["RATE_LIMIT_EXCEEDED"] * 2
    text = next(text for _, text in CHAT.results(answer["messages"]) if text.startswith("RATE"))
    assert text.endswith(" s)")


async def test_invalid_arguments_are_not_charged() -> None:
    async with running(rate_limit_calls=1) as service:
        calls = [CHAT.item(f"c{n}", METADATA, "{") for n in range(5)]
        assert set(codes(await batch(service, calls))) == {"INVALID_ARGUMENTS"}
        assert codes(await batch(service, [CALL_OF[CHAT]])) == ["OK"]


@apis
async def test_a_malformed_reply_is_refused_before_a_missing_user(
    service: Service, api: ModelApi
) -> None:
    calls = [api.item(7, METADATA, DOC)]
    answer = (await service.http.post(BATCH, json={"calls": calls})).json()
    assert field(answer) == f"calls.0.{api.id_field}"
    calls = [CALL_OF[api]]
    assert field((await service.http.post(BATCH, json={"calls": calls})).json()) == "user"


@pytest.mark.parametrize("results", ["some", 1, True, {}])
async def test_an_invalid_value_of_results_is_refused(service: Service, results: object) -> None:
    assert field(await batch(service, [CALL_OF[CHAT]], results=results)) == "results"


async def test_another_tenants_document_is_denied_without_details(service: Service) -> None:
    user = {"user_id": "user_1", "tenant_id": "tenant_2"}
    answer = await batch(service, [CALL_OF[CHAT]], user=user)
    assert codes(answer) == ["ACCESS_DENIED"]
    assert answer["messages"][0]["content"].startswith("ACCESS_DENIED: ")


def test_the_document_describes_the_accepted_ids() -> None:
    assert TypeAdapter(CallId).json_schema()["pattern"] == CALL_ID_PATTERN
