"""GET /internal/mcp/servers: the state of the downstream servers."""

from collections.abc import Callable, Iterable, Mapping

from fastapi import APIRouter, Request, Response

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import EndpointFactory
from mcp_tools_proxy.api.models import ServersAnswer
from mcp_tools_proxy.api.openapi import READ_RESPONSES, security
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

FOR_OPERATORS = frozenset({"last_error", "problem", "problems", "warnings"})
"""Keys of a server that only operators see."""


def servers_routes(
    statuses: Callable[[], Iterable[ServerStatus]],
    endpoints: EndpointFactory,
    authenticator: Authenticator,
) -> APIRouter:
    """Build the route that shows each server of mcp.json, in the order of that file."""
    router = APIRouter(route_class=DirectRoute)

    async def list_servers(request: Request, trace_id: str) -> Response:
        is_operator = await require_authentication(authenticator, request)
        shown = [_shown(status) for status in statuses()]
        if not is_operator:
            shown = [_without_details(line) for line in shown]
        return json_response({"servers": shown}, headers={TRACE_HEADER: trace_id})

    router.add_api_route(
        "/internal/mcp/servers",
        endpoints.without_body(list_servers),
        name="list_servers",
        summary="Tell how the downstream servers are",
        response_class=Response,
        responses={200: {"model": ServersAnswer}, **READ_RESPONSES},
        dependencies=security(needed=authenticator.needs_token),
    )
    return router


def _without_details(line: Mapping[str, object]) -> dict[str, object]:
    """Remove the fields that may hold paths, addresses and texts of servers."""
    return {key: value for key, value in line.items() if key not in FOR_OPERATORS}


def _shown(status: ServerStatus) -> dict[str, object]:
    connect_ms = None if status.connect_s is None else round(status.connect_s * 1000, 1)
    line = {
        "server_id": status.server_id,
        "state": status.state.value,
        "transport": status.transport and status.transport.value,
        "era": status.era,
        "last_error": status.last_error,
        "discovered_at": status.discovered_at,
        "stale": status.stale,
        "counts": status.counts,
        "connect_ms": connect_ms,
        "reconnects": status.reconnects,
        "problems": status.problems or None,
    }
    return {key: value for key, value in line.items() if value is not None}
