"""The gateway for tests of clients: a process with documents and one server behind it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mcp_server.clients.client_report import Json
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, started

SETTINGS = {**UNLIMITED, "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1"}
PATIENT = {"MCP_PROXY_STARTUP_WAIT_S": str(BOUND_S)}
"""After 5 s a busy machine had not started the server, and clients list only once."""

STDIO = ["-m", "mcp_tools_proxy.cli.main", "stdio", "--tenant", "tenant_1", "--user", "user_1"]
TRANSPORTS = ["http", "sse", "stdio"]


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, Json]]:
    """Run the gateway and yield its entry for a client's configuration by transport.

    Over stdio each client starts a separate gateway on the same configuration folder.
    """
    preset = make_preset(tools=[("s1", "echo")])
    Config(servers={"s1": raw_entry(only=["echo"])}, presets=[preset]).write(folder / "config")
    with started(folder, SETTINGS) as program:
        program.wait_for_server()
        base = f"http://127.0.0.1:{program.port}/mcp"
        yield {
            "http": {"transport": "streamable-http", "url": base},
            "sse": {"transport": "sse", "url": f"{base}/sse"},
            "stdio": {
                "command": sys.executable,
                "args": STDIO,
                "env": UNLIMITED | PATIENT,
                "cwd": str(folder),
            },
        }


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    """Run one gateway for a module's clients; the folders' conftest files import this."""
    with serving(tmp_path_factory.mktemp("gateway")) as found:
        yield found
