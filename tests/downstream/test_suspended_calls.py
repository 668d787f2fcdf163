"""Older servers that ask in the midst of a call, and newer clients that are asked by its answer."""

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
    """Call what asks; ``input_responses`` takes it up again, ``arguments`` are added."""
    arguments = {**FORM, **more.pop("arguments", {})}
    return await relay.result("request_client", client or newer(), arguments=arguments, **more)


def answering(result: Result, answer: dict[str, Any] = ANSWER) -> InputResponses:
    """Answer every question of a result that asks."""
    assert result.input_required
    requests: Any = result.value["inputRequests"]
    return InputResponses(responses=dict.fromkeys(requests, answer), state=handle_of(result))


def handle_of(result: Result) -> str:
    return str(result.value["requestState"])


def answers_in(result: Result) -> Any:
    structured: Any = result.value["structured_content"]
    return structured["answers"]


@pushing
async def test_the_call_goes_on_with_the_answers_that_its_client_brings_back(kind: str) -> None:
    async with relaying(kind) as relay:
        question = await call_with_question(relay)
        (structured,) = question.value["inputRequests"].values()  # type: ignore[attr-defined]
        assert (question.value["resultType"], structured) == ("input_required", FORM)
        result = await call_with_question(relay, input_responses=answering(question))
        assert (result.input_required, answers_in(result)) == (False, [{"result": ANSWER}])


@pushing
async def test_questions_that_were_not_answered_are_asked_again(kind: str) -> None:
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


async def test_while_nobody_is_there_the_call_s_time_does_not_run() -> None:
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
async def test_a_handle_is_of_use_to_nobody_else_and_stays_of_use(other: dict[str, Any]) -> None:
    async with relaying("http-legacy-sse") as relay:
        input_responses = answering(await call_with_question(relay))
        with pytest.raises(ToolFailed, match="no longer waits"):
            await call_with_question(relay, input_responses=input_responses, **other)
        assert answers_in(await call_with_question(relay, input_responses=input_responses)) == [
            {"result": ANSWER}
        ]


async def test_a_handle_is_of_use_once() -> None:
    async with relaying("http-legacy-sse") as relay:
        input_responses = answering(await call_with_question(relay))
        await call_with_question(relay, input_responses=input_responses)
        with pytest.raises(ToolFailed, match="no longer waits"):
            await call_with_question(relay, input_responses=input_responses)


@pytest.mark.parametrize("kind", ["http-legacy", "http-modern"])
async def test_a_handle_that_nobody_knows_never_reaches_a_server(kind: str) -> None:
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
async def test_a_result_that_came_while_the_client_was_away_is_there_when_it_is_back(
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
async def test_cancelling_a_call_before_it_asks_cancels_it_at_the_server(kind: str) -> None:
    async with relaying(kind) as relay:
        call = asyncio.ensure_future(relay.result("hang", newer()))
        await until(lambda: relay.script.running_count == 1, "it runs")
        call.cancel()
        await until(lambda: relay.script.cancelled_count == 1, "it is cancelled")


@pushing
async def test_a_call_of_a_newer_client_that_asks_nothing_is_as_any_other(kind: str) -> None:
    client = newer()
    progress = {"method": "notifications/progress"}
    progress |= {"params": {"progressToken": "$token", "progress": 1}}  # type: ignore[dict-item]
    async with relaying(kind) as relay:
        result = await relay.result("notify", client, arguments={"messages": [progress]})
        assert (result.input_required, len(client.notes)) == (False, 1)
        with pytest.raises(ToolFailed, match="It broke"):
            await relay.result("error", client)


async def test_of_many_calls_that_wait_at_most_25_are_one_tenant_s() -> None:
    async with relaying("http-legacy-sse") as relay:
        results = await asyncio.gather(*(call_with_question(relay) for _ in range(26)))
        (refused,) = [result for result in results if not result.input_required]
        assert "too many calls wait" in answers_in(refused)[0]["error"]["message"]
        assert (await call_with_question(relay, tenant_id="tenant_2")).input_required


async def test_a_newer_client_that_declared_nothing_is_refused_to_the_server() -> None:
    async with relaying("http-legacy-sse") as relay:
        (answer,) = answers_in(await call_with_question(relay, newer(capabilities={})))
        assert answer["error"]["code"] == -32601
