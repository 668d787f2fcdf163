import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conformance_suite import node22
from tests.interop.inspector import ALONE, INSPECTOR
from tests.mcp_server.clients.client_programs import by_program, output_of
from tests.mcp_server.clients.client_report import ECHO, EXPECTED, SECTION, Json, report
from tests.mcp_server.clients.gateway_program import TRANSPORTS
from tests.support.configuration import write_json

HERE = Path(__file__).parent

Client = Callable[[Mapping[str, Any]], Awaitable[Json]]


async def by_inspector(entry: Mapping[str, Any]) -> Json:
    """Use the gateway through the Inspector's command line, configured by a file as usual."""
    file = Path("clients.json")
    known = {"gateway": {"type": entry.get("transport", "stdio"), **entry}}
    write_json(file, {"mcpServers": known})

    async def request(method: str, *words: str) -> Json:
        named = ["--config", str(file), "--server", "gateway"]
        command = [node22(), str(INSPECTOR), "--cli", *named, "--method", method, *words]
        answer: Json = json.loads(await output_of(command, ALONE))
        return answer

    async def call(name: str, arguments: Mapping[str, str]) -> Json:
        given = [f"{key}={value}" for key, value in arguments.items()]
        answer = await request("tools/call", "--tool-name", name, "--tool-arg", *given)
        structured: Json = answer["structuredContent"]
        return structured

    names = [tool["name"] for tool in (await request("tools/list"))["tools"]]
    return report(names, await call(*SECTION), await call(*ECHO))


CLIENTS: dict[str, Client] = {
    "typescript 1": lambda entry: by_program([node22(), HERE / "client_v1.mjs"], entry),
    "typescript 2": lambda entry: by_program([node22(), HERE / "client_v2.mjs"], entry),
    "inspector": by_inspector,
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_lists_and_calls(
    entries: dict[str, Json], client: str, transport: str
) -> None:
    assert await CLIENTS[client](entries[transport]) == EXPECTED
