"""Clients based on ``mcp`` 2: the SDK's and fastmcp's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastmcp import Client as FastMcpClient
from fastmcp.client.transports import (
    ClientTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
)

from tests.mcp_server.clients.client_report import ECHO, SECTION, Json, report
from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.sdk_client import connected


async def by_mcp(entry: Mapping[str, Any], mode: str) -> Json:
    """Use the gateway through the SDK's client: ``auto`` or ``legacy``."""
    async with connected(entry, mode) as client:
        tools = (await client.list_tools()).tools
        section = await client.call_tool(*SECTION)
        echo = await client.call_tool(*ECHO)
    assert isinstance(section.structured_content, dict)
    assert isinstance(echo.structured_content, dict)
    names = [tool.name for tool in tools]
    return report(names, section.structured_content, echo.structured_content)


async def by_fastmcp(entry: Mapping[str, Any], folder: Path) -> Json:
    """Use the gateway through fastmcp's client; a program's output goes to ``folder``."""
    transport = transport_of(entry, folder)
    async with FastMcpClient(transport, timeout=BOUND_S) as client:
        tools = await client.list_tools()
        section = await client.call_tool(*SECTION)
        echo = await client.call_tool(*ECHO)
    names = [tool.name for tool in tools]
    return report(names, section.structured_content or {}, echo.structured_content or {})


def transport_of(entry: Mapping[str, Any], folder: Path) -> ClientTransport:
    match entry:
        case {"command": command, "args": args, "env": env, "cwd": cwd}:
            return StdioTransport(
                command, args, env, cwd, keep_alive=False, log_file=folder / "stderr.log"
            )
        case {"transport": "sse", "url": url}:
            return SSETransport(url)
    return StreamableHttpTransport(entry["url"])
