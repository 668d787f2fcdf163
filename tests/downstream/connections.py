"""Links to test servers, dialled as the service dials."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.connection import Connection
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.server_programs import raw_entry

SERVER_KINDS: dict[str, dict[str, Any]] = {
    "http-modern": {"transport": "http", "era": "modern"},
    "http-modern-sse": {"transport": "http", "era": "modern", "sse": True},
    "http-legacy": {"transport": "http", "era": "legacy"},
    "http-legacy-sse": {"transport": "http", "era": "legacy", "sse": True},
    "http-legacy-stateless": {"transport": "http", "era": "legacy", "stateless": True},
    "sse-modern": {"transport": "sse", "era": "modern"},
    "sse-legacy": {"transport": "sse", "era": "legacy"},
    "websocket-modern": {"transport": "ws", "era": "modern"},
    "websocket-legacy": {"transport": "ws", "era": "legacy"},
    "stdio-modern": {"transport": "stdio", "era": "modern"},
    "stdio-legacy": {"transport": "stdio", "era": "legacy"},
}
"""Every transport in both eras, as options of the raw server."""

SPOKEN = {
    "http": Transport.STREAMABLE_HTTP,
    "sse": Transport.SSE,
    "ws": Transport.WEBSOCKET,
    "stdio": Transport.STDIO,
}


@dataclass
class OpenConnection:
    """A link and its server; ``server`` is None over stdio."""

    link: Connection
    server: RawServer | None
    changes: list[None] = field(default_factory=list)
    """One item for each notification of a changed list."""

    async def call(self, tool: str, timeout_s: float = BOUND_S, /, **arguments: object) -> Any:
        params = {"name": tool, "arguments": arguments}
        return await self.link.request("tools/call", params, timeout_s=timeout_s)

    async def until_running(self, calls: int) -> None:
        """Wait until this many calls run at the server."""
        await self._until_counted("running", calls)

    async def until_cancelled(self, calls: int) -> None:
        """Wait until this many calls were cancelled at the server."""
        await self._until_counted("count", calls)

    async def counted(self, counter: str) -> int:
        """Return a count kept by the server, which may not have received the request yet."""
        result = await self.call("cancelled_count")
        return int(result["structuredContent"][counter])

    async def _until_counted(self, counter: str, calls: int) -> None:
        ends = time.monotonic() + BOUND_S
        while (count := await self.counted(counter)) < calls:
            assert time.monotonic() < ends, count


def config_of(entry: Mapping[str, Any], **more: Any) -> ServerConfig:
    given: dict[str, Any] = {"server_id": "notes", **entry, **more}
    given["transport"] = Transport(given.get("transport", "stdio"))
    given["args"] = tuple(given.get("args", ()))
    return ServerConfig(**given)


@asynccontextmanager
async def dialled(entry: Mapping[str, Any], **more: Any) -> AsyncIterator[OpenConnection]:
    changes: list[None] = []
    async with (
        Dialer() as dialer,
        dialer.dial(config_of(entry, **more), lambda: changes.append(None)) as link,
    ):
        yield OpenConnection(link, None, changes)


@asynccontextmanager
async def connection_to(kind: str, **options: Any) -> AsyncIterator[OpenConnection]:
    """Run the raw server and dial it in one of SERVER_KINDS."""
    options = SERVER_KINDS[kind] | options
    transport = options.pop("transport")
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            line = await stack.enter_async_context(dialled(raw_entry(**options)))
        else:
            server = await stack.enter_async_context(running_raw(transport, **options))
            line = await stack.enter_async_context(dialled(server.entry))
            line.server = server
        yield line


DIALING_PROGRAM = """
import asyncio, json, sys
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from tests.downstream.connections import config_of

async def main():
    async with Dialer() as dialer:
        async with dialer.dial(config_of(json.loads(sys.argv[1])), lambda: None):
            sys.stderr.write("ready\\n")
            await asyncio.sleep(300)

asyncio.run(main())
"""
