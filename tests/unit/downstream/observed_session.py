import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, Transport
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import FakeServer


def make_config(server_id: str = "notes", **fields: Any) -> ServerConfig:
    return ServerConfig(
        server_id=server_id, **{"transport": Transport.HTTP, "refresh_interval_s": 0.0, **fields}
    )


class ObservedSession:
    """A session, its metrics, and the number of reported changes."""

    def __init__(
        self, server: FakeServer, *, inherited: Snapshot | None = None, **config: Any
    ) -> None:
        self.changes = 0
        self.metrics = Metrics()
        self.config = make_config(**config)
        self.session = ReconnectingSession(
            self.config,
            server.dial,
            ServerMetrics(self.metrics, self.config.server_id),
            on_change=self._count,
            inherited=inherited,
            clock=clock,
            jitter=lambda: 0.5,
        )

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            name, {"server": self.config.server_id, **labels}
        )

    async def _count(self) -> None:
        self.changes += 1


@asynccontextmanager
async def running(
    server: FakeServer, *, ready: bool = True, inherited: Snapshot | None = None, **config: Any
) -> AsyncIterator[ObservedSession]:
    """Run a session with ``server``; if ``ready``, wait until it is ready."""
    watched = ObservedSession(server, inherited=inherited, **config)
    async with asyncio.TaskGroup() as tasks:
        owner = tasks.create_task(watched.session.run())
        if ready:
            await until(lambda: watched.session.status.state is ServerState.READY)
        yield watched
        owner.cancel()


async def until(condition: Callable[[], object], within_s: float = 600.0) -> None:
    """Poll ``condition`` on virtual time."""
    start = clock()
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - on virtual time, for any condition
            await asyncio.sleep(max(0.001, (clock() - start) / 100))


async def call(session: ReconnectingSession, *, repeatable: bool = False) -> Any:
    params = {"name": "add", "arguments": {}}
    return await session.sender.send("tools/call", params, repeatable=repeatable)
