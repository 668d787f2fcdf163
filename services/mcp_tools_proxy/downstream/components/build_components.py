"""Construction of a view's components, which callers list and call."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from mcp_tools_proxy.domain.bindings import ServerBindings
from mcp_tools_proxy.domain.components import RemoteComponents
from mcp_tools_proxy.domain.offers import Route, View
from mcp_tools_proxy.domain.server import OutputSchemaCheck
from mcp_tools_proxy.downstream.components.prompts_and_resources import (
    RemotePrompt,
    RemoteResource,
    RemoteTemplate,
)
from mcp_tools_proxy.downstream.components.remote_tool import RemoteTool
from mcp_tools_proxy.downstream.pool import Pool
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession

ComponentT = TypeVar("ComponentT")
BindableT = TypeVar("BindableT", RemoteTool, RemotePrompt)


def build_components(
    view: View,
    pool: Pool,
    *,
    max_text_bytes: int,
    output_schema_check: OutputSchemaCheck = OutputSchemaCheck.OFF,
    bindings: Mapping[str, ServerBindings] = MappingProxyType({}),
) -> RemoteComponents:
    """Build a component for each item of ``view``, bound to the current session of its server.

    Items of a removed server are left out until the next view. Calls end on the session that their
    component is bound to. ``bindings`` are keyed by server id; the view excludes items that cannot
    have theirs.
    """

    def limit_of(session: ReconnectingSession) -> int:
        return session.config.max_text_bytes or max_text_bytes

    def build_tool(route: Route, session: ReconnectingSession) -> RemoteTool:
        limit = limit_of(session)
        return RemoteTool.build(route, session, limit, output_schema_check=output_schema_check)

    def build_prompt(route: Route, session: ReconnectingSession) -> RemotePrompt:
        return RemotePrompt.build(route, session, limit_of(session))

    tools = _build_all(build_tool, view.tools.values(), pool)
    prompts = _build_all(build_prompt, _all(view.prompts), pool)
    return RemoteComponents(
        tools=tuple(_bound(tool, bindings) for tool in tools),
        prompts=tuple(_bound(prompt, bindings) for prompt in prompts),
        resources=_build_all(RemoteResource.build, _all(view.resources), pool),
        templates=_build_all(RemoteTemplate.build, _all(view.templates), pool),
    )


def _bound(item: BindableT, bindings: Mapping[str, ServerBindings]) -> BindableT:
    server_id = item.spec.server_id or ""
    return item.bound_to(bindings[server_id].bindings) if server_id in bindings else item


def _all(routes: Mapping[str, tuple[Route, ...]]) -> Iterable[Route]:
    return chain.from_iterable(routes.values())


def _build_all(
    build: Callable[[Route, ReconnectingSession], ComponentT],
    routes: Iterable[Route],
    pool: Pool,
) -> tuple[ComponentT, ...]:
    bound = ((route, pool.session(route.server_id)) for route in routes)
    return tuple(build(route, session) for route, session in bound if session is not None)
