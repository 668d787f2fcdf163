"""What is said and asked during a call, and its end before its time, through the facade's wire."""

import json
from typing import Any

import pytest

from tests.support.configuration import Json
from tests.support.mcp_endpoint import LEGACY, MODERN
from tests.support.raw_mcp_client import ERAS, Wire, in_front_of_one, wire
from tests.support.relay_samples import (
    ANSWERS,
    FORM,
    LOG_LINES,
    PROGRESS,
    SAMPLE,
    answer_received,
    requesting_tool,
)
from tests.support.service import eventually

eras = pytest.mark.parametrize("era", ERAS)
server_eras = pytest.mark.parametrize("server_era", ["modern", "legacy"])


def call_of(tool: str, arguments: Json | None = None, **params: Any) -> Json:
    return {"name": f"s1:{tool}", "arguments": arguments or {}, **params}


async def said_of_a_call(client: Wire, params: Json) -> list[Json]:
    """Call, and give all that was said until the result, and the result."""
    async with client.stream("tools/call", params) as messages:
        return [message async for message in messages]


@eras
@server_eras
async def test_progress_reaches_the_client_under_its_own_token_before_the_result(
    era: str, server_era: str
) -> None:
    async with in_front_of_one(("progress",), era=server_era, sse=True) as (served, _):
        client = await wire(served, era)
        params = call_of("progress", _meta={"progressToken": "mine"})
        *told, result = await said_of_a_call(client, params)
    assert [
        (it["method"], it["params"]["progressToken"], it["params"]["progress"]) for it in told
    ] == [
        (PROGRESS, "mine", 1),
        (PROGRESS, "mine", 2),
    ]
    assert result["result"]["content"][0]["text"] == "done"


@eras
async def test_who_wants_no_progress_is_told_none(era: str) -> None:
    async with in_front_of_one(("progress",), sse=True) as (served, _):
        client = await wire(served, era)
        told = [await client.call("progress")]
    assert [result["content"][0]["text"] for result in told] == ["done"]


@server_eras
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, ["debug", "warning", "critical"]),
        ("warning", ["warning", "critical"]),
        ("emergency", []),
    ],
)
async def test_a_session_is_told_log_lines_from_its_level_on(
    level: str | None, expected: list[str], server_era: str
) -> None:
    async with in_front_of_one(("say",), era=server_era, sse=True) as (served, _):
        client = await wire(served, LEGACY)
        if level is not None:
            await client.ask("logging/setLevel", {"level": level})
        *told, _ = await said_of_a_call(client, call_of("say", {"messages": LOG_LINES}))
    assert [(line["params"]["level"], line["params"]["data"]) for line in told] == [
        (it, {"é": it}) for it in expected
    ]


@server_eras
@pytest.mark.parametrize(
    ("level", "expected"), [("debug", ["debug", "warning", "critical"]), ("error", ["critical"])]
)
async def test_a_request_of_the_newer_era_is_told_log_lines_from_its_level_on(
    level: str, expected: list[str], server_era: str
) -> None:
    meta = {"io.modelcontextprotocol/logLevel": level}
    async with in_front_of_one(("say",), era=server_era, sse=True) as (served, _):
        client = await wire(served, MODERN)
        params = call_of("say", {"messages": LOG_LINES}, _meta=meta)
        *told, _ = await said_of_a_call(client, params)
    assert [line["params"]["level"] for line in told] == expected


@server_eras
async def test_a_request_of_the_newer_era_that_names_no_level_is_told_none(server_era: str) -> None:
    async with in_front_of_one(("say",), era=server_era, sse=True) as (served, _):
        client = await wire(served, MODERN)
        params = call_of("say", {"messages": LOG_LINES}, _meta={"progressToken": 1})
        assert len(await said_of_a_call(client, params)) == 1


async def test_a_session_that_cancels_cancels_at_the_server() -> None:
    async with in_front_of_one(("hang",)) as (served, server):
        client = await wire(served, LEGACY)
        body, headers = client.request("tools/call", call_of("hang"))
        async with served.http.stream("POST", "/mcp", json=body, headers=headers):
            await eventually(lambda: runs(server.script.running_count, 1))
            params = {"requestId": body["id"], "reason": "enough"}
            await client.tell({"method": "notifications/cancelled", "params": params})
            await eventually(lambda: runs(server.script.cancelled_count, 1))


async def test_a_session_s_cancelling_ends_no_other_session_s_call() -> None:
    async with in_front_of_one(("sleep", "hang")) as (served, server):
        one, other = await wire(served, LEGACY), await wire(served, LEGACY)
        body, headers = one.request("tools/call", call_of("sleep", {"seconds": 0.5}))
        async with served.http.stream("POST", "/mcp", json=body, headers=headers) as response:
            await eventually(lambda: runs(server.script.running_count, 1))
            params = {"requestId": body["id"]}
            await other.tell({"method": "notifications/cancelled", "params": params})
            assert "slept" in (await response.aread()).decode()


@server_eras
@pytest.mark.parametrize("question", [FORM, SAMPLE], ids=["elicitation", "sampling"])
async def test_a_session_is_asked_on_the_stream_of_its_call(
    server_era: str, question: Json
) -> None:
    tool, arguments = requesting_tool(server_era, question)
    async with in_front_of_one((tool,), era=server_era, sse=True) as (served, _):
        client = await wire(served, LEGACY, elicitation={}, sampling={})
        async with client.stream("tools/call", call_of(tool, arguments)) as messages:
            asked = await anext(messages)
            await client.tell({"id": asked["id"], "result": ANSWERS[question["method"]]})
            result = (await anext(messages))["result"]
    assert {k: asked[k] for k in ("method", "params")} == question
    assert answer_received(server_era, result) == ANSWERS[question["method"]]


@server_eras
@pytest.mark.parametrize("question", [FORM, SAMPLE], ids=["elicitation", "sampling"])
async def test_a_client_of_the_newer_era_is_asked_by_an_answer_and_comes_back(
    server_era: str, question: Json
) -> None:
    tool, arguments = requesting_tool(server_era, question)
    async with in_front_of_one((tool,), era=server_era, sse=True) as (served, _):
        client = await wire(served, MODERN, elicitation={"form": {}}, sampling={})
        asked = await client.call(tool, arguments)
        ((key, put),) = asked["inputRequests"].items()
        result = await client.call(
            tool,
            arguments,
            inputResponses={key: ANSWERS[question["method"]]},
            **{k: asked[k] for k in ("requestState",) if k in asked},
        )
    assert (asked["resultType"], put) == ("input_required", question)
    assert answer_received(server_era, result) == ANSWERS[question["method"]]


async def test_answers_that_nothing_waits_for_are_the_clients_error() -> None:
    async with in_front_of_one(("ask",), era="legacy", sse=True) as (served, _):
        client = await wire(served, MODERN, elicitation={"form": {}})
        params = call_of("ask", FORM, inputResponses={"q": {}}, requestState="altered")
        message = await client.ask("tools/call", params)
    assert (message["error"]["code"], "make the call again" in message["error"]["message"]) == (
        -32602,
        True,
    )


@eras
@pytest.mark.parametrize("question", [FORM, SAMPLE], ids=["elicitation", "sampling"])
async def test_what_a_client_did_not_declare_is_refused_to_a_server_that_asks_meanwhile(
    era: str, question: Json
) -> None:
    async with in_front_of_one(("ask",), era="legacy", sse=True) as (served, _):
        client = await wire(served, era)
        result = await client.call("ask", question)
    (answer,) = result["structuredContent"]["answers"]
    assert answer["error"]["code"] == -32601


@eras
@pytest.mark.parametrize("question", [FORM, SAMPLE], ids=["elicitation", "sampling"])
async def test_what_a_client_did_not_declare_fails_the_call_of_a_server_that_asks_by_an_answer(
    era: str, question: Json
) -> None:
    async with in_front_of_one(("input",), era="modern") as (served, _):
        client = await wire(served, era, roots={})
        result = await client.call("input", {"questions": {"q": question}})
    assert (result["isError"], "asks for more input" in result["content"][0]["text"]) == (
        True,
        True,
    )


@eras
async def test_completion_is_passed_on(era: str) -> None:
    async with in_front_of_one(()) as (served, _):
        client = await wire(served, era)
        reference = {"type": "ref/prompt", "name": "greet"}
        params = {"ref": reference, "argument": {"name": "name", "value": "é"}}
        message = await client.ask("completion/complete", params)
    (told,) = message["result"]["completion"]["values"]
    assert json.loads(told) == params


async def runs(count: int, expected: int) -> bool:
    return count == expected
