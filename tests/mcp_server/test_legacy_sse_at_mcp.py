"""Legacy HTTP+SSE at the address of streamable HTTP, as in the original service (seed 001)."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from mcp import Client
from mcp.client.sse import sse_client

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_agent
from tests.support.mcp_endpoint import (
    BOTH,
    ERAS,
    INITIALIZE,
    MODERN,
    TENANT,
    Served,
    names,
    serving,
)
from tests.support.tables import named_row

EVENTS = {"Accept": "text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
VERSION = {"MCP-Protocol-Version": "2025-06-18"}
UNKNOWN = "0" * 32


@asynccontextmanager
async def opened(
    served: Served, path: str = "/mcp", headers: Mapping[str, str] = TENANT
) -> AsyncIterator[tuple[str, AsyncIterator[str]]]:
    """Open a stream, and yield its announced address and the data of its events."""
    async with (
        asyncio.timeout(BOUND_S),
        served.http.stream("GET", path, headers={**EVENTS, **headers}) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        data = _data(stream.aiter_lines())
        yield await anext(data), data


async def _data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


@pytest.mark.requirement("F-02")
async def test_a_get_that_accepts_events_opens_a_stream(served: Served) -> None:
    for accept in [
        "text/event-stream",
        "application/json, text/event-stream",
        "Text/Event-Stream;q=1",
    ]:
        with named_row(accept):
            async with opened(served, headers={**TENANT, "Accept": accept}) as (address, _):
                path, _, query = address.partition("?")
            assert (path, query.startswith("sessionId=")) == ("/mcp", True)


@pytest.mark.requirement("F-03")
@pytest.mark.parametrize("later", [{}, VERSION], ids=["original", "TypeScript SDK"])
async def test_messages_go_to_the_stream_that_they_name(
    served: Served, later: dict[str, str]
) -> None:
    async with opened(served) as (address, data):
        begun = await served.http.post(address, json=BEGIN, headers=TENANT)
        answered = json.loads(await anext(data))
        posted = await served.http.post(address, json=PING, headers={**TENANT, **later})
        pong = json.loads(await anext(data))
    assert (begun.status_code, posted.status_code) == (202, 202)
    assert ("serverInfo" in answered["result"], pong["id"]) == (True, 7)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_sdks_client_can_use_it(served: Served, mode: str) -> None:
    transport = sse_client(f"{served.url}/mcp", headers=dict(TENANT))
    async with asyncio.timeout(BOUND_S), Client(transport, mode=mode, cache=None) as client:
        tools = names(await client.list_tools())
        result = await client.call_tool("read_doc_metadata", {"doc_id": "doc_1"})
    assert ("doc_local_search" in tools, result.is_error) == (True, False)


@pytest.mark.requirement("F-03")
async def test_a_message_for_no_stream_is_refused(served: Served) -> None:
    for query in [UNKNOWN, "zz"]:
        with named_row(query):
            answer = await served.http.post(f"/mcp?sessionId={query}", json=PING, headers=TENANT)
            assert answer.status_code == (404 if query == UNKNOWN else 400)


async def test_messages_of_other_callers_do_not_reach_a_stream(served: Served) -> None:
    other = {**TENANT, "X-Tenant-Id": "tenant_2"}
    async with opened(served) as (address, _):
        plain = await served.http.post(address, json=PING, headers=other)
        newer = await served.http.post(address, json=PING, headers={**other, **BOTH, **VERSION})
    assert (plain.status_code, newer.status_code) == (404, 400)


async def test_a_get_with_a_header_of_streamable_http_opens_no_such_stream(served: Served) -> None:
    cases: list[dict[str, str]] = [
        {"Mcp-Session-Id": UNKNOWN},
        VERSION,
        {"MCP-Protocol-Version": MODERN},
        {"Last-Event-ID": "1"},
    ]
    for headers in cases:
        with named_row(headers):
            answer = await served.http.get("/mcp", headers={**EVENTS, **TENANT, **headers})
            assert answer.status_code in (400, 404, 405)


async def test_a_get_that_does_not_accept_events_opens_no_stream(served: Served) -> None:
    for accept in ["*/*", "text/*", "application/json"]:
        with named_row(accept):
            answer = await served.http.get("/mcp", headers={**TENANT, "Accept": accept})
            assert answer.status_code in (400, 406)


async def test_a_post_of_streamable_http_keeps_its_meaning(served: Served) -> None:
    cases: list[dict[str, str]] = [{"Mcp-Session-Id": UNKNOWN}, {"MCP-Protocol-Version": MODERN}]
    for headers in cases:
        with named_row(headers):
            async with opened(served) as (address, _):
                answer = await served.http.post(
                    address, json=PING, headers={**TENANT, **BOTH, **headers}
                )
            assert answer.status_code in (400, 404)


async def test_a_session_of_streamable_http_still_has_its_stream(served: Served) -> None:
    headers = {**TENANT, **EVENTS, "Mcp-Session-Id": await served.open_session()}
    async with served.http.stream("GET", "/mcp", headers=headers) as stream:
        assert (stream.status_code, "sessionId" in stream.headers) == (200, False)


async def test_the_stream_limit_of_a_tenant_is_the_same_at_both_addresses() -> None:
    async with serving(max_sessions=4) as served, AsyncExitStack() as stack:
        for path in ("/mcp", "/mcp/sse", "/mcp"):
            await stack.enter_async_context(opened(served, path))
        refused = await served.http.get("/mcp", headers={**EVENTS, **TENANT})
        assert refused.json()["error"]["data"]["code"] == "NO_ROOM"


async def test_the_token_is_checked_first() -> None:
    async with serving(auth_mode="token", tokens_file="none.jsonl") as served:
        answers = [
            await served.http.get("/mcp", headers={**EVENTS, **TENANT}),
            await served.http.post(f"/mcp?sessionId={UNKNOWN}", json=PING, headers=TENANT),
        ]
    assert [it.status_code for it in answers] == [401, 401]


async def test_the_caller_is_checked_first(served: Served) -> None:
    twice = [*EVENTS.items(), ("X-Tenant-Id", "a"), ("X-Tenant-Id", "b")]
    answer = await served.http.get("/mcp", headers=twice)
    assert answer.json()["error"]["data"]["code"] == "INVALID_REQUEST"


async def test_streams_at_an_agents_address_belong_to_that_agent() -> None:
    config = Config(agents=[make_agent("one"), make_agent("two", exclude=["read_doc_pages"])])
    listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with (
        serving(config=config) as served,
        opened(served, "/mcp/agents/two") as (address, data),
    ):
        await served.http.post(address, json=BEGIN, headers=TENANT)
        await anext(data)
        posted = await served.http.post(address, json=listed, headers=TENANT)
        tools = json.loads(await anext(data))["result"]["tools"]
        other = address.replace("/two", "/one")
        foreign = await served.http.post(other, json=PING, headers=TENANT)
    assert (address.partition("?")[0], posted.status_code) == ("/mcp/agents/two", 202)
    assert "read_doc_pages" not in [tool["name"] for tool in tools]
    assert foreign.status_code == 404
