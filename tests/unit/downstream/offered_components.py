from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import Component, RemoteComponents, Result
from mcp_tools_proxy.domain.offers import Route, View
from mcp_tools_proxy.downstream.components.build_components import build_components
from mcp_tools_proxy.policy.aliases import qualified_name
from tests.support.builders import make_caller
from tests.unit.downstream.fake_server import FakeServer
from tests.unit.downstream.fake_servers import Fleet


def view_of(fleet: Fleet) -> View:
    """Return a view that contains everything that the servers offer."""
    routes: dict[str, Any] = {}
    for server_id, snapshot in fleet.pool.snapshots.items():
        for kind in ("tools", "prompts", "resources", "templates"):
            for name, descriptor in getattr(snapshot, kind).items():
                route = Route(server_id=server_id, name=name, descriptor=descriptor)
                if kind == "tools":
                    routes.setdefault(kind, {})[qualified_name(server_id, name)] = route
                else:
                    routes.setdefault(kind, {})[name] = (route,)
    return View(**routes)


@asynccontextmanager
async def offered(server: FakeServer) -> AsyncIterator[tuple[RemoteComponents, Fleet]]:
    """Run a pool with one server, ``notes``; yield its components."""
    fleet = Fleet(notes=server)
    fleet.apply(notes="1")
    async with fleet.running() as pool:
        await pool.wait_first_attempts(10)
        yield build_components(view_of(fleet), pool, max_text_bytes=1000), fleet


async def use(
    component: Component,
    *,
    kind: Kind = Kind.TOOL,
    name: str = "notes:add",
    arguments: dict[str, Any] | None = None,
    **fields: Any,
) -> Result:
    """Use a component as the executor does."""
    call = Call(
        kind=kind,
        name=name,
        arguments=arguments or {},
        caller=make_caller(),
        **{"trace_id": "trace-1", **fields},
    )
    return await component.call(component.parse(call.arguments), call)
