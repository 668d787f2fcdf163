"""Requests that a server of the older eras sends during a call, forwarded to that call's client."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.domain.errors import ProxyError, ToolTimeout
from tests.downstream.relay_fixtures import DUPLEX, LEGACY, PUSHING, Relay, relaying
from tests.support.bounds import until
from tests.support.fakes import FakeClient, forever

LATE_S = 2.0
"""A time-out long enough for answers on a busy machine."""

FORM: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {"message": "Which name? é", "requestedSchema": {"type": "object", "x-new": 1}},
}
URL: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {
        "mode": "url",
        "message": "Sign in",
        "url": "https://x.example",
        "elicitationId": "1",
    },
}
SAMPLE: dict[str, Any] = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
}
ANSWER = {"action": "accept", "content": {"name": "Ö"}, "x-new": [1.5, None]}

pushing = pytest.mark.parametrize("kind", PUSHING)
shared = pytest.mark.parametrize("kind", [kind for kind in PUSHING if kind in DUPLEX])


@pushing
@pytest.mark.parametrize(
    ("question", "capabilities"),
    [
        (FORM, {"elicitation": {}}),
        (FORM, {"elicitation": {"form": {}}}),
        (URL, {"elicitation": {"url": {}}}),
        (SAMPLE, {"sampling": {}}),
        ({"method": "roots/list"}, {"roots": {}}),
    ],
    ids=["form", "form-declared", "url", "sampling", "roots"],
)
async def test_a_request_reaches_the_client_and_its_answer_the_server_unchanged(
    kind: str, question: dict[str, Any], capabilities: dict[str, Any]
) -> None:
    client = FakeClient(ANSWER, capabilities=capabilities)
    async with relaying(kind) as relay:
        assert await relay.answers(client, **question) == [{"result": ANSWER}]
        assert client.requests == [(question["method"], question.get("params", {}))]


@pushing
async def test_an_error_of_the_client_reaches_the_server(kind: str) -> None:
    client = FakeClient(ClientRequestFailed(-32042, "No form today."))
    async with relaying(kind) as relay:
        assert await relay.answers(client, **FORM) == [
            {"error": {"code": -32042, "message": "No form today."}}
        ]


async def test_a_crash_of_the_client_is_an_error_without_its_text() -> None:
    client = FakeClient(RuntimeError("secret"))
    async with relaying("http-legacy-sse") as relay:
        ((_, error),) = (await relay.answers(client, **FORM))[0].items()
        assert error == {"code": -32603, "message": "the client could not be asked"}


@pushing
@pytest.mark.parametrize(
    ("question", "capabilities", "code", "named"),
    [
        (FORM, {}, -32601, "elicitation"),
        (FORM, {"elicitation": {"url": {}}}, -32602, "elicitation.form"),
        (URL, {"elicitation": {}}, -32602, "elicitation.url"),
        (SAMPLE, {"elicitation": {}}, -32601, "sampling"),
        (
            {"method": SAMPLE["method"], "params": {**SAMPLE["params"], "tools": []}},
            {"sampling": {}},
            -32602,
            "sampling.tools",
        ),
        ({"method": "roots/list"}, {}, -32601, "roots"),
    ],
    ids=["none", "url-only", "form-only", "other", "tools", "roots"],
)
async def test_a_request_for_an_undeclared_capability_is_refused_by_name(
    kind: str, question: dict[str, Any], capabilities: dict[str, Any], code: int, named: str
) -> None:
    client = FakeClient(capabilities=capabilities)
    async with relaying(kind) as relay:
        (answer,) = await relay.answers(client, **question)
        assert answer["error"]["code"] == code
        assert answer["error"]["message"].endswith(f"did not declare {named}")
        assert client.requests == []


@pushing
async def test_a_request_to_a_caller_that_accepts_none_is_refused(kind: str) -> None:
    async with relaying(kind) as relay:
        structured = await relay.structured("request_client", **FORM)
        assert "the client cannot be asked" in structured["answers"][0]["error"]["message"]


@pytest.mark.parametrize("kind", [kind for kind in LEGACY if kind != "stdio-legacy"])
async def test_an_older_server_gets_the_capabilities_of_possible_requests(kind: str) -> None:
    async with relaying(kind) as relay:
        assert relay.script.initialized["capabilities"] == {
            "elicitation": {"form": {}, "url": {}},
            "roots": {"listChanged": True},
            "sampling": {},
        }


@pushing
async def test_the_calls_time_is_paused_while_the_client_answers(kind: str) -> None:
    async def slow(_method: str, _params: Mapping[str, object]) -> Mapping[str, object]:
        await asyncio.sleep(LATE_S + 0.2)
        return ANSWER

    async with relaying(kind, config={"call_timeout_s": LATE_S}) as relay:
        assert await relay.answers(FakeClient(slow), **FORM) == [{"result": ANSWER}]
        with pytest.raises(ToolTimeout):
            await relay.structured("hang", FakeClient())


@pushing
async def test_a_request_that_the_server_withdraws_is_cancelled_and_not_answered(
    kind: str,
) -> None:
    client = FakeClient(forever)
    async with relaying(kind) as relay:
        structured = await relay.structured("request_client", client, **FORM, withdraw=True)
        assert (structured["answered"], client.forgotten) == (False, 1)


@pushing
async def test_a_request_is_cancelled_when_its_call_ends(kind: str) -> None:
    client = FakeClient(forever)
    async with relaying(kind) as relay:
        await relay.structured("request_client", client, **FORM, leave=True)
        await until(lambda: client.forgotten == 1, "the request is cancelled")


@pushing
async def test_a_request_is_cancelled_when_its_call_is_cancelled(kind: str) -> None:
    client = FakeClient(forever)
    async with relaying(kind) as relay:
        call = asyncio.ensure_future(relay.structured("request_client", client, **FORM))
        await until(lambda: bool(client.requests), "the client receives the request")
        call.cancel()
        await until(lambda: client.forgotten == 1, "the request is cancelled")
        assert (await relay.structured("echo", text="x"))["text"] == "x"


@pushing
async def test_a_server_that_dies_during_a_request_fails_its_call_and_cancels_the_request(
    kind: str,
) -> None:
    client = FakeClient(forever)
    async with relaying(kind) as relay:
        with pytest.raises(ProxyError) as caught:
            await relay.structured("request_client", client, **FORM, crash=True)
        assert caught.value.code == "SERVER_UNAVAILABLE"
        await until(lambda: client.forgotten == 1, "the request is cancelled")


@pushing
async def test_a_request_of_5_mb_is_refused(kind: str) -> None:
    client = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        (answer,) = await relay.answers(client, method=FORM["method"], bytes=5_000_000)
        assert (answer["error"]["code"], client.requests) == (-32602, [])


@pytest.mark.parametrize("kind", [kind for kind in PUSHING if "stdio" not in kind])
async def test_of_100_parallel_requests_a_few_are_forwarded_and_all_are_answered(kind: str) -> None:
    async with relaying(kind) as relay:

        async def answer_last(_method: str, _params: Mapping[str, object]) -> Mapping[str, object]:
            requested = relay.script.requested
            await until(lambda: sum(it.done() for it in requested.values()) >= 92, "92 are refused")
            return ANSWER

        client = FakeClient(answer_last)
        answers = await relay.answers(client, **FORM, times=100)
        assert (len(answers), len(client.requests)) == (100, 8)
        assert sum("error" in answer for answer in answers) == 92


@shared
async def test_a_request_that_may_belong_to_another_tenants_call_is_not_forwarded(
    kind: str,
) -> None:
    one, other = FakeClient(ANSWER), FakeClient(ANSWER)
    async with relaying(kind) as relay, relay.in_a_call(one):
        result = await relay.result("request_client", other, arguments=FORM, tenant_id="tenant_2")
        (answer,) = result.value["structured_content"]["answers"]  # type: ignore[index]
        assert "the client cannot be asked" in answer["error"]["message"]
        assert (one.requests, other.requests) == ([], [])


async def answers_to_second_user(relay: Relay, client: FakeClient, **second: str) -> Any:
    result = await relay.result("request_client", client, arguments=FORM, **second)
    return result.value["structured_content"]["answers"]  # type: ignore[index]


@shared
@pytest.mark.parametrize("question", [FORM, SAMPLE, {"method": "roots/list"}])
@pytest.mark.parametrize("first", ["echo", "request_client"])
async def test_a_second_user_can_be_asked_after_the_first_users_call_ended(
    kind: str, first: str, question: dict[str, Any]
) -> None:
    first_user, second_user = FakeClient(ANSWER), FakeClient(ANSWER)
    for client in (first_user, second_user):
        client.capabilities = {"elicitation": {}, "sampling": {}, "roots": {}}
    async with relaying(kind) as relay:
        await relay.result(first, first_user, arguments=FORM if first != "echo" else {"text": "x"})
        received = list(first_user.requests)
        result = await relay.result(
            "request_client", second_user, arguments=question, user_id="user_2"
        )
        assert result.value["structured_content"] == {"answers": [{"result": ANSWER}]}
        assert first_user.requests == received


@shared
async def test_a_user_of_another_tenant_can_be_asked_after_the_first_call_and_its_request_ended(
    kind: str,
) -> None:
    client = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await relay.answers(FakeClient(ANSWER), **FORM)
        assert await answers_to_second_user(relay, client, tenant_id="tenant_2") == [
            {"result": ANSWER}
        ]
        await relay.structured("echo", FakeClient(), text="it may ask later")
        (answer,) = await answers_to_second_user(relay, client, tenant_id="tenant_2")
        assert "the client cannot be asked" in answer["error"]["message"]
        assert len(client.requests) == 1


@pytest.mark.parametrize("kind", ["sse-legacy", "websocket-legacy"])
async def test_a_server_that_sent_a_request_outside_calls_may_send_late_requests_again(
    kind: str,
) -> None:
    client = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await relay.structured("request_client_later", FakeClient(ANSWER), **FORM)
        await until(lambda: not relay.script.later.empty(), "the server sends a request")
        requests = relay.script.requested.values()
        await until(lambda: all(it.done() for it in requests), "it is refused before the next call")
        (answer,) = await answers_to_second_user(relay, client, user_id="user_2")
        assert ("error" in answer, client.requests) == (True, [])


async def abandon_a_call(relay: Relay) -> None:
    """Call a tool until the call times out."""
    with pytest.raises(ToolTimeout):
        await relay.result("hang", FakeClient(), waited_s=relay.call_timeout_s - 0.2)


@shared
async def test_no_request_is_forwarded_after_an_abandoned_call(kind: str) -> None:
    client = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await abandon_a_call(relay)
        (answer,) = await relay.answers(client, **FORM)
        assert ("error" in answer, client.requests) == (True, [])


async def test_after_an_abandoned_call_a_request_on_another_calls_own_stream_is_forwarded() -> None:
    client = FakeClient(ANSWER)
    async with relaying("http-legacy-sse") as relay:
        await abandon_a_call(relay)
        assert await relay.answers(client, **FORM) == [{"result": ANSWER}]


async def test_parallel_calls_over_http_get_their_own_requests() -> None:
    clients = [FakeClient({"action": "accept", "content": {"n": n}}) for n in range(8)]
    async with relaying("http-legacy-sse") as relay:
        answers = await asyncio.gather(*(relay.answers(client, **FORM) for client in clients))
        assert [a[0]["result"]["content"]["n"] for a in answers] == list(range(8))
        assert [len(client.requests) for client in clients] == [1] * 8


@pytest.mark.parametrize("kind", ["http-legacy", "http-legacy-sse"])
async def test_a_request_on_the_sessions_stream_belongs_to_the_only_call(kind: str) -> None:
    client = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await until(lambda: bool(relay.script.listeners), "the stream is open")
        assert await relay.answers(client, **FORM, beside=True) == [{"result": ANSWER}]


@pytest.mark.parametrize("kind", ["http-legacy", "http-legacy-sse"])
async def test_a_request_on_the_sessions_stream_is_not_forwarded_during_two_calls(
    kind: str,
) -> None:
    one, other = FakeClient(ANSWER), FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await until(lambda: bool(relay.script.listeners), "the stream is open")
        async with relay.in_a_call(one):
            (answer,) = await relay.answers(other, **FORM, beside=True)
        assert ("error" in answer, one.requests, other.requests) == (True, [], [])


@pytest.mark.parametrize("kind", ["sse-legacy", "websocket-legacy"])
async def test_a_request_outside_calls_is_refused(kind: str) -> None:
    client = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await relay.structured("request_client_later", client, **FORM)
        await until(lambda: not relay.script.later.empty(), "the server sends a request")
        await until(relay.script.requested["q1"].done, "it is answered")
        (answer,) = (await relay.structured("answers_later", client))["answers"]
        assert ("the client cannot be asked" in answer["error"]["message"], client.requests) == (
            True,
            [],
        )


@pytest.mark.parametrize("kind", DUPLEX)
async def test_messages_after_a_calls_answer_reach_no_other_call(kind: str) -> None:
    note = {"method": "notifications/message", "params": {"level": "error", "data": "of tenant_1"}}
    other = FakeClient(ANSWER)
    async with relaying(kind) as relay:
        await relay.structured("notify_late", messages=[note])
        await relay.result("sleep", other, tenant_id="tenant_2", arguments={"seconds": 0.1})
        await relay.result("request_client_later", FakeClient(ANSWER), arguments=FORM)
        await relay.result("answers_later", other, tenant_id="tenant_2")
        assert (other.notes, other.requests) == ([], [])
