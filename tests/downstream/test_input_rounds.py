"""Servers of the newer era that require input: for clients of the newer and the older eras."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import InputResponses
from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.domain.errors import ToolFailed
from tests.downstream.relay_fixtures import MODERN, Relay, relaying
from tests.support.fakes import FakeClient

FORM = {"method": "elicitation/create", "params": {"message": "Which name?"}}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": []}}
CLIENT_REQUESTS = {"name": FORM, "text": SAMPLE}
BOTH: dict[str, Any] = {"elicitation": {}, "sampling": {}}
ANSWER = {"action": "accept", "content": {"name": "Ö"}}

modern = pytest.mark.parametrize("kind", MODERN)


async def call_with_questions(relay: Relay, client: FakeClient, **more: Any) -> Any:
    arguments = {"questions": CLIENT_REQUESTS, **more.pop("arguments", {})}
    return await relay.result("input", client, arguments=arguments, **more)


@modern
async def test_a_newer_client_gets_the_input_requests_unchanged(kind: str) -> None:
    async with relaying(kind) as relay:
        result = await call_with_questions(
            relay, FakeClient(supports_input_required=True, capabilities=BOTH)
        )
        assert result.input_required
        assert {**result.value, "_meta": {}} == {
            "resultType": "input_required",
            "inputRequests": CLIENT_REQUESTS,
            "requestState": "[]",
            "x-more": {"kept": True},
            "_meta": {},
        }


@modern
async def test_the_next_round_has_the_answers_the_state_and_the_same_arguments(
    kind: str,
) -> None:
    client = FakeClient(supports_input_required=True, capabilities=BOTH)
    async with relaying(kind) as relay:
        input_responses = InputResponses(responses={"name": ANSWER}, state='["before"]')
        result = await call_with_questions(
            relay, client, arguments={"rounds": 2}, input_responses=input_responses
        )
        structured = result.value["structured_content"]
        assert not result.input_required
        assert structured["seen"] == ["before", {"name": ANSWER}]
        assert structured["arguments"] == {"questions": CLIENT_REQUESTS, "rounds": 2}


@modern
async def test_a_client_of_an_older_era_gets_requests_of_its_era(kind: str) -> None:
    client = FakeClient(ANSWER, capabilities=BOTH)
    async with relaying(kind) as relay:
        result = await call_with_questions(relay, client, arguments={"rounds": 3})
        structured = result.value["structured_content"]
        assert structured["seen"] == [{"name": ANSWER, "text": ANSWER}] * 3
        assert client.requests[:2] == [
            (FORM["method"], FORM["params"]),
            (SAMPLE["method"], SAMPLE["params"]),
        ]


@modern
async def test_a_server_gets_the_capabilities_of_this_calls_client(kind: str) -> None:
    declared: dict[str, Any] = {"elicitation": {"url": {}}, "experimental": {"x": {}}, "roots": {}}
    async with relaying(kind) as relay:
        meta = await relay.structured("meta", FakeClient(capabilities=declared))
        plain = await relay.structured("meta")
        key = "io.modelcontextprotocol/clientCapabilities"
        assert (meta[key], plain[key]) == ({"elicitation": {"url": {}}, "roots": {}}, {})


@modern
async def test_an_input_request_for_an_undeclared_capability_fails_the_call(kind: str) -> None:
    client = FakeClient(ANSWER, capabilities={"elicitation": {}})
    async with relaying(kind) as relay:
        with pytest.raises(ToolFailed, match="asks for more input"):
            await call_with_questions(relay, client)
        assert client.requests == []


async def test_endless_input_rounds_fail_the_call() -> None:
    client = FakeClient(ANSWER, capabilities=BOTH)
    async with relaying("http-modern") as relay:
        with pytest.raises(ToolFailed, match="more than 10 times"):
            await call_with_questions(relay, client, arguments={"rounds": 1000})


async def test_an_error_of_the_client_fails_the_call_with_its_message() -> None:
    client = FakeClient(ClientRequestFailed(-32050, "not today"), capabilities=BOTH)
    async with relaying("http-modern") as relay:
        with pytest.raises(ToolFailed, match="not today") as caught:
            await call_with_questions(relay, client)
        assert caught.value.details == {"code": -32050}


@pytest.mark.parametrize(
    "questions", [{"a": 1}, {"a": {"method": 1}}, {"a": {**FORM, "params": []}}, [1], "x"]
)
async def test_an_invalid_input_request_fails_the_call(questions: object) -> None:
    client = FakeClient(ANSWER, capabilities=BOTH)
    async with relaying("http-modern") as relay:
        with pytest.raises(ToolFailed, match="asks for more input"):
            await call_with_questions(relay, client, arguments={"questions": questions})


@pytest.mark.parametrize("more", [{}, {"inputRequests": {}}, {"inputRequests": None}])
async def test_an_input_required_answer_without_requests_and_state_fails_the_call(
    more: Mapping[str, Any],
) -> None:
    client = FakeClient(supports_input_required=True, capabilities=BOTH)
    raw = {"resultType": "input_required", **more}
    async with relaying("http-modern") as relay:
        with pytest.raises(ToolFailed, match="asks for more input"):
            await relay.result("bare", client, arguments={"result": raw})


async def test_cancelling_a_call_cancels_the_request_of_its_round() -> None:
    started = asyncio.Event()

    async def wait(_method: str, _params: Mapping[str, object]) -> Mapping[str, object]:
        started.set()
        await asyncio.Event().wait()
        return {}

    client = FakeClient(wait, capabilities=BOTH)
    async with relaying("http-modern") as relay:
        call = asyncio.ensure_future(call_with_questions(relay, client))
        await started.wait()
        call.cancel()
        await asyncio.wait([call])
        assert (call.cancelled(), client.forgotten) == (True, 1)
