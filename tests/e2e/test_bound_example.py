"""The example of bound arguments gives what its page prints."""

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
PAGE = ROOT / "docs/how-to/bind-arguments.md"

pytestmark = [pytest.mark.e2e]


def test_the_example_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        config_dir=Path("examples/bound"), startup_wait_s=BOUND_S, rate_limit_tenant_calls=0
    )
    calls = [
        (shlex.split(command.removeprefix("$ "))[-1], json.loads(shown))
        for (kind, command), (below, shown) in pairwise(blocks_of(PAGE))
        if (kind, below) == ("console", "json") and "curl" in command
    ]
    assert len(calls) == 2
    with TestClient(create_app(settings), "http://localhost") as client:
        while client.get("/health/ready").status_code == 503:
            time.sleep(0.05)
        for body, shown in calls:
            found = client.post("/internal/mcp/execute", content=body).json()
            found.pop("budget", None)
            assert found | {"trace_id": ""} == shown | {"trace_id": ""}
