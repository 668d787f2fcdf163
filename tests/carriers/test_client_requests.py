"""Requests of servers during a call, in each era: elicitation and sampling."""

import asyncio
from typing import Any

from tests.carriers.clients import McpClient, call_of
from tests.carriers.gateway import (
    Carrier,
    gateway_over,
    legacy_carriers,
    legacy_duplex_carriers,
    modern_carriers,
    server_eras,
)
from tests.support.configuration import Json
from tests.support.relay_samples import ANSWERS, FORM, SAMPLE, answer_received, requesting_tool

REQUESTS = (FORM, SAMPLE)
DECLARED: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}


async def respond(client: McpClient, tool: str, arguments: Json, answer: Json) -> tuple[Json, Json]:
    """Call, answer the request that arrives during the call; return the request and the result."""
    async with client.exchange("tools/call", call_of(tool, arguments)) as call:
        request = await anext(call.messages)
        await client.send({"id": request["id"], "result": answer})
        response = await anext(call.messages)
    return request, response["result"]


@legacy_carriers
@server_eras
async def test_only_the_calling_legacy_client_receives_the_request(
    carrier: Carrier, server_era: str
) -> None:
    """A misrouted message would arrive before the list change that ends the test."""
    raw: dict[str, Any] = {"era": server_era, "sse": True}
    async with gateway_over(carrier, "request_client", "input", "echo", **raw) as gateway:
        client, other = await gateway.connect(**DECLARED), await gateway.connect(**DECLARED)
        async with client.notifications() as messages, other.notifications() as other_messages:
            for request in REQUESTS:
                tool, arguments = requesting_tool(server_era, request)
                answer = ANSWERS[request["method"]]
                received, result = await respond(client, tool, arguments, answer)
                assert {key: received[key] for key in ("method", "params")} == request
                assert answer_received(server_era, result) == answer
            (only,) = await other.all_messages("echo", {"text": "x"})
            gateway.show("echo")
            last = [await anext(messages), await anext(other_messages)]
    assert "result" in only
    assert [it["method"] for it in last] == ["notifications/tools/list_changed"] * 2


@modern_carriers
@server_eras
async def test_a_modern_client_gets_input_required_and_calls_again(
    carrier: Carrier, server_era: str
) -> None:
    raw: dict[str, Any] = {"era": server_era, "sse": True}
    async with gateway_over(carrier, "request_client", "input", **raw) as gateway:
        client = await gateway.connect(**DECLARED)
        for request in REQUESTS:
            tool, arguments = requesting_tool(server_era, request)
            answer = ANSWERS[request["method"]]
            required = await client.call(tool, arguments)
            ((key, received),) = required["inputRequests"].items()
            state = {it: required[it] for it in ("requestState",) if it in required}
            result = await client.call(tool, arguments, inputResponses={key: answer}, **state)
            assert (required["resultType"], received) == ("input_required", request)
            assert answer_received(server_era, result) == answer


@modern_carriers
async def test_answers_that_no_call_waits_for_are_the_clients_error(carrier: Carrier) -> None:
    async with gateway_over(carrier, "request_client", era="legacy", sse=True) as gateway:
        client = await gateway.connect(**DECLARED)
        params = call_of("request_client", FORM, inputResponses={"q": {}}, requestState="altered")
        error = (await client.request("tools/call", params))["error"]
    assert (error["code"], "make the call again" in error["message"]) == (-32602, True)


async def test_a_request_for_an_undeclared_capability_is_refused_to_the_server(
    carrier: Carrier,
) -> None:
    async with gateway_over(carrier, "request_client", era="legacy", sse=True) as gateway:
        client = await gateway.connect()
        results = [await client.call("request_client", request) for request in REQUESTS]
    codes = [it["structuredContent"]["answers"][0]["error"]["code"] for it in results]
    assert codes == [-32601, -32601]


async def test_a_call_fails_if_its_server_requires_an_undeclared_capability(
    carrier: Carrier,
) -> None:
    async with gateway_over(carrier, "input", era="modern") as gateway:
        client = await gateway.connect(roots={})
        for request in REQUESTS:
            result = await client.call("input", {"questions": {"q": request}})
            text = result["content"][0]["text"]
            assert (result["isError"], "asks for more input" in text) == (True, True)


@legacy_carriers
async def test_each_client_answers_the_request_of_its_call(carrier: Carrier) -> None:
    async with gateway_over(carrier, "request_client", era="legacy", sse=True) as gateway:
        clients = [await gateway.connect(elicitation={}) for _ in range(2)]
        answers = [{"action": "accept", "content": {"name": f"answer {n}"}} for n in range(2)]
        results = await asyncio.gather(
            *(
                respond(client, "request_client", FORM, it)
                for client, it in zip(clients, answers, strict=True)
            )
        )
    received = [result["structuredContent"]["answers"] for _, result in results]
    assert received == [[{"result": answer}] for answer in answers]


@legacy_carriers
async def test_an_answer_from_another_client_is_ignored(carrier: Carrier) -> None:
    """It has the request's id, but only the client that received the request can answer it."""
    async with gateway_over(carrier, "request_client", era="legacy", sse=True) as gateway:
        client, other = [await gateway.connect(elicitation={}) for _ in range(2)]
        async with client.exchange("tools/call", call_of("request_client", FORM)) as call:
            request = await anext(call.messages)
            forged = {"action": "accept", "content": {"name": "forged"}}
            await other.send({"id": request["id"], "result": forged})
            await other.result("tools/list")
            await client.send({"id": request["id"], "result": {"action": "decline"}})
            response = await anext(call.messages)
    answers = response["result"]["structuredContent"]["answers"]
    assert answers == [{"result": {"action": "decline"}}]


@legacy_carriers
async def test_an_invalid_mcp_answer_fails_the_request_immediately(carrier: Carrier) -> None:
    """Otherwise the call would wait for ten minutes and block other requests on its connection."""
    answers: list[Json] = [{"result": None}, {"result": [1]}, {"error": None}, {"error": {"a": 1}}]
    async with gateway_over(carrier, "request_client", era="legacy", sse=True) as gateway:
        client = await gateway.connect(elicitation={})
        for answer in answers:
            async with client.exchange("tools/call", call_of("request_client", FORM)) as call:
                request = await anext(call.messages)
                await client.send({"id": request["id"], **answer})
                response = await anext(call.messages)
            (received,) = response["result"]["structuredContent"]["answers"]
            assert received["error"]["message"] == "the client's answer is not one of MCP"


@legacy_duplex_carriers
async def test_a_request_is_withdrawn_when_its_call_is_cancelled(carrier: Carrier) -> None:
    async with gateway_over(carrier, "request_client", era="legacy", sse=True) as gateway:
        client = await gateway.connect(elicitation={})
        async with client.exchange("tools/call", call_of("request_client", FORM)) as call:
            request = await anext(call.messages)
            await call.cancel()
            withdrawn = await anext(call.messages)
            await gateway.until_cancelled(1)
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == request["id"]
