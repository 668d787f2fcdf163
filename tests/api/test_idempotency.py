"""Idempotency keys through the API: a repeated call returns the first outcome."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_file import write_document
from tests.support.asgi import Message, post_to_app
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import ACTIVE, BATCH, EXECUTE, READY, Service, request_of, running

DOC_1 = {"doc_id": "doc_1"}
TOOLS = (
    "counter", "counter_safe", "echo", "sleep", "hang", "crash", "is_error", "error", "meta",
    "big_image",
)  # fmt: skip
PRESETS = [
    make_preset(tools=[("s1", name) for name in TOOLS]),
    make_preset("narrow", tools=[("s1", "meta")]),
]


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with running_raw() as started:
        yield started


@pytest.fixture
async def service(server: RawServer) -> AsyncIterator[Service]:
    async with running(config=config_of(server)) as started:
        yield started


def config_of(server: RawServer, **entry: object) -> Config:
    servers = {"s1": {**server.entry, **entry}}
    return Config(servers=servers, presets=PRESETS, more={"defaultPresetId": "work"})


async def code(service: Service, name: str, arguments: Any = None, **more: Any) -> str:
    return await service.code(name, arguments, **more)


async def test_the_same_call_runs_once_and_has_the_same_outcome(
    service: Service, server: RawServer
) -> None:
    first = await service.execute("s1:counter", idempotency_key="k", trace_id="one")
    again = await service.execute("s1__counter", {}, idempotency_key="k", trace_id="two")
    assert again == first | {"trace_id": "two", "replayed": True}
    assert ("replayed" in first, server.script.calls["counter"]) == (False, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"idempotency_key": "k2"},
        {"tenant_id": "tenant_2"},
        {"user_id": "another"},
        {"idempotency_key": None},
    ],
    ids=["key", "tenant", "user", "no-key"],
)
async def test_another_key_or_caller_runs_its_own_call(
    service: Service, server: RawServer, other: dict[str, Any]
) -> None:
    await service.execute("s1:counter", idempotency_key="k")
    body = request_of("s1:counter", idempotency_key="k") | {
        "user": {"user_id": "user_1", "tenant_id": "tenant_1"} | other
    }
    if "idempotency_key" in other:
        body["idempotency_key"] = other["idempotency_key"]
    envelope = (await service.http.post(EXECUTE, json=body)).json()
    assert (envelope["status"], "replayed" in envelope) == ("ok", False)
    assert server.script.calls["counter"] == 2


async def test_another_agent_runs_its_own_call(server: RawServer) -> None:
    config = replace(config_of(server), agents=[make_agent("a"), make_agent("b")])
    async with running(config=config) as service:
        for agent in ("a", "b"):
            envelope = await service.execute("s1:counter", agent=agent, idempotency_key="k")
            assert envelope["status"] == "ok"
    assert server.script.calls["counter"] == 2


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("s1:echo", {"text": "other"}), ("s1:counter", {"text": "a"}), ("read_doc_metadata", DOC_1)],
    ids=["arguments", "tool", "local-tool"],
)
async def test_a_key_is_bound_to_one_tool_and_its_arguments(
    service: Service, tool: str, arguments: dict[str, object]
) -> None:
    await service.execute("s1:echo", {"text": "a"}, idempotency_key="k")
    envelope = await service.execute(tool, arguments, idempotency_key="k")
    assert envelope["error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert "retryable" not in envelope["error"]


async def test_the_order_of_arguments_does_not_matter(service: Service) -> None:
    await service.execute("s1:echo", {"text": "a", "b": {"c": 1, "d": 2}}, idempotency_key="k")
    envelope = await service.execute(
        "s1:echo", {"b": {"d": 2, "c": 1}, "text": "a"}, idempotency_key="k"
    )
    assert envelope["replayed"] is True


async def test_a_whole_number_is_equal_in_every_spelling(service: Service) -> None:
    """A JavaScript program sends 1.0 as 1."""
    await service.execute("s1:echo", {"a": 1.0, "b": [{"c": 1e22}, 0.5]}, idempotency_key="k")
    same = {"a": 1, "b": [{"c": 10**22}, 0.5]}
    assert (await service.execute("s1:echo", same, idempotency_key="k"))["replayed"] is True
    other = {"a": 1.5, "b": [{"c": 1e22}, 0.5]}
    assert await code(service, "s1:echo", other, idempotency_key="k") == "IDEMPOTENCY_CONFLICT"


async def test_a_second_call_waits_for_the_first(service: Service, server: RawServer) -> None:
    calls = [service.execute("s1:sleep", {"seconds": 0.1}, idempotency_key="k") for _ in range(9)]
    envelopes = await asyncio.gather(*calls)
    assert {json.dumps(envelope["result"]) for envelope in envelopes} == {
        json.dumps(envelopes[0]["result"])
    }
    assert sum("replayed" in envelope for envelope in envelopes) == 8
    assert server.script.calls["sleep"] == 1


async def test_a_conflict_is_reported_while_the_first_call_runs(
    service: Service, server: RawServer
) -> None:
    first = asyncio.ensure_future(service.execute("s1:hang", idempotency_key="k"))
    await until(lambda: server.script.calls["hang"])
    assert await code(service, "s1:counter", idempotency_key="k") == "IDEMPOTENCY_CONFLICT"
    first.cancel()


@pytest.mark.parametrize("tool", ["s1:is_error", "s1:error"])
async def test_a_server_error_is_an_outcome(service: Service, server: RawServer, tool: str) -> None:
    first = await service.execute(tool, idempotency_key="k", trace_id="t")
    again = await service.execute(tool, idempotency_key="k", trace_id="t")
    assert again == first | {"replayed": True}
    assert (first["error"]["code"], server.script.calls[tool[3:]]) == ("TOOL_FAILED", 1)


async def test_a_call_without_an_answer_is_not_repeated(
    service: Service, server: RawServer
) -> None:
    first = await service.execute("s1:crash", idempotency_key="k")
    again = await service.execute("s1:crash", idempotency_key="k")
    assert again["error"] == first["error"]
    assert (first["error"]["code"], again["replayed"]) == ("SERVER_UNAVAILABLE", True)
    assert server.script.calls["crash"] == 1


async def test_a_timeout_is_an_outcome(server: RawServer) -> None:
    async with running(config=config_of(server, requestTimeoutSeconds=0.2)) as service:
        codes = [await code(service, "s1:hang", idempotency_key="k") for _ in range(2)]
    assert (codes, server.script.calls["hang"]) == (["TOOL_TIMEOUT"] * 2, 1)


async def test_a_call_that_could_not_be_sent_frees_its_key(
    service: Service, server: RawServer
) -> None:
    await server.stop()
    await until(lambda: service.gateway.statuses()[0].state.value != "ready")
    first = await service.execute("s1:counter", idempotency_key="k")
    assert first["error"]["retryable"] is True
    await server.start()
    await until(lambda: service.gateway.statuses()[0].state.value == "ready")
    envelope = await service.execute("s1:counter", idempotency_key="k")
    assert (envelope["status"], "replayed" in envelope) == ("ok", False)


async def test_refused_arguments_free_the_key(service: Service) -> None:
    assert await code(service, "s1:sleep", idempotency_key="k") == "INVALID_ARGUMENTS"
    assert await code(service, "s1:sleep", {"seconds": 0}, idempotency_key="k") == "OK"


async def test_a_call_refused_by_a_budget_frees_its_key_and_a_replay_is_free(
    server: RawServer,
) -> None:
    async with running(
        config=config_of(server), unlimited=False, rate_limit_tenant_calls=2, rate_limit_calls=0
    ) as service:
        codes = [await code(service, "s1:counter", idempotency_key="k") for _ in range(5)]
        assert codes == ["OK"] * 5
        assert await code(service, "s1:counter", idempotency_key="k2") == "OK"
        assert await code(service, "s1:counter", idempotency_key="k3") == "RATE_LIMIT_EXCEEDED"
        refused = await service.execute("s1:counter", idempotency_key="k3")
        assert "replayed" not in refused
        assert await code(service, "s1:echo", {"text": "a"}, idempotency_key="k3") == (
            "RATE_LIMIT_EXCEEDED"
        )


async def test_a_caller_that_lost_access_to_the_tool_gets_no_stored_outcome(
    service: Service, server: RawServer
) -> None:
    await service.execute("s1:counter", idempotency_key="k")
    await service.http.put(ACTIVE, json={"preset_id": "narrow", "persist": False})
    assert await code(service, "s1:counter", idempotency_key="k") == "TOOL_NOT_ALLOWED"
    await service.http.put(ACTIVE, json={"preset_id": "work", "persist": False})
    assert (await service.execute("s1:counter", idempotency_key="k"))["replayed"] is True


async def test_a_deleted_document_is_not_read_from_an_outcome() -> None:
    path = write_document(Path("documents"), make_document(doc_id="doc_1"), replace=False).path
    async with running(mock_mode=False) as service:
        assert await code(service, "read_doc_metadata", DOC_1, idempotency_key="k") == "OK"
        path.unlink()
        await service.gateway.documents.connect()
        again = await code(service, "read_doc_metadata", DOC_1, idempotency_key="k")
        assert again == "DOCUMENT_NOT_FOUND"


@pytest.mark.parametrize("path", [EXECUTE, BATCH])
async def test_a_call_with_a_key_completes_after_its_caller_disconnects(
    service: Service, server: RawServer, path: str
) -> None:
    call = request_of("s1:sleep", {"seconds": 0.2}, idempotency_key="k")
    body = {"calls": [call], "user": call["user"]} if path == BATCH else call
    messages: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await until(lambda: server.script.calls["sleep"])
        return {"type": "http.disconnect"}

    async with asyncio.timeout(BOUND_S):
        await post_to_app(service, path, receive)
    envelope = await service.execute("s1:sleep", {"seconds": 0.2}, idempotency_key="k")
    assert (envelope["status"], envelope["replayed"]) == ("ok", True)
    assert (server.script.calls["sleep"], server.script.cancelled_count) == (1, 0)


async def test_a_call_that_a_shutdown_interrupts_is_never_repeated(
    service: Service, server: RawServer
) -> None:
    first = asyncio.ensure_future(service.execute("s1:hang", idempotency_key="k"))
    await until(lambda: server.script.calls["hang"])
    service.gateway.lifecycle.cancel_in_flight()
    assert (await first)["error"]["code"] == "SHUTTING_DOWN"
    with capture_logs() as lines:
        again = await service.execute("s1:hang", idempotency_key="k")
    (record,) = (it for it in lines if it.get("code") == "OUTCOME_UNKNOWN")
    assert "its replica stopped" in record["reason"]
    assert again["error"]["code"] == "OUTCOME_UNKNOWN"
    assert "retryable" not in again["error"]
    assert server.script.calls["hang"] == 1


async def test_a_call_with_an_outcome_that_is_too_large_is_not_repeated(
    service: Service, server: RawServer
) -> None:
    first = await service.execute("s1:big_image", {"bytes": 300_000}, idempotency_key="k")
    again = await service.execute("s1:big_image", {"bytes": 300_000}, idempotency_key="k")
    assert (first["status"], again["error"]["code"]) == ("ok", "OUTCOME_UNKNOWN")
    assert server.script.calls["big_image"] == 1


async def test_a_call_is_refused_if_its_key_cannot_be_stored(server: RawServer) -> None:
    async with running(config=config_of(server), idempotency_bytes=1000) as service:
        envelope = await service.execute("s1:counter", idempotency_key="k")
        other = await service.execute("s1:counter", idempotency_key="k2", tenant_id="tenant_2")
    assert (envelope["status"], other["error"]["code"]) == ("ok", "STATE_UNAVAILABLE")
    assert (other["error"]["retryable"], server.script.calls["counter"]) == (True, 1)


async def test_the_key_can_be_sent_in_a_header(service: Service, server: RawServer) -> None:
    body, headers = request_of("s1:counter"), {"Idempotency-Key": "k"}
    for _ in range(2):
        response = await service.http.post(EXECUTE, json=body, headers=headers)
    same = await service.http.post(EXECUTE, json={**body, "idempotency_key": "k"}, headers=headers)
    assert response.json()["replayed"] is same.json()["replayed"] is True
    assert server.script.calls["counter"] == 1


@pytest.mark.parametrize("key", ["", "x" * 129, "a\nb", "a\u200bb", 7, "\ud800"])
async def test_a_key_has_1_to_128_printable_characters(
    service: Service, server: RawServer, key: object
) -> None:
    content = json.dumps(request_of("s1:counter", idempotency_key=key))
    response = await service.http.post(EXECUTE, content=content)
    assert response.status_code == 422
    assert server.script.calls["counter"] == 0


@pytest.mark.parametrize(
    "headers",
    [[("Idempotency-Key", "")], [("Idempotency-Key", "a"), ("idempotency-key", "a")],
     [("Idempotency-Key", "x" * 129)], [("Idempotency-Key", "other")]],
    ids=["empty", "duplicate", "long", "differs-from-body"],
)  # fmt: skip
async def test_a_malformed_key_header_is_refused(
    service: Service, server: RawServer, headers: list[tuple[str, str]]
) -> None:
    body = request_of("s1:counter", idempotency_key="k")
    response = await service.http.post(EXECUTE, json=body, headers=headers)
    assert response.json()["error"]["details"] == {"field": "Idempotency-Key"}
    assert server.script.calls["counter"] == 0


async def test_calls_of_a_batch_can_have_keys(service: Service, server: RawServer) -> None:
    one = {"tool_name": "s1:counter", "idempotency_key": "k"}
    two = {"tool_name": "s1:counter"}
    body = {"calls": [one, one, two], "user": request_of("x")["user"]}
    results = (await service.http.post(BATCH, json=body)).json()["results"]
    assert [result.get("replayed", False) for result in results] == [False, True, False]
    assert server.script.calls["counter"] == 2


@pytest.mark.parametrize("by_header", [True, False])
async def test_the_key_of_a_batch_applies_to_each_call(
    service: Service, server: RawServer, *, by_header: bool
) -> None:
    body = {"calls": [{"tool_name": "s1:counter"}] * 3, "user": request_of("x")["user"]}
    headers = {"Idempotency-Key": "k"} if by_header else {}
    body |= {} if by_header else {"idempotency_key": "k"}
    first, again = [
        (await service.http.post(BATCH, json=body, headers=headers)).json()["results"]
        for _ in range(2)
    ]
    assert [result["result"] for result in again] == [result["result"] for result in first]
    assert all(result["replayed"] for result in again)
    assert server.script.calls["counter"] == 3
    alone = await service.execute("s1:counter", idempotency_key="k")
    assert "replayed" not in alone


async def test_readiness_and_metrics_include_idempotency(service: Service) -> None:
    for tool in ("s1:counter", "s1:counter", "s1:echo"):
        await service.execute(tool, idempotency_key="k")
    ready = (await service.http.get(READY)).json()
    assert ready["checks"]["idempotency"] == {"status": "ok", "store": "memory", "kept": 1}
    text = (await service.http.get("/metrics")).text
    for result in ("first", "replayed", "IDEMPOTENCY_CONFLICT"):
        assert f'mcp_proxy_idempotent_calls_total{{result="{result}"}} 1.0' in text


async def test_without_a_state_key_nothing_is_kept_in_redis(server: RawServer) -> None:
    url = "redis://127.0.0.1:1/0"
    async with running(config=config_of(server), rate_limit_storage_url=url) as service:
        envelope = await service.execute("s1:counter", idempotency_key="k")
        assert envelope["error"]["code"] == "STATE_UNAVAILABLE"
        assert "retryable" not in envelope["error"]
        assert await code(service, "s1:counter") == "OK"
        check = (await service.http.get(READY)).json()["checks"]["idempotency"]
    assert (check["status"], "MCP_PROXY_STATE_KEY" in check["problem"]) == ("ok", True)
    assert server.script.calls["counter"] == 1


async def test_a_models_reply_can_be_sent_again_safely(service: Service, server: RawServer) -> None:
    function = {"name": "s1__counter", "arguments": "{}"}
    calls = [{"id": f"c{n}", "type": "function", "function": function} for n in range(3)]
    calls[2]["idempotency_key"] = "own"
    body = {"calls": calls, "user": request_of("x")["user"], "idempotency_key": "reply"}
    first, again = [(await service.http.post(BATCH, json=body)).json() for _ in range(2)]
    assert again["messages"] == first["messages"]
    assert all(result["replayed"] for result in again["results"])
    assert server.script.calls["counter"] == 3
    assert (await service.execute("s1:counter", idempotency_key="own"))["replayed"] is True
    calls[0]["idempotency_key"] = "x" * 129
    refused = (await service.http.post(BATCH, json=body)).json()
    assert refused["error"]["details"] == {"field": "calls.0.idempotency_key"}
