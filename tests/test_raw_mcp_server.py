"""The raw test server behaves as fault tests require, over each transport in both eras."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from mcp import Client, MCPError

from tests.support.bounds import BOUND_S, until
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.sdk_client import connected
from tests.support.mcp_servers.server_programs import ROOT, raw_entry, running_program

pytestmark = pytest.mark.slow

Json = dict[str, Any]
TRANSPORTS = ["stdio", "http", "events", "sse", "ws"]
"""``events`` is streamable HTTP with event streams as answers."""
ERAS = ["auto", "legacy"]


@asynccontextmanager
async def entry_of(transport: str, **options: Any) -> AsyncIterator[Mapping[str, Any]]:
    if transport == "stdio":
        yield raw_entry(**options)
    elif transport == "events":
        async with running_raw("http", sse=True, **options) as server:
            yield server.entry
    else:
        async with running_raw(transport, **options) as server:
            yield server.entry


@asynccontextmanager
async def talking(transport: str, era: str = "auto", **options: Any) -> AsyncIterator[Client]:
    async with entry_of(transport, **options) as entry, connected(entry, era) as client:
        yield client


async def structured(client: Client, tool: str, arguments: Json | None = None) -> Any:
    return (await client.call_tool(tool, arguments or {})).structured_content


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_it_echoes(transport: str, era: str) -> None:
    async with talking(transport, era) as client:
        assert await structured(client, "echo", {"text": "Привет"}) == {"text": "Привет"}


@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28")])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_it_can_be_limited_to_one_era(transport: str, era: str, version: str) -> None:
    async with entry_of(transport, era=era) as entry, connected(entry) as client:
        assert client.protocol_version == version


@pytest.mark.parametrize("era", ERAS)
async def test_it_has_prompts_resources_and_templates(era: str) -> None:
    async with talking("http", era, name="first") as client:
        prompt = await client.get_prompt("greet", {"name": "Ann"})
        resource = await client.read_resource("raw://item/7")
        templates = await client.list_resource_templates()
    assert getattr(prompt.messages[0].content, "text", None) == "greet of first for Ann"
    assert getattr(resource.contents[0], "text", None) == "raw://item/7 of first"
    assert [each.uri_template for each in templates.resource_templates] == ["raw://item/{id}"]


async def test_it_lists_additional_items_in_pages() -> None:
    extra = {"tools": [{"name": "a:b", "inputSchema": {"type": "object"}}]}
    async with talking("http", only=("echo",), tools=2, extra=extra, page_size=3) as client:
        first = await client.list_tools()
        second = await client.list_tools(cursor=first.next_cursor)
        shown = [tool.name for tool in (*first.tools, *second.tools)]
        assert shown == ["echo", "tool_001", "tool_002", "a:b"]
        assert (await structured(client, "a:b"))["tool"] == "a:b"


async def test_it_offers_nothing_of_a_missing_capability() -> None:
    async with talking("http", without=("prompts",)) as client:
        assert client.server_capabilities.prompts is None
        with pytest.raises(MCPError):
            await client.list_prompts()


async def test_it_returns_the_received_meta() -> None:
    meta: Any = {"traceparent": "00-1-2-03"}
    async with talking("http") as client:
        result = await client.call_tool("meta", meta=meta)
    assert result.structured_content["traceparent"] == "00-1-2-03"


async def test_it_returns_the_received_headers() -> None:
    async with talking("http") as client:
        assert (await structured(client, "headers"))["mcp-name"] == "headers"


async def test_it_returns_its_environment() -> None:
    async with talking("stdio") as client:
        assert "PYTHONPATH" in (await structured(client, "env"))["names"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_it_counts_cancelled_calls(transport: str, era: str) -> None:
    async with talking(transport, era) as client:
        async with asyncio.timeout(BOUND_S):
            while (await structured(client, "cancelled_count"))["count"] == 0:
                with pytest.raises(MCPError):  # on a busy machine perhaps before the call begins
                    await client.call_tool("hang", read_timeout_seconds=0.1)


async def test_it_counts_the_calls_of_a_tool() -> None:
    async with talking("http") as client:
        counts = [(await structured(client, "counter"))["count"] for _ in range(2)]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    safe = tools["counter_safe"].annotations
    assert (counts, safe is not None and safe.read_only_hint) == ([1, 2], True)


async def test_it_returns_the_requested_kinds_of_errors() -> None:
    async with talking("http") as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("error", {"code": -32099})
        failed = await client.call_tool("is_error")
    assert (caught.value.code, failed.is_error) == (-32099, True)


@pytest.mark.parametrize("fault", ["crash", "half", "garbage"])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_fault_leaves_its_call_without_a_result(transport: str, fault: str) -> None:
    """The SDK's client may fail completely; this is not checked."""
    result = None
    with suppress(MCPError, BaseExceptionGroup):
        async with talking(transport) as client:
            result = await client.call_tool(fault, read_timeout_seconds=0.2)
    assert result is None


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_large_answer_arrives_complete(transport: str) -> None:
    async with talking(transport) as client:
        result = await client.call_tool("big", {"bytes": 900_000})
    assert len(getattr(result.content[0], "text", "")) == 900_000


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_modern_listener_is_notified_of_changed_tools(transport: str) -> None:
    async with talking(transport) as client, client.listen(tools_list_changed=True) as changes:
        before = {tool.name for tool in (await client.list_tools()).tools}
        await client.call_tool("tools_swap")
        await asyncio.wait_for(anext(aiter(changes)), BOUND_S)
        after = {tool.name for tool in (await client.session.list_tools()).tools}
    assert after - before == {"swapped"}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_legacy_listener_is_notified_of_every_change(transport: str) -> None:
    received: asyncio.Queue[object] = asyncio.Queue()

    async def take(message: object) -> None:
        received.put_nowait(message)

    async with (
        entry_of(transport) as entry,
        connected(entry, "legacy", message_handler=take) as client,
        asyncio.timeout(BOUND_S),
    ):
        while received.empty():  # the stream for notifications opens in the background
            await client.call_tool("flood", {"count": 3})
            await asyncio.sleep(0.01)
        for _ in range(3):
            await received.get()


async def rpc(server: RawServer, method: str, session: str = "") -> aiohttp.ClientResponse:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    headers = {"Mcp-Session-Id": session} if session else {}
    async with aiohttp.ClientSession() as http:
        return await http.post(server.url, json=body, headers=headers)


async def test_a_lost_session_is_not_found() -> None:
    async with running_raw() as server:
        session = (await rpc(server, "initialize")).headers["Mcp-Session-Id"]
        before = await rpc(server, "tools/list", session)
        server.lose_sessions()
        after = await rpc(server, "tools/list", session)
        without = await rpc(server, "tools/list")
    assert [before.status, after.status, without.status] == [200, 404, 400]


async def test_a_stateless_server_needs_no_session() -> None:
    async with running_raw(stateless=True) as server:
        opened = await rpc(server, "initialize")
        listed = await rpc(server, "tools/list")
    assert ("Mcp-Session-Id" in opened.headers, listed.status) == (False, 200)


@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
async def test_it_restarts_on_its_port(transport: str) -> None:
    async with running_raw(transport) as server:
        before = server.url
        await server.restart()
        async with connected(server.entry) as client:
            assert (server.url, await structured(client, "echo")) == (before, {})


async def test_it_can_be_stopped_during_a_call() -> None:
    async with running_raw() as server, aiohttp.ClientSession() as http:
        call = {"name": "hang", "arguments": {}}
        session = (await rpc(server, "initialize")).headers["Mcp-Session-Id"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        headers = {"Mcp-Session-Id": session}
        async with asyncio.TaskGroup() as tasks:
            hanging = tasks.create_task(refused(http, server.url, body, headers))
            await until(lambda: server.script.running_count)
            await server.stop()
        assert (hanging.result(), server.script.running_count) == (True, 0)


async def refused(http: aiohttp.ClientSession, url: str, body: Json, headers: Json) -> bool:
    try:
        await http.post(url, json=body, headers=headers)
    except aiohttp.ClientError:
        return True
    return False


async def test_a_mute_server_answers_nothing() -> None:
    async with running_raw(mute=("initialize",)) as server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rpc(server, "initialize"), 0.2)


async def test_the_program_can_crash_and_restart() -> None:
    async with running_program("http") as program:
        url = program.url
        with suppress(MCPError, BaseExceptionGroup):
            async with connected({"url": url}) as client:
                await client.call_tool("crash")
        await program.restart()
        async with connected({"url": url}) as client:
            assert await structured(client, "counter") == {"count": 1}


async def test_over_stdio_it_needs_only_the_standard_library() -> None:
    check = (
        "import sys, tests.support.mcp_servers.raw; "
        "print([m for m in ('mcp', 'aiohttp', 'pydantic') if m in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", check, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(process.communicate(), BOUND_S)
    assert printed.strip() == b"[]"
