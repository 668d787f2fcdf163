"""A raw server that blocks connections until the test releases them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from tests.support.mcp_servers.raw_script import METHOD_OF_LIST, Options, Script, Seen
from tests.support.mcp_servers.raw_tools import Fault, Json
from tests.support.mcp_servers.raw_web import RawServer


class BlockedScript(Script):
    """A script that lists nothing until it is released."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._may_list = asyncio.Event()

    def release(self) -> None:
        self._may_list.set()

    def hold(self) -> None:
        self._may_list.clear()

    async def answer(self, request: Json, seen: Seen) -> Json | Fault:
        if request["method"] in METHOD_OF_LIST:
            await self._may_list.wait()
        return await super().answer(request, seen)


class BlockedServer(RawServer):
    def __init__(self, **options: Any) -> None:
        self.held = BlockedScript(Options(**options))
        super().__init__(self.held)

    def hold(self) -> None:
        self.held.hold()

    def release(self) -> None:
        self.held.release()


@asynccontextmanager
async def running_blocked(**options: Any) -> AsyncIterator[BlockedServer]:
    """Serve over streamable HTTP in this event loop; ``options`` are those of Options."""
    with closing(BlockedServer(**options)) as server:
        await server.start()
        try:
            yield server
        finally:
            server.release()
            await server.stop()
