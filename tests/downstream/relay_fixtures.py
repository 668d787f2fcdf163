"""A server's components, used like in the executor, by clients for notifications and requests."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client
from mcp_tools_proxy.domain.components import Component, RemoteComponents, Resource, Result
from mcp_tools_proxy.domain.offers import Route, View
from mcp_tools_proxy.downstream.components.build_components import build_components
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from mcp_tools_proxy.downstream.pool import Pool
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.downstream.connections import SERVER_KINDS, config_of
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_caller
from tests.support.mcp_servers.raw_script import Script
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.server_programs import raw_entry

MODERN = [kind for kind in SERVER_KINDS if "modern" in kind]
LEGACY = [kind for kind in SERVER_KINDS if "legacy" in kind]
_ONE_PIECE = ("http-modern", "http-legacy", "http-legacy-stateless")
STREAMING = [kind for kind in SERVER_KINDS if kind not in _ONE_PIECE]
"""Transports over which a server can send notifications before its answer."""

PUSHING = [kind for kind in STREAMING if "legacy" in kind]
"""Transports over which a server can send requests before its answer."""

DUPLEX = [kind for kind in STREAMING if not kind.startswith("http")]
"""Transports on which all calls share one stream."""


@dataclass(frozen=True, slots=True)
class Relay:
    """A server in service; ``server`` is None over stdio."""

    pool: Pool
    components: RemoteComponents
    server: RawServer | None

    @property
    def script(self) -> Script:
        """The server's state; unavailable over stdio."""
        assert self.server is not None
        return self.server.script

    @property
    def call_timeout_s(self) -> float:
        session = self.pool.session("notes")
        assert session is not None
        return session.config.call_timeout_s

    async def result(
        self,
        tool: str,
        client: Client = NULL_CLIENT,
        /,
        *,
        tenant_id: str = "tenant_1",
        **more: Any,
    ) -> Result:
        """Call a tool; ``arguments``, ``meta`` and ``input_responses`` are the call's."""
        found = next(c for c in self.components.tools if c.spec.bare_name == tool)
        return await used(found, client, tenant_id=tenant_id, **more)

    async def structured(self, tool: str, client: Client = NULL_CLIENT, /, **arguments: Any) -> Any:
        result = await self.result(tool, client, arguments=arguments)
        return result.value.get("structured_content")

    def resource(self, uri: str = "raw://text") -> Resource:
        listed = [r for r in self.components.resources if r.spec.name == uri]
        found = listed[0] if listed else self.components.templates[0].at(uri)
        assert found is not None
        return found

    async def rebuilt(self) -> Self:
        """Return the same server with the components of its present session."""
        assert await self.pool.wait_first_attempts(BOUND_S)
        return replace(self, components=_components(self.pool))

    @asynccontextmanager
    async def in_a_call(self, client: Client) -> AsyncIterator[None]:
        """Keep a call of ``client`` running at the server until the end of the block."""
        call = asyncio.ensure_future(self.result("hang", client))
        await self.structured("whoami")  # over a stream it arrives after the call
        if self.server is not None:
            script = self.server.script
            await until(lambda: script.running_count == 1, "the call runs")
        try:
            yield
        finally:
            call.cancel()
            await asyncio.wait([call])

    async def answers(self, client: Client, /, **arguments: Any) -> list[dict[str, Any]]:
        """Call the tool that sends requests to its client, and return the answers."""
        structured = await self.structured("request_client", client, **arguments)
        return cast("list[dict[str, Any]]", structured["answers"])


async def used(
    component: Component,
    client: Client = NULL_CLIENT,
    *,
    tenant_id: str = "tenant_1",
    user_id: str = "user_1",
    arguments: Mapping[str, object] | None = None,
    kind: Kind = Kind.TOOL,
    roles: tuple[str, ...] = (),
    documents: frozenset[str] | None = None,
    **more: Any,
) -> Result:
    """Use a component as the executor does."""
    call = Call(
        kind=kind,
        name=component.spec.name,
        arguments=arguments or {},
        caller=replace(
            make_caller(tenant_id=tenant_id), user_id=user_id, roles=roles, documents=documents
        ),
        trace_id="trace-1",
        client=client,
        **more,
    )
    async with asyncio.timeout(BOUND_S):
        return await component.call(component.parse(call.arguments), call)


@asynccontextmanager
async def relaying(
    kind: str, *, config: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[Relay]:
    """Run the raw server in one of SERVER_KINDS, and a pool connected to it."""
    options = SERVER_KINDS[kind] | options
    transport = options.pop("transport")
    async with AsyncExitStack() as stack:
        server, entry = None, raw_entry(**options) if transport == "stdio" else None
        if entry is None:
            server = await stack.enter_async_context(running_raw(transport, **options))
            entry = server.entry
        dialer = await stack.enter_async_context(Dialer())
        pool = Pool(dialer.dial, Metrics(), on_change=_nothing)
        pool.apply({"notes": config_of(entry, **(config or {}))})
        async with asyncio.TaskGroup() as tasks:
            owner = tasks.create_task(pool.run())
            assert await pool.wait_first_attempts(BOUND_S)
            yield Relay(pool, _components(pool), server)
            owner.cancel()


def _components(pool: Pool) -> RemoteComponents:
    return build_components(_all(pool), pool, max_text_bytes=1_000_000)


async def _nothing() -> None:
    """Ignore a change of the server's lists."""


def _all(pool: Pool) -> View:
    (snapshot,) = pool.snapshots.values()

    def routes(items: Mapping[str, Any]) -> dict[str, tuple[Route, ...]]:
        return {n: (Route(server_id="notes", name=n, descriptor=d),) for n, d in items.items()}

    return View(
        tools={qualified_name("notes", n): r for n, (r,) in routes(snapshot.tools).items()},
        prompts=routes(snapshot.prompts),
        resources=routes(snapshot.resources),
        templates=routes(snapshot.templates),
    )
