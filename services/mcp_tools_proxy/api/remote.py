"""GET /internal/mcp/remote: the state of the connection to the remote backend."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import EndpointFactory
from mcp_tools_proxy.api.models import RemoteAnswer
from mcp_tools_proxy.api.openapi import READ_RESPONSES, security
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.backend_link import RemoteStatus
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


def remote_routes(
    status: Callable[[], RemoteStatus | None],
    endpoints: EndpointFactory,
    authenticator: Authenticator,
) -> APIRouter:
    """Build the route that shows the connector; ``status`` returns None if there is none."""
    router = APIRouter(route_class=DirectRoute)

    async def show_remote(request: Request, trace_id: str) -> Response:
        await require_authentication(authenticator, request)
        return json_response(_shown(status()), headers={TRACE_HEADER: trace_id})

    router.add_api_route(
        "/internal/mcp/remote",
        endpoints.without_body(show_remote),
        name="show_remote",
        summary="Tell how the connection to the remote backend is",
        response_class=Response,
        responses={200: {"model": RemoteAnswer}, **READ_RESPONSES},
        dependencies=security(needed=authenticator.needs_token),
    )
    return router


def _shown(status: RemoteStatus | None) -> dict[str, object]:
    if status is None:
        return {"state": "off"}
    next_attempt_s = None if status.next_attempt_s is None else round(status.next_attempt_s, 3)
    shown = {
        "state": status.state.value,
        "since": status.since,
        "server_identifier": status.server_identifier,
        "backend": status.backend,
        "last_error": status.last_error,
        "attempts": status.attempts,
        "next_attempt_s": next_attempt_s,
        "links": status.links,
        "sessions": status.sessions,
        "open_requests": status.open_requests,
        "waiting_bytes": status.waiting_bytes,
    }
    return {key: value for key, value in shown.items() if value is not None}
