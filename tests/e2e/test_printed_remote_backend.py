"""The tutorial on a remote backend prints the actual output."""

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.pages import blocks_of
from tests.support.printed_examples import ROOT, link_root, without_varying_parts
from tests.support.program import Program, started

pytestmark = [pytest.mark.e2e]
BLOCKS = blocks_of(ROOT / "docs/tutorials/remote-backend.md")
COMMANDS = next(text for kind, text in BLOCKS if kind == "text")
FIRST_CALL, REMOTE = (text.strip() for kind, text in BLOCKS if kind == "json")
START = next(text for kind, text in BLOCKS if "Listening" in text)


def lines_until(stderr: IO[str], wanted: str) -> str:
    lines = []
    for line in stderr:
        lines.append(line)
        if wanted in line:
            break
    return "".join(lines)


def run_session(program: Program, port: int) -> tuple[str, str, str]:
    """Return the startup lines, the connection's answer, and the answers to commands."""
    command = [sys.executable, "-m", "tests.support.remote_backend", "--port", str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 - our own program
        command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as backend:
        assert backend.stdin is not None
        assert backend.stderr is not None
        try:
            start = lines_until(backend.stderr, "Type help")
            lines_until(backend.stderr, "connected: ")
            backend.stdin.write(COMMANDS)
            backend.stdin.flush()
            lines_until(backend.stderr, "disconnected: ")
            lines_until(backend.stderr, "connected: ")
            remote = program.http.get("/internal/mcp/remote").text
            answers, _ = backend.communicate("quit\n", timeout=BOUND_S)
        finally:
            backend.kill()
    return start, remote, answers


def test_the_session_prints_the_documented_output(tmp_path: Path) -> None:
    link_root(tmp_path)
    port = free_port()
    environment = {
        "MCP_PROXY_CONFIG_DIR": "examples/config",
        "MCP_PROXY_REMOTE_URL": f"ws://127.0.0.1:{port}/ws/{{server_identifier}}",
        "MCP_PROXY_REMOTE_TOKEN": "demo",
        "MCP_PROXY_REMOTE_TENANT_ID": "tenant_1",
    }
    with started(tmp_path, environment) as program:
        program.wait_for_server()
        start, remote, answers = run_session(program, port)
    assert without_varying_parts(start) == without_varying_parts(START.partition("\n")[2])
    assert without_varying_parts(FIRST_CALL) in without_varying_parts(answers)
    assert without_varying_parts(remote) == without_varying_parts(REMOTE)
