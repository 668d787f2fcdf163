"""GET /internal/mcp/tools: what a caller may run."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from mcp_tools_proxy.api.describe import Responses
from mcp_tools_proxy.api.envelope import error_response, json_response
from mcp_tools_proxy.api.models import ErrorEnvelope, ToolsAnswer
from mcp_tools_proxy.api.trace import TRACE_HEADER, trace_id_from
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.registry import RegistryHolder
from mcp_tools_proxy.policy.identifiers import Identifier

_RESPONSES: Responses = {
    200: {"model": ToolsAnswer | ErrorEnvelope},
    500: {"model": ErrorEnvelope, "description": "INTERNAL_ERROR"},
    422: {"model": ErrorEnvelope, "description": "INVALID_REQUEST: names the field"},
}


def catalog_routes(registry: RegistryHolder) -> APIRouter:
    """Build the routes that list what may be run."""
    router = APIRouter()

    @router.get(
        "/internal/mcp/tools",
        summary="List the tools that this caller may run",
        response_class=Response,
        responses=_RESPONSES,
    )
    async def list_tools(
        request: Request,
        tenant_id: Annotated[Identifier | None, Query()] = None,
        user_id: Annotated[Identifier | None, Query()] = None,
        agent: Annotated[Identifier | None, Query()] = None,
        format: Annotated[Literal["mcp"], Query()] = "mcp",
    ) -> Response:
        trace_id = trace_id_from(None, request.headers)
        caller = Caller(tenant_id=tenant_id or "", user_id=user_id or "", agent=agent)
        try:
            specs = registry.visible_to(caller)
        except ProxyError as error:
            return error_response(error, trace_id)
        return json_response(
            {"tools": [spec.as_mcp for spec in specs], "format": format},
            headers={TRACE_HEADER: trace_id},
        )

    return router
