"""The example server verifies its callers as documented."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.key_file import write_key
from tests.support.pages import blocks_of
from tests.support.printed_examples import (
    ROOT,
    calls_of,
    link_root,
    without_varying_parts,
)
from tests.support.program import Program, started

pytestmark = [pytest.mark.e2e]
PAGE = ROOT / "docs/how-to/caller-credentials.md"
ISSUER = "http://localhost:8082"


@contextmanager
def tickets_server(port: int, program: Program) -> Iterator[None]:
    command = [sys.executable, str(ROOT / "examples/caller/tickets_server.py")]
    command += ["--port", str(port), "--gateway", f"http://127.0.0.1:{program.port}"]
    with subprocess.Popen(command) as server:  # noqa: S603 - our own example
        try:
            yield
        finally:
            server.kill()
            server.wait(BOUND_S)


def test_the_example_serves_each_caller_separately(tmp_path: Path) -> None:
    link_root(tmp_path)
    write_key(tmp_path / "signing.pem")
    port = free_port()
    environment = {
        "MCP_PROXY_CONFIG_DIR": "examples/caller",
        "MCP_PROXY_SIGNING_KEY_FILE": "signing.pem",
        "MCP_PROXY_PUBLIC_URL": ISSUER,
        "TICKETS_PORT": str(port),
    }
    with started(tmp_path, environment) as program, tickets_server(port, program):
        program.wait_for_server()
        (call,) = calls_of(PAGE)
        found = program.http.post("/internal/mcp/execute", content=call.body).text
        assert without_varying_parts(found) == without_varying_parts(call.answer)
        other = call.body.replace("acme", "globex")
        found = program.http.post("/internal/mcp/execute", content=other).json()
        assert found["result"]["structured_content"] == {
            "result": ["The printer prints everything twice."]
        }


def test_the_page_shows_the_lines_of_the_example() -> None:
    program = (ROOT / "examples/caller/tickets_server.py").read_text(encoding="utf-8")
    (printed,) = (text for kind, text in blocks_of(PAGE) if kind == "python")
    assert printed.strip() in program
