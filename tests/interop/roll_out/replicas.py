"""The gateways that are replaced."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from tests.interop.roll_out.balancer import Balancer
from tests.support.configuration import Config, make_preset, write_json
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, Program, started
from tests.support.service import eventually


class Replicas:
    """Gateways behind a balancer, with one configuration folder and one key."""

    def __init__(self, folder: Path, balancer: Balancer, stack: AsyncExitStack) -> None:
        self._config = folder / "config"
        self._balancer = balancer
        self._folder = folder
        self._stack = stack
        self._started = 0
        Config(servers={"s1": raw_entry()}).write(self._config)

    async def start(self) -> Program:
        """Start a replica and add it to the balancer once its server is ready."""
        folder = self._folder / str(self._started)
        folder.mkdir()
        self._started += 1
        settings = {
            **UNLIMITED,
            "MCP_PROXY_CONFIG_DIR": str(self._config),
            "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1",
            "MCP_PROXY_SESSION_KEYS": "k" * 32,
        }
        entering = self._stack.enter_context
        program = await asyncio.to_thread(entering, started(folder, settings))
        await asyncio.to_thread(program.wait_for_server)
        self._balancer.put_in(url_of(program))
        return program

    async def stop(self, program: Program) -> int:
        """Stop a replica after it has answered all its requests, and return its exit code.

        Stopping sooner would refuse requests just sent to it, see SHUTTING_DOWN.
        """
        url = url_of(program)
        self._balancer.take_out(url)

        async def is_drained() -> bool:
            return not self._balancer.pending[url]

        await eventually(is_drained)
        return await asyncio.to_thread(program.stop)

    def show(self, *tools: str) -> None:
        """Change the preset to these tools; each replica applies it automatically."""
        preset = make_preset(tools=[("s1", tool) for tool in tools])
        write_json(self._config / "preset_work.json", preset)


def url_of(program: Program) -> str:
    return f"http://127.0.0.1:{program.port}"
