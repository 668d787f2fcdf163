"""The page on isolation: its example works, and its calls return the printed answers."""

import json
from pathlib import Path

from tests.support.pages import blocks_of
from tests.support.printed_examples import ROOT, calls_of, check_answer, served_example

PAGE = ROOT / "docs/how-to/isolation.md"


def test_the_example_isolates_tenants(tmp_path: Path) -> None:
    with served_example(tmp_path, "isolation") as client:
        for call in calls_of(PAGE):
            check_answer(client, call)
        (server,) = client.get("/internal/mcp/servers").json()["servers"]
    assert server["sessions"] == {"open": 2, "busy": 0, "max": 4}
    assert json.loads((ROOT / "examples/isolation/mcp.json").read_text("utf-8")) == json.loads(
        next(text for kind, text in blocks_of(PAGE) if kind == "json")
    )
