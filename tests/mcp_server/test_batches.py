"""JSON-RPC batches, which only MCP 2025-03-26 supports."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.api.document_operator import ADMIN
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import BOTH, INITIALIZE, LEGACY, MODERN, TENANT, Served, serving
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import eventually
from tests.support.tables import named_row
from tests.support.tokens import bearer

VERSION = "2025-03-26"
JSON_ONLY = {"Accept": "application/json"}
TOOLS = ("echo", "sleep", "progress")
ECHO, SLEEP, PROGRESS = "s1__echo", "s1__sleep", "s1__progress"


@asynccontextmanager
async def in_front(**settings: Any) -> AsyncIterator[Served]:
    """Serve in front of one server, whose tools every caller may use."""
    async with running_raw(only=TOOLS, sse=True) as server:
        presets = [make_preset(tools=[("s1", it) for it in TOOLS])]
        config = Config(servers={"s1": server.entry}, presets=presets)
        async with serving(config=config, tool_name_style=None, **settings) as started:
            yield started


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with in_front() as started:
        yield started


async def begin(served: Served, version: str = VERSION) -> str:
    """Start a session of a version; return its id."""
    params = {**INITIALIZE, "protocolVersion": version}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    response = await served.http.post("/mcp", json=body, headers={**JSON_ONLY, **TENANT})
    assert response.json()["result"]["protocolVersion"] == version
    return str(response.headers["mcp-session-id"])


async def send(
    served: Served, batch: object, session_id: str | None = None, **headers: str
) -> httpx.Response:
    sent = {**BOTH, **TENANT, **headers}
    if session_id is not None:
        sent["Mcp-Session-Id"] = session_id
    async with asyncio.timeout(BOUND_S):
        return await served.http.post("/mcp", json=batch, headers=sent)


def request(id_: object, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def call(id_: object, tool: str, **arguments: Any) -> Json:
    return request(id_, "tools/call", name=tool, arguments=arguments)


def note(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


INITIALIZED = note("notifications/initialized")
MIXED = [
    INITIALIZED,
    call(1, ECHO, n=1),
    request("a", "ping"),
    call(2, "no_such_tool"),
    request(3, "tools/list"),
    request(4, "no/such"),
]


def events_of(response: httpx.Response) -> list[Json]:
    lines = response.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("accept", [BOTH, JSON_ONLY], ids=["both", "json"])
async def test_each_request_of_a_batch_is_answered_in_order(
    served: Served, accept: dict[str, str]
) -> None:
    response = await send(served, MIXED, await begin(served), **accept)
    assert response.headers["content-type"] == "application/json"
    echo, ping, unknown, tools, method = response.json()
    assert [it["id"] for it in response.json()] == [1, "a", 2, 3, 4]
    assert echo["result"]["structuredContent"] == {"n": 1}
    assert ping["result"] == {}
    assert "TOOL_NOT_FOUND" in json.dumps(unknown["result"])
    assert ECHO in [it["name"] for it in tools["result"]["tools"]]
    assert method["error"]["code"] == -32601


async def test_messages_before_the_responses_turn_a_batch_into_a_stream_of_single_messages(
    served: Served,
) -> None:
    """The TypeScript SDK rejects arrays in events."""
    with_progress = call(1, PROGRESS)
    with_progress["params"]["_meta"] = {"progressToken": "p"}
    response = await send(served, [with_progress, call(2, ECHO, n=2)], await begin(served))
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response)
    assert {it["method"] for it in events if "method" in it} == {"notifications/progress"}
    assert [it["id"] for it in events if "id" in it] == [1, 2]


async def test_a_batch_without_requests_is_accepted(served: Served) -> None:
    cases: list[object] = [
        [INITIALIZED],
        [INITIALIZED, note("notifications/cancelled", requestId=9)],
        [{"jsonrpc": "2.0", "id": "x-1", "result": {}}, {"jsonrpc": "2.0", "id": 1, "result": {}}],
    ]
    for batch in cases:
        with named_row(batch):
            response = await send(served, batch, await begin(served))
            assert (response.status_code, response.content) == (202, b"")


async def test_an_invalid_part_fails_alone(served: Served) -> None:
    parts = [1, {"jsonrpc": "1.0", "id": 7, "method": "ping"}, {}, request(8, "ping")]
    answers = (await send(served, parts, await begin(served))).json()
    assert [it["id"] for it in answers] == [None, 7, None, 8]
    assert [it.get("error", {}).get("code") for it in answers] == [-32600] * 3 + [None]


REFUSED: dict[str, object] = {
    "empty": [],
    "initialize": [request(1, "initialize", **INITIALIZE), request(2, "ping")],
    "one id twice": [call(1, ECHO), call(1, ECHO)],
    "one id as number and text": [call(1, ECHO), call("1", ECHO)],
    "too many": [INITIALIZED] * 5,
}


async def test_a_batch_that_breaks_a_rule_is_refused_as_a_whole() -> None:
    async with in_front(max_batch_calls=4) as served:
        for case, batch in REFUSED.items():
            with named_row(case):
                session_id = await begin(served)
                response = await send(served, batch, session_id)
                refusal = response.json()
                assert (response.status_code, refusal["id"]) == (400, None)
                assert refusal["error"]["code"] == -32600
                assert (await send(served, [INITIALIZED] * 4, session_id)).status_code == 202


async def test_a_session_of_another_version_refuses_batches(served: Served) -> None:
    for version in ["2024-11-05", "2025-06-18", LEGACY]:
        with named_row(version):
            response = await send(served, [request(1, "ping")], await begin(served, version))
            assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)
            assert VERSION in response.json()["error"]["message"]


async def test_a_batch_without_a_session_is_refused(served: Served) -> None:
    cases: list[dict[str, str]] = [{}, {"MCP-Protocol-Version": MODERN, "Mcp-Method": "ping"}]
    for headers in cases:
        with named_row(headers):
            response = await send(served, [request(1, "ping")], **headers)
            assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)


async def test_a_batch_of_an_unknown_session_is_not_found(served: Served) -> None:
    assert (await send(served, [request(1, "ping")], "x")).status_code == 404


async def test_a_request_of_a_batch_is_cancelled_by_another_batch(served: Served) -> None:
    session_id = await begin(served)
    async with asyncio.TaskGroup() as tasks:
        sleeping = tasks.create_task(send(served, [call(1, SLEEP, seconds=60)], session_id))
        await eventually(lambda: in_progress(served, session_id, 1))
        both = [note("notifications/cancelled", requestId=1), call(2, ECHO, n=1)]
        assert (await send(served, both, session_id)).json()[0]["id"] == 2
    assert sleeping.result().json()[0]["error"]["code"] == -32800


async def in_progress(served: Served, session_id: str, id_: int) -> bool:
    """Return whether a batch with this id is refused, because the id is in use."""
    return (await send(served, [request(id_, "ping")], session_id)).status_code == 400


async def test_each_call_of_a_batch_is_charged_and_recorded() -> None:
    async with in_front(rate_limit_tenant_calls=2, admin_token=ADMIN) as served:
        calls = [call(n, ECHO, n=n) for n in range(3)]
        answers = (await send(served, calls, await begin(served))).json()
        failed = [it["result"] for it in answers if it["result"].get("isError")]
        assert ["RATE_LIMIT_EXCEEDED" in json.dumps(it) for it in failed] == [True]
        found = await served.http.get("/internal/mcp/audit?tool=s1:echo", headers=bearer(ADMIN))
        assert len(found.json()["records"]) == 3


async def test_the_calls_of_a_batch_run_in_parallel(served: Served) -> None:
    """The second call's messages arrive while the first still runs."""
    session_id = await begin(served)
    with_progress = call(2, PROGRESS)
    with_progress["params"]["_meta"] = {"progressToken": "p"}
    parts = [call(1, SLEEP, seconds=60), with_progress]
    headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
    async with (
        asyncio.timeout(BOUND_S),
        served.http.stream("POST", "/mcp", json=parts, headers=headers) as response,
    ):
        lines = response.aiter_lines()
        while "notifications/progress" not in await anext(lines):
            pass
        # calls that still run would be waited for at the end
        cancelled = [note("notifications/cancelled", requestId=1)]
        assert (await send(served, cancelled, session_id)).status_code == 202


async def test_a_level_set_in_a_batch_applies_to_the_session(served: Served) -> None:
    parts = [request(1, "logging/setLevel", level="error"), request(2, "ping")]
    session_id = await begin(served)
    answers = (await send(served, parts, session_id)).json()
    assert [it["result"] for it in answers] == [{}, {}]
