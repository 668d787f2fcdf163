"""The conformance suite's expected server, and the gateway in front of it, as processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.conformance.server import TOOLS
from tests.support.mcp_servers.server_programs import ROOT
from tests.support.program import UNLIMITED, Program, started

ID = "fixture"


@contextmanager
def running_fixture() -> Iterator[str]:
    """Run the fixture on a free port and yield its URL."""
    command = [sys.executable, "-m", "tests.support.mcp_servers.conformance", "--mode", "http"]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "the fixture did not start"
        try:
            yield url
        finally:
            process.terminate()
            process.wait(BOUND_S)


@contextmanager
def running_gateway(folder: Path, entry: Json) -> Iterator[Program]:
    """Run the gateway with the fixture behind it, under the fixture's names."""
    preset = make_preset(tools=[(ID, name) for name in TOOLS])
    Config(servers={ID: entry}, presets=[preset]).write(folder / "config")
    settings = {
        **UNLIMITED,
        "MCP_PROXY_TOOL_NAME_STYLE": "bare",
        "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1",
    }
    with started(folder, settings) as program:
        program.wait_for_server()
        yield program
