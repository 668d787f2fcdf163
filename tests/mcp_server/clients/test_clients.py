from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.clients.client_programs import MCP1_PYTHON, by_program
from tests.mcp_server.clients.client_report import EXPECTED, Json
from tests.mcp_server.clients.gateway_program import TRANSPORTS
from tests.mcp_server.clients.mcp2_clients import by_fastmcp, by_mcp

pytestmark = [pytest.mark.e2e]

HERE = Path(__file__).parent

Client = Callable[[Mapping[str, Any]], Awaitable[Json]]
CLIENTS: dict[str, Client] = {
    "mcp 2, modern": lambda entry: by_mcp(entry, "2026-07-28"),
    "mcp 2, legacy": lambda entry: by_mcp(entry, "legacy"),
    "fastmcp 4": lambda entry: by_fastmcp(entry, Path.cwd()),
    "mcp 1": lambda entry: by_program([MCP1_PYTHON, HERE / "mcp1_client.py"], entry),
    "pydantic-ai": lambda entry: by_program([MCP1_PYTHON, HERE / "mcp1_agent.py"], entry),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_lists_and_calls(
    entries: dict[str, Json], client: str, transport: str
) -> None:
    assert await CLIENTS[client](entries[transport]) == EXPECTED
