import json
from pathlib import Path
from typing import Any

from tests.interop.conformance_suite import node22
from tests.mcp_server.clients.client_programs import output_of
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, started

PROGRAM = Path(__file__).parent / "list_check.mjs"


def of(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"data": value}}


SCHEMAS: dict[str, dict[str, Any]] = {
    "gone": {"outputSchema": of({"$ref": "#/$defs/Gone"})},
    "pattern": {"outputSchema": of({"pattern": "(?i)^a$"})},
    "draft_4": {"outputSchema": of({"id": "https://example.com/s"})},
    "any": {"inputSchema": of(True)},
    "none": {"inputSchema": of(False), "outputSchema": of({"items": of(True)})},
    "good": {"outputSchema": of({"type": "string", "pattern": "^a$"})},
}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} | it for name, it in SCHEMAS.items()]
RESOURCES = [
    {"uri": f"test://{name}", "name": name, "annotations": {"lastModified": time}}
    for name, time in {"day": "2025-01-01", "time": "2025-01-01T00:00:00Z"}.items()
]


async def test_one_broken_item_hides_no_other(tmp_path: Path) -> None:
    entry = raw_entry(extra=json.dumps({"tools": TOOLS, "resources": RESOURCES}))
    preset = make_preset(
        tools=[("s1", name) for name in SCHEMAS],
        resources=[("s1", str(it["uri"])) for it in RESOURCES],
    )
    Config(servers={"s1": entry}, presets=[preset]).write(tmp_path / "config")
    settings = {**UNLIMITED, "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1"}
    with started(tmp_path, settings) as program:
        program.wait_for_server()
        command = [node22(), str(PROGRAM), f"http://127.0.0.1:{program.port}/mcp"]
        first, second = json.loads(await output_of(command, {}))
    names, uris = map(set, first)
    listed = {name.replace("__", ":").rpartition(":")[2] for name in names}
    assert listed >= SCHEMAS.keys()
    assert uris >= {it["uri"] for it in RESOURCES}
    assert [set(second[0]), set(second[1])] == [names, uris]
