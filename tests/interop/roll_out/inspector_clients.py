"""Connections held by the Inspector's daemon, used through its command line ``mcpdo``."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.interop.conformance_suite import MODULES, node22
from tests.mcp_server.clients.client_programs import output_of
from tests.support.configuration import write_json

MCPDO = MODULES / "@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js"


class InspectorConnections:
    """Named connections of the older era; each command uses the next one in turn."""

    def __init__(self, names: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.names = names
        self.calls = 0
        self.wrong: list[str] = []
        self._catalog = folder / "clients.json"
        self._environment = environment
        self._stopped = False

    async def run(self, *words: str) -> str:
        command = [node22(), MCPDO, "--format", "json", "--config", self._catalog, *words]
        return (await output_of([str(word) for word in command], self._environment)).decode()

    async def open(self) -> None:
        for name in self.names:
            await self.run("connect", name, "--era", "legacy")

    async def call_until_stopped(self) -> None:
        """Call over one connection after the other."""
        while not self._stopped:
            for name in self.names:
                text = f"{name} {self.calls}"
                answer = await self.run(f"@{name}", "tools/call", "s1:echo", f"text:={text}")
                self.calls += 1
                if text not in answer:
                    self.wrong.append(answer)
            await asyncio.sleep(0)

    def stop(self) -> None:
        """End ``call_until_stopped`` after its round."""
        self._stopped = True


@asynccontextmanager
async def inspector(url: str, number: int) -> AsyncIterator[InspectorConnections]:
    """Run a separate daemon for this many connections, in a folder used only by it."""
    with tempfile.TemporaryDirectory(prefix="mcpdo-") as made:
        folder = Path(made)  # a short name: it holds a UNIX socket
        names = [f"inspector-{index}" for index in range(number)]
        entry = {"type": "streamable-http", "url": url}
        write_json(folder / "clients.json", {"mcpServers": dict.fromkeys(names, entry)})
        environment = {
            "PATH": os.defpath,
            "HOME": made,
            "MCP_INSPECTOR_SECRET_STORE": "memory",
            "MCP_INSPECTOR_DAEMON_DIR": f"{made}/daemon",
            "MCP_INSPECTOR_DAEMON_TOKEN": "of this test",
        }
        connections = InspectorConnections(names, folder, environment)
        try:
            await connections.open()
            yield connections
        finally:
            await connections.run("daemon", "stop")
