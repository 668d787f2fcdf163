from pathlib import Path
from typing import Any

import mcp_types as t
import pytest

from tests.interop.everything_server import stdio_entry
from tests.mcp_server.clients.client_programs import MCP1_PYTHON
from tests.support.configuration import Config, make_preset
from tests.support.mcp_endpoint import Served, serving

Json = dict[str, Any]
FOLDER = "file:///projects/one"
SERVER = Path(__file__).with_name("mcp1_server.py")
PYTHON_1 = {"command": str(MCP1_PYTHON), "args": [str(SERVER)]}


def configured(entry: Json, *tools: str) -> Config:
    return Config(servers={"s": entry}, presets=[make_preset(tools=[("s", it) for it in tools])])


async def text_of(served: Served, tool: str, mode: str, *folders: str) -> str:
    async def list_roots(_: object) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=it) for it in folders])

    callback: Any = {"list_roots_callback": list_roots} if folders else {}
    async with served.client(mode=mode, **callback) as client:
        (block,) = (await client.call_tool(f"s:{tool}", {})).content
    assert isinstance(block, t.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_typescript_server_lists_the_roots_of_the_calls_client(
    entry: Json, mode: str
) -> None:
    async with serving(config=configured(entry, "get-roots-list")) as served:
        assert f"URI: {FOLDER}" in await text_of(served, "get-roots-list", mode, FOLDER)


async def test_a_client_without_roots_does_not_affect_the_server() -> None:
    async with serving(config=configured(stdio_entry(), "get-roots-list")) as served:
        assert "no roots are currently" in await text_of(served, "get-roots-list", "legacy")
        assert f"URI: {FOLDER}" in await text_of(served, "get-roots-list", "legacy", FOLDER)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_of_python_sdk_1_lists_the_roots_of_each_client(mode: str) -> None:
    async with serving(config=configured(PYTHON_1, "roots", "declared")) as served:
        assert await text_of(served, "declared", mode) == "true"
        assert await text_of(served, "roots", mode, FOLDER, f"{FOLDER}/b") == f"{FOLDER} {FOLDER}/b"
        assert await text_of(served, "roots", mode, "file:///other") == "file:///other"
