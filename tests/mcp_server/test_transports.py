"""The facade's transports: sessions, statuses, replies (F-02 to F-05, A.5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from mcp_tools_proxy.registry.registry import Registry
from tests.support.bounds import BOUND_S
from tests.support.fakes import FakeTool
from tests.support.mcp_endpoint import (
    BOTH,
    ERAS,
    INITIALIZE,
    LEGACY,
    TENANT,
    Served,
    answer,
    names,
    serving,
)
from tests.support.raw_mcp_client import in_front_of_one, raw_client
from tests.support.tables import named_row

JSON_ONLY = {"Accept": "application/json"}
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


@asynccontextmanager
async def sse_stream(
    served: Served, path: str = "/mcp/sse"
) -> AsyncIterator[tuple[str, httpx.Response]]:
    """Open a stream of legacy HTTP+SSE, and yield its announced address."""
    async with served.http.stream("GET", path, headers=TENANT) as stream:
        async with asyncio.timeout(BOUND_S):
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    yield line.removeprefix("data: "), stream
                    return


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse"])
@pytest.mark.parametrize("mode", ERAS)
async def test_each_transport_serves_both_eras(served: Served, path: str, mode: str) -> None:
    async with served.client(path, mode=mode) as client:
        tools = names(await client.list_tools())
        result = await client.call_tool("read_doc_metadata", {"doc_id": "doc_1"})
        version = client.session.protocol_version
    assert (version, "doc_local_search" in tools, result.is_error) == (ERAS[mode], True, False)


@pytest.mark.requirement("F-02")
async def test_a_stream_announces_its_own_address_with_a_session_id(served: Served) -> None:
    async with sse_stream(served) as (address, stream):
        path, _, query = address.partition("?")
        assert (stream.status_code, path, query.startswith("sessionId=")) == (200, "/mcp/sse", True)


@pytest.mark.requirement("F-03")
async def test_a_message_reaches_the_session_that_it_names(served: Served) -> None:
    async with served.http.stream("GET", "/mcp/sse", headers=TENANT) as stream:
        lines = stream.aiter_lines()
        async with asyncio.timeout(BOUND_S):
            address = await anext(_data(lines))
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
            posted = await served.http.post(address, json=body, headers=TENANT)
            event = await anext(_data(lines))
    assert (posted.status_code, '"serverInfo"' in event) == (202, True)


@pytest.mark.requirement("F-03")
async def test_a_message_without_a_session_is_refused(served: Served) -> None:
    for query, status in [("", 400), ("?sessionId=zz", 400), (f"?sessionId={'0' * 32}", 404)]:
        with named_row(query, status):
            response = await served.http.post(f"/mcp/sse{query}", json=PING, headers=TENANT)
            assert response.status_code == status


@pytest.mark.requirement("F-03")
async def test_messages_of_other_callers_do_not_reach_a_session(served: Served) -> None:
    async with sse_stream(served) as (address, _):
        other = {**TENANT, "X-Tenant-Id": "tenant_2"}
        response = await served.http.post(address, json=PING, headers=other)
    assert response.status_code == 404


@pytest.mark.requirement("F-04")
async def test_streams_are_separate_sessions_and_leave_nothing(served: Served) -> None:
    async with served.client("/mcp/sse") as one, served.client("/mcp/sse", mode="legacy") as two:
        both = await asyncio.gather(one.list_tools(), two.list_tools())
        tools = [names(listed) for listed in both]
    async with sse_stream(served) as (address, _):
        pass
    status = await _status_after_leaving(served, address)
    assert (tools[0] == tools[1], status) == (True, 404)


@pytest.mark.requirement("F-05")
async def test_a_client_that_accepts_only_json_gets_a_session_with_json_replies(
    served: Served,
) -> None:
    session_id = await served.open_session(accept=JSON_ONLY)
    headers = {**TENANT, **JSON_ONLY, "Mcp-Session-Id": session_id}
    response = await served.http.post("/mcp", json=PING, headers=headers)
    assert (response.status_code, response.headers["content-type"], response.json()) == (
        200,
        "application/json",
        {"jsonrpc": "2.0", "id": 7, "result": {}},
    )


@pytest.mark.requirement("F-05")
async def test_a_client_that_accepts_streams_gets_streams(served: Served) -> None:
    session_id = await served.open_session()
    headers = {**TENANT, **BOTH, "Mcp-Session-Id": session_id}
    response = await served.http.post("/mcp", json=PING, headers=headers)
    assert (response.headers["content-type"].partition(";")[0], answer(response)["id"]) == (
        "text/event-stream",
        7,
    )


@pytest.mark.requirement("F-05")
async def test_a_session_opened_for_streams_answers_a_json_only_request(
    served: Served,
) -> None:
    for method in ["ping", "tools/list", "nonsense"]:
        with named_row(method):
            headers = {**TENANT, **JSON_ONLY, "Mcp-Session-Id": await served.open_session()}
            response = await served.http.post(
                "/mcp", json={**PING, "method": method}, headers=headers
            )
            assert (
                response.status_code,
                response.headers["content-type"],
                response.json()["id"],
            ) == (
                200,
                "application/json",
                7,
            )
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            accepted = await served.http.post("/mcp", json=note, headers=headers)
            again = await served.http.post("/mcp", json=PING, headers={**headers, **BOTH})
            assert (accepted.status_code, again.headers["content-type"]) == (
                202,
                "text/event-stream",
            )


async def test_a_json_only_client_gets_only_the_answer_and_no_requests() -> None:
    async with in_front_of_one(("request_client", "progress"), era="legacy", sse=True) as (
        served,
        _,
    ):
        client = await raw_client(served, LEGACY, elicitation={})
        for tool, arguments in (("progress", {}), ("request_client", FORM)):
            call = {"name": f"s1:{tool}", "arguments": arguments, "_meta": {"progressToken": 1}}
            body, headers = client.build("tools/call", call)
            response = await served.http.post("/mcp", json=body, headers=headers | JSON_ONLY)
            assert response.headers["content-type"] == "application/json"
            assert (response.json()["id"], "result" in response.json()) == (body["id"], True)


async def test_a_session_is_ended_with_204_and_then_unknown(served: Served) -> None:
    cases: list[dict[str, str]] = [BOTH, JSON_ONLY]
    for accept in cases:
        with named_row(accept):
            session_id = await served.open_session(accept=accept)
            headers = {**TENANT, **accept, "Mcp-Session-Id": session_id}
            ended = await served.http.delete("/mcp", headers=headers)
            after = await served.http.post("/mcp", json=PING, headers=headers)
            assert (ended.status_code, ended.content, after.status_code) == (204, b"", 404)


async def test_a_session_cannot_be_used_by_another_tenant(served: Served) -> None:
    session_id = await served.open_session()
    headers = {**TENANT, **BOTH, "Mcp-Session-Id": session_id, "X-Tenant-Id": "tenant_2"}
    response = await served.http.post("/mcp", json=PING, headers=headers)
    assert response.status_code == 404


async def test_a_too_large_body_is_refused_before_parsing() -> None:
    async with serving(max_request_bytes=1000) as served:
        response = await served.request("tools/call", {"name": "x", "arguments": {"a": "b" * 2000}})
    assert (response.status_code, response.json()["error"]["data"]["code"]) == (
        413,
        "PAYLOAD_TOO_LARGE",
    )


async def test_a_session_over_the_limit_ends_the_longest_unused_one() -> None:
    async with serving(max_sessions=2) as served:
        opened = [await served.open_session(accept=a) for a in (BOTH, JSON_ONLY, BOTH)]
        for session_id in opened:
            await served.set_log_level(session_id)
        statuses = []
        for session_id in opened:
            headers = {**TENANT, **BOTH, "Mcp-Session-Id": session_id}
            statuses.append(
                (await served.http.post("/mcp", json=PING, headers=headers)).status_code
            )
    assert statuses == [404, 200, 200]


async def test_no_session_ends_for_another_while_in_use() -> None:
    async with serving(max_sessions=1) as served, sse_stream(served):
        session = await served.set_log_level(await served.open_session())
        stream = await served.http.get("/mcp/sse", headers=TENANT)
    refusals = [(it.status_code, it.json()["error"]["data"]["code"]) for it in (session, stream)]
    assert refusals == [(503, "NO_ROOM")] * 2


async def test_an_unused_session_ends() -> None:
    async with serving(session_idle_s=0.05) as served:
        session_id = await served.open_session()
        headers = {**TENANT, **BOTH, "Mcp-Session-Id": session_id}

        async def has_ended() -> bool:
            await asyncio.sleep(0.1)
            response = await served.http.post("/mcp", json=PING, headers=headers)
            return response.status_code == 404

        async with asyncio.timeout(BOUND_S):
            while not await has_ended():
                pass


async def test_other_methods_are_answered_with_the_allowed_ones(served: Served) -> None:
    for method in ["PUT", "PATCH", "OPTIONS"]:
        with named_row(method):
            response = await served.http.request(method, "/mcp", headers=TENANT)
            assert (response.status_code, response.headers["allow"]) == (405, "GET, POST, DELETE")


async def test_two_values_of_one_header_are_refused(served: Served) -> None:
    response = await served.http.post(
        "/mcp", json=PING, headers=[*BOTH.items(), ("X-Tenant-Id", "a"), ("X-Tenant-Id", "b")]
    )
    assert (response.status_code, response.json()["error"]["data"]["code"]) == (
        400,
        "INVALID_REQUEST",
    )


async def _data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


async def _status_after_leaving(served: Served, address: str) -> int:
    """Post until the server has noticed the end of the stream."""
    async with asyncio.timeout(BOUND_S):
        while True:
            response = await served.http.post(address, json=PING, headers=TENANT)
            if response.status_code != 202:
                return response.status_code


async def test_an_internal_error_is_reported_with_its_trace_id(served: Served) -> None:
    no_unicode = FakeTool(properties=("\ud800",))
    served.service.gateway.registry.replace(Registry.build([no_unicode]))
    error = answer(await served.request("tools/list", headers={**TENANT, "X-Trace-Id": "t-1"}))[
        "error"
    ]
    data = error["data"]
    assert (error["code"], data["code"], data["trace_id"]) == (-32603, "INTERNAL_ERROR", "t-1")
