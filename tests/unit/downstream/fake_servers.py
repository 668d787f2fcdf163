import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp_tools_proxy.domain.server import ServerConfig, ServerState
from mcp_tools_proxy.downstream.connection import (
    ConnectAttempt,
    Connection,
    OnListChanged,
    ServerOutput,
    SessionAccess,
)
from mcp_tools_proxy.downstream.pool import Pool
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import FakeServer
from tests.unit.downstream.observed_session import make_config


class Fleet:
    """The servers by id; the pool runs inside ``running``."""

    def __init__(self, **servers: FakeServer) -> None:
        self.servers = servers
        self.metrics = Metrics()
        self.changes = 0
        self.published = asyncio.Event()
        self.published.set()
        self.pool = Pool(self.dial, self.metrics, on_change=self._count, clock=clock)

    @asynccontextmanager
    async def dial(
        self,
        config: ServerConfig,
        changed: OnListChanged,
        access: SessionAccess | None = None,
        output: ServerOutput | None = None,
        attempt: ConnectAttempt | None = None,
    ) -> AsyncIterator[Connection]:
        async with self.servers[config.server_id].dial(config, changed) as link:
            yield link

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Pool]:
        async with asyncio.TaskGroup() as tasks:
            owner = tasks.create_task(self.pool.run())
            await asyncio.sleep(0)
            yield self.pool
            owner.cancel()

    def apply(self, **entries: str) -> None:
        """Configure the named servers, each with a URL."""
        self.pool.apply({s: make_config(s, url=url) for s, url in entries.items()})

    def state(self, server_id: str) -> ServerState:
        return next(s.state for s in self.pool.statuses if s.server_id == server_id)

    async def _count(self) -> None:
        self.changes += 1
        await self.published.wait()
