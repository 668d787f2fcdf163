"""Older servers that send requests during a call, and newer clients that get input_required."""

import asyncio
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import InputResponses
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.errors import ToolFailed
from tests.downstream.relay_fixtures import PUSHING, Relay, relaying
from tests.support.bounds import until
from tests.support.fakes import FakeClient

FORM: dict[str, Any] = {"method": "elicitation/create", "params": {"message": "Which name?"}}
ANSWER = {"action": "accept", "content": {"name": "Ö"}}

pushing = pytest.mark.parametrize("kind", PUSHING)


def newer(**more: Any) -> FakeClient:
    return FakeClient(supports_input_required=True, **more)


async def call_with_question(relay: Relay, client: FakeClient | None = None, **more: Any) -> Result:
    """Call the tool with a request; ``input_responses`` resumes it, ``arguments`` are added."""
    arguments = {**FORM, **more.pop("arguments", {})}
    return await relay.result("request_client", client or newer(), arguments=arguments, **more)


def answering(result: Result, answer: dict[str, Any] = ANSWER) -> InputResponses:
    """Answer every request of an input_required result."""
    assert result.input_required
    requests: Any = result.value["inputRequests"]
    return InputResponses(responses=dict.fromkeys(requests, answer), state=handle_of(result))


def handle_of(result: Result) -> str:
    return str(result.value["requestState"])


def answers_in(result: Result) -> Any:
    structured: Any = result.value["structured_content"]
    return structured["answers"]


@pushing
async def test_the_call_continues_with_the_answers_of_its_client(kind: str) -> None:
    async with relaying(kind) as relay:
        question = await call_with_question(relay)
        (structured,) = question.value["inputRequests"].values()  # type: ignore[attr-defined]
        assert (question.value["resultType"], structured) == ("input_required", FORM)
        result = await call_with_question(relay, input_responses=answering(question))
        assert (result.input_required, answers_in(result)) == (False, [{"result": ANSWER}])


@pushing
async def test_unanswered_requests_are_sent_again(kind: str) -> None:
    async with relaying(kind) as relay:
        first = await call_with_question(relay)
        again = await call_with_question(
            relay, input_responses=InputResponses(responses={}, state=handle_of(first))
        )
        assert again.value["inputRequests"] == first.value["inputRequests"]
        assert handle_of(again) != handle_of(first)
        assert answers_in(await call_with_question(relay, input_responses=answering(again))) == [
            {"result": ANSWER}
        ]


async def test_a_suspended_calls_time_is_paused() -> None:
    async with relaying("http-legacy-sse", config={"call_timeout_s": 2.0}) as relay:
        question = await call_with_question(relay)
        await asyncio.sleep(2.1)
        result = await call_with_question(relay, input_responses=answering(question))
        assert answers_in(result) == [{"result": ANSWER}]


@pytest.mark.parametrize(
    "other",
    [
        {"tenant_id": "tenant_2"},
        {"arguments": {"times": 1}},
        {"roles": ("audit",)},
        {"documents": frozenset({"doc_1"})},
    ],
    ids=["tenant", "arguments", "roles", "documents"],
)
async def test_a_handle_of_another_caller_is_refused_and_stays_valid(other: dict[str, Any]) -> None:
    async with relaying("http-legacy-sse") as relay:
        input_responses = answering(await call_with_question(relay))
        with pytest.raises(ToolFailed, match="no longer waits"):
            await call_with_question(relay, input_responses=input_responses, **other)
        assert answers_in(await call_with_question(relay, input_responses=input_responses)) == [
            {"result": ANSWER}
        ]


async def test_a_handle_can_be_used_once() -> None:
    async with relaying("http-legacy-sse") as relay:
        input_responses = answering(await call_with_question(relay))
        await call_with_question(relay, input_responses=input_responses)
        with pytest.raises(ToolFailed, match="no longer waits"):
            await call_with_question(relay, input_responses=input_responses)


@pytest.mark.parametrize("kind", ["http-legacy", "http-modern"])
async def test_an_unknown_handle_never_reaches_a_server(kind: str) -> None:
    input_responses = InputResponses(responses={}, state="mcp-tools-proxy/parked:guess")
    async with relaying(kind) as relay:
        with pytest.raises(ToolFailed, match="no longer waits"):
            await call_with_question(relay, input_responses=input_responses)
        assert relay.script.calls["request_client"] == 0


async def test_a_state_of_another_server_never_reaches_an_older_one() -> None:
    input_responses = InputResponses(responses={}, state="theirs")
    async with relaying("http-legacy") as relay:
        with pytest.raises(ToolFailed, match="no longer waits"):
            await call_with_question(relay, input_responses=input_responses)
        assert relay.script.calls["request_client"] == 0


@pushing
async def test_a_result_that_arrived_during_the_suspension_is_returned_on_resuming(
    kind: str,
) -> None:
    async with relaying(kind) as relay:
        question = await call_with_question(relay, arguments={"leave": True})
        session = relay.pool.session("notes")
        await until(lambda: "in_flight=0" in repr(session), "the server has answered")
        input_responses = InputResponses(responses={}, state=handle_of(question))
        result = await call_with_question(
            relay, arguments={"leave": True}, input_responses=input_responses
        )
        assert result.value["content"] == [{"type": "text", "text": "left"}]


@pytest.mark.parametrize("kind", [kind for kind in PUSHING if not kind.startswith("stdio")])
async def test_cancelling_a_call_before_its_request_cancels_it_at_the_server(kind: str) -> None:
    async with relaying(kind) as relay:
        call = asyncio.ensure_future(relay.result("hang", newer()))
        await until(lambda: relay.script.running_count == 1, "it runs")
        call.cancel()
        await until(lambda: relay.script.cancelled_count == 1, "it is cancelled")


@pushing
async def test_a_newer_clients_call_without_requests_is_an_ordinary_one(kind: str) -> None:
    client = newer()
    progress = {"method": "notifications/progress"}
    progress |= {"params": {"progressToken": "$token", "progress": 1}}  # type: ignore[dict-item]
    async with relaying(kind) as relay:
        result = await relay.result("notify", client, arguments={"messages": [progress]})
        assert (result.input_required, len(client.notes)) == (False, 1)
        with pytest.raises(ToolFailed, match="It broke"):
            await relay.result("error", client)


async def test_at_most_25_suspended_calls_belong_to_one_tenant() -> None:
    async with relaying("http-legacy-sse") as relay:
        results = await asyncio.gather(*(call_with_question(relay) for _ in range(26)))
        (refused,) = [result for result in results if not result.input_required]
        assert "too many calls wait" in answers_in(refused)[0]["error"]["message"]
        assert (await call_with_question(relay, tenant_id="tenant_2")).input_required


async def test_a_request_to_a_newer_client_without_capabilities_is_refused() -> None:
    async with relaying("http-legacy-sse") as relay:
        (answer,) = answers_in(await call_with_question(relay, newer(capabilities={})))
        assert answer["error"]["code"] == -32601
