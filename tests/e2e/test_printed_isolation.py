"""The page on isolation: its example separates tenants."""

import json
from pathlib import Path

from fastapi.testclient import TestClient

from tests.support.pages import blocks_of
from tests.support.printed_examples import ROOT, served_example

PAGE = ROOT / "docs/how-to/isolation.md"


def call(client: TestClient, tenant_id: str, tool: str, arguments: dict[str, str]) -> object:
    """Call a tool of the server, and return its structured content."""
    user = {"user_id": "ann", "tenant_id": tenant_id}
    body = {"tool_name": f"notes:{tool}", "arguments": arguments, "user": user}
    return client.post("/internal/mcp/execute", json=body).json()["result"]["structured_content"]


def test_the_example_isolates_tenants(tmp_path: Path) -> None:
    with served_example(tmp_path, "isolation") as client:
        note = {"title": "door", "text": "The code of the door is 4711."}
        call(client, "acme", "add_note", note)
        found = [call(client, it, "search_notes", {"query": "door"}) for it in ("acme", "globex")]
        (server,) = client.get("/internal/mcp/servers").json()["servers"]
    assert found == [{"door": note["text"]}, {}]
    assert server["sessions"] == {"open": 2, "busy": 0, "max": 4}
    assert json.loads((ROOT / "examples/isolation/mcp.json").read_text("utf-8")) == json.loads(
        next(text for kind, text in blocks_of(PAGE) if kind == "json")
    )
