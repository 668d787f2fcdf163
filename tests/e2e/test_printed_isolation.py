"""The page on isolation: its example runs, and its calls have the answers that are printed."""

import json
import shlex
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S
from tests.support.pages import blocks_of

ROOT = Path(__file__).parents[2]


def test_the_example_keeps_tenants_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in (("examples", ROOT / "examples"), (".venv", Path(sys.prefix))):
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    settings = Settings(config_dir=Path("examples/isolation"), startup_wait_s=BOUND_S)
    calls = [
        (shlex.split(text.removeprefix("$ "))[-1], json.loads(below))
        for (kind, text), (kind_below, below) in pairwise(
            blocks_of(ROOT / "docs/how-to/isolation.md")
        )
        if (kind, kind_below) == ("console", "json") and "curl" in text
    ]
    with TestClient(create_app(settings), "http://localhost") as client:
        while client.get("/health/ready").status_code == 503:
            time.sleep(0.05)
        for body, answer in calls:
            found = client.post("/internal/mcp/execute", content=body).json()
            found.pop("budget", None)
            assert found | {"trace_id": ""} == answer | {"trace_id": ""}
        (server,) = client.get("/internal/mcp/servers").json()["servers"]
    assert server["sessions"] == {"open": 2, "busy": 0, "max": 4}
    assert json.loads((ROOT / "examples/isolation/mcp.json").read_text("utf-8")) == json.loads(
        next(text for kind, text in blocks_of(ROOT / "docs/how-to/isolation.md") if kind == "json")
    )
