"""The SDK's test server offers the items of A.9, as seen by the SDK's client."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import httpx
import pytest
from mcp import Client, MCPError

from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.sdk_client import connected
from tests.support.mcp_servers.server_programs import ROOT, running_program, stdio_entry
from tests.support.mcp_servers.threaded_server import running_server

pytestmark = pytest.mark.slow

MODES = ["stdio", "http", "sse", "ws"]
SAMPLES = {
    "stdio": ("STDIO", "add_stdio", "addition", 10.0),
    "http": ("HTTP", "subtract_http", "subtraction", 6.0),
    "sse": ("SSE", "multiply_sse", "multiplication", 16.0),
    "ws": ("WebSocket", "divide_ws", "division", 4.0),
}


@asynccontextmanager
async def entry_of(mode: str, **options: Any) -> AsyncIterator[Mapping[str, Any]]:
    if mode == "stdio":
        yield stdio_entry(**options)
    else:
        async with running_server(mode, **options) as server:
            yield server.entry


async def offered_by(client: Client, mode: str) -> dict[str, object]:
    """Request all lists, and return them shortened."""
    tools = await client.list_tools()
    prompts = await client.list_prompts()
    resources = await client.list_resources()
    result = await client.call_tool(SAMPLES[mode][1], {"a": 8, "b": "2"})
    named = await client.get_prompt(f"hello_{mode}", {"name": "Ann"})
    plain = await client.get_prompt(f"hello_{mode}_plain")
    texts = [await client.read_resource(str(resource.uri)) for resource in resources.resources]
    return {
        "tools": [(tool.name, tool.input_schema) for tool in tools.tools],
        "prompts": [prompt.name for prompt in prompts.prompts],
        "resources": [(resource.uri, resource.mime_type) for resource in resources.resources],
        "result": (text_of(result.content[0]), result.structured_content, result.is_error),
        "greetings": [(m.role, text_of(m.content)) for m in (named.messages + plain.messages)],
        "texts": [text_of(read.contents[0]) for read in texts],
    }


def text_of(content: object) -> object:
    return getattr(content, "text", content)


def offer_of(mode: str) -> dict[str, object]:
    label, tool, operation, value = SAMPLES[mode]
    uri = f"test://resource/{mode}"
    structured = {"operation": operation, "result": value, "mode": mode}
    return {
        "tools": [(tool, {"type": "object"})],
        "prompts": [f"hello_{mode}", f"hello_{mode}_plain"],
        "resources": [(uri, "text/plain"), (f"{uri}/{{id}}", "text/plain")],
        "result": (f"{operation} result: {value}", structured, False),
        "greetings": [("assistant", f"Hello {mode} Ann!"), ("assistant", f"Hello {mode}!")],
        "texts": [f"{label} resource content", f"{label} template resource content"],
    }


@pytest.mark.parametrize("client_mode", ["auto", "legacy"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_server_offers_its_tool_prompts_and_resources(mode: str, client_mode: str) -> None:
    async with entry_of(mode) as entry, connected(entry, client_mode) as client:
        assert await offered_by(client, mode) == offer_of(mode)


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_reports_its_name_and_that_its_lists_do_not_change(mode: str) -> None:
    async with entry_of(mode) as entry, connected(entry, "legacy") as client:
        identity, capabilities = client.server_info, client.server_capabilities
    assert identity is not None
    assert (identity.name, identity.version) == (f"broxy-test-mcp-{mode}", "0.0.1")
    assert capabilities.model_dump(exclude_none=True) == {
        "tools": {"list_changed": False},
        "prompts": {"list_changed": False},
        "resources": {"list_changed": False, "subscribe": False},
    }


@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28")])
@pytest.mark.parametrize("mode", MODES)
async def test_a_server_of_one_era_supports_only_that_era(
    mode: str, era: str, version: str
) -> None:
    async with entry_of(mode, era=era) as entry, connected(entry) as client:
        assert (client.protocol_version, len((await client.list_tools()).tools)) == (version, 1)


@pytest.mark.parametrize("mode", MODES)
async def test_a_modern_server_refuses_initialize(mode: str) -> None:
    async with entry_of(mode, era="modern") as entry:
        with pytest.RaisesGroup(MCPError, allow_unwrapped=True, flatten_subgroups=True):
            async with connected(entry, "legacy"):
                pass


async def test_non_numeric_arguments_count_as_zero() -> None:
    async with running_server("http") as server, connected(server.entry) as client:
        result = await client.call_tool("subtract_http", {"a": "seven", "b": None})
    assert text_of(result.content[0]) == "subtraction result: 0.0"


async def test_a_greeting_is_for_a_friend_by_default() -> None:
    async with running_server("http") as server, connected(server.entry) as client:
        greeting = await client.get_prompt("hello_http")
    assert text_of(greeting.messages[0].content) == "Hello http friend!"


async def test_an_unknown_tool_prompt_or_resource_is_an_error() -> None:
    async with running_server("http") as server, connected(server.entry) as client:
        for request in (
            client.call_tool("nothing"),
            client.get_prompt("nothing"),
            client.read_resource("test://nothing"),
        ):
            with pytest.raises(MCPError):
                await request


async def test_list_pages_have_the_requested_number_of_tools() -> None:
    async with (
        running_server("http", page_size=2, tools=4) as server,
        connected(server.entry) as client,
    ):
        sizes: list[int] = []
        cursor: str | None = None
        while not sizes or cursor is not None:
            page = await client.list_tools(cursor=cursor)
            sizes.append(len(page.tools))
            cursor = page.next_cursor
    assert sizes == [2, 2, 1]


async def test_lists_may_be_slow() -> None:
    async with running_server("http", delay_s=0.2) as server, connected(server.entry) as client:
        began = asyncio.get_running_loop().time()
        await client.list_tools()
    assert asyncio.get_running_loop().time() - began >= 0.2


async def test_a_server_may_answer_in_json() -> None:
    async with running_server("http", json_response=True) as server:
        assert await content_type(server.url) == "application/json"


async def test_a_server_answers_in_event_streams_by_default() -> None:
    async with running_server("http") as server:
        assert (await content_type(server.url)).startswith("text/event-stream")


async def content_type(url: str) -> str:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(timeout=BOUND_S) as client:
        response = await client.post(url, json=body, headers=accept)
    return response.headers["content-type"]


async def test_a_message_for_an_unknown_sse_session_is_refused() -> None:
    session = "sessionId=00000000000000000000000000000000"
    async with running_server("sse") as server, httpx.AsyncClient(timeout=BOUND_S) as client:
        response = await client.post(f"{server.url}/message?{session}", json={})
    assert response.status_code == 400


@pytest.mark.parametrize("mode", ["http", "sse", "ws"])
async def test_a_restarted_server_has_the_same_address(mode: str) -> None:
    async with running_server(mode) as server:
        before = server.url
        await server.restart()
        async with connected(server.entry) as client:
            assert (server.url, len((await client.list_tools()).tools)) == (before, 1)


@pytest.mark.parametrize("mode", ["http", "sse", "ws"])
async def test_a_server_with_a_connected_client_stops_immediately(mode: str) -> None:
    async with running_server(mode) as server, aiohttp.ClientSession() as http:
        opened: Any = await (http.ws_connect if mode == "ws" else http.get)(server.url)
        await asyncio.wait_for(server.stop(), BOUND_S)
        await asyncio.wait_for(opened.close() if mode == "ws" else end_of(opened), BOUND_S)


async def end_of(response: aiohttp.ClientResponse) -> None:
    """Read the rest; an aborted connection is an end as well."""
    with suppress(aiohttp.ClientError):
        await response.read()


@pytest.mark.parametrize(("alias", "scheme"), [("http-sse", "http"), ("web-socket", "ws")])
async def test_the_program_prints_its_address(alias: str, scheme: str) -> None:
    module = "tests.support.mcp_servers"
    async with running_program(alias, module=module, path="/here") as program:
        assert (program.url, program.port > 0) == (
            f"{scheme}://127.0.0.1:{program.port}/here",
            True,
        )


async def test_an_unknown_argument_ends_the_program_with_an_error() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.mcp_servers",
        "--mood",
        "good",
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), BOUND_S)
    assert (process.returncode, b"--mood" in errors) == (2, True)
