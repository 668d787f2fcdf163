"""Frameworks and SDKs list and call all tools of the fleet at the gateway's default address."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client

from tests.fleet.gateway import Fleet
from tests.interop.everything_server import node
from tests.mcp_server.clients.client_programs import output_of
from tests.support.local_tools import LISTED_TOOLS
from tests.support.mcp_servers.server_programs import ROOT

Json = dict[str, Any]

HERE = Path(__file__).parent
FRAMEWORKS = ROOT / ".venv-frameworks/bin/python"
CALLS: list[tuple[str, Json]] = [
    ("everything__echo", {"message": "hello"}),
    ("everything__get-structured-content", {"location": "New York"}),
    ("everything__get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
]
"""Three calls that return a plain text, structured content, and an error."""

WEATHER = {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
ALONE = {"PATH": "/usr/bin:/bin", "HOME": ".", "OPENAI_AGENTS_DISABLE_TRACING": "1"}


async def by_mcp_2(url: str) -> Json:
    async with Client(url) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        plain, structured, error = [await client.call_tool(*call) for call in CALLS]
    assert error.is_error
    return {
        "tools": sorted(names),
        "plain": text_of(plain),
        "structured": structured.structured_content,
        "error": text_of(error),
    }


def text_of(result: t.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, t.TextContent)
    return block.text


def program(*words: str | Path) -> Callable[[str], Awaitable[Json]]:
    async def see(url: str) -> Json:
        seen: Json = json.loads(await output_of([*words, url, json.dumps(CALLS)], ALONE))
        return seen

    return see


CLIENTS = {
    "Python SDK 2": by_mcp_2,
    "TypeScript SDK 1": program(node(), HERE / "typescript_client.mjs"),
    **{
        name: program(FRAMEWORKS, HERE / "framework_clients.py", name)
        for name in ("mcp_1", "langchain", "openai_agents", "llama_index", "mcpo")
    },
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_framework_lists_and_calls(fleet: Fleet, client: str) -> None:
    seen = await CLIENTS[client](fleet.url)
    tools = sorted([*LISTED_TOOLS, *(f"{server}__{tool}" for server, tool in fleet.tools)])
    assert (seen["tools"], seen["plain"], seen["structured"]) == (tools, "Echo: hello", WEATHER)
    assert "Invalid resourceId: -1" in seen["error"]
