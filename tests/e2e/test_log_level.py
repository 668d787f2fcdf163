"""The log level, changed at runtime."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, Program, started
from tests.support.service import EXECUTE, request_of
from tests.support.tokens import bearer

pytestmark = pytest.mark.e2e

ADMIN = "an-admin-token-of-16"


def call(program: Program, trace_id: str) -> None:
    body = {**request_of("s1:echo"), "trace_id": trace_id}
    assert program.http.post(EXECUTE, json=body).json()["status"] == "ok"


def change(program: Program, level: str) -> None:
    answer = program.http.put(
        "/internal/mcp/log-level", json={"level": level}, headers=bearer(ADMIN)
    )
    assert answer.json() == {"level": level, "default": "info"}


def levels(program: Program, trace_id: str) -> Sequence[str]:
    """Return the level of each log line of a call after the program has ended."""
    return [line["level"] for line in program.log_lines() if line["trace_id"] == trace_id]


def test_every_line_follows_the_level_and_a_restart_resets_it(tmp_path: Path) -> None:
    Config(
        servers={"s1": raw_entry(only=["echo"])},
        presets=[make_preset("work", tools=[("s1", "echo")])],
    ).write(tmp_path / "config")
    environment = {**UNLIMITED, "MCP_PROXY_ADMIN_TOKEN": ADMIN}
    with started(tmp_path, environment) as program:
        program.wait_for_server()
        call(program, "at-first")
        change(program, "debug")
        call(program, "in-detail")
        change(program, "error")
        call(program, "silent")
        program.stop()
        first, detailed, silent = (
            levels(program, it) for it in ("at-first", "in-detail", "silent")
        )
    with started(tmp_path, environment) as program:
        program.wait_for_server()
        call(program, "afterwards")
        program.stop()
        afterwards = levels(program, "afterwards")
    assert (first, afterwards, silent) == (["info"], ["info"], [])
    assert (detailed[0], detailed.count("info")) == ("debug", 1)
