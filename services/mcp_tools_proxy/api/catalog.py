"""The GET routes that list what a caller may use: tools, prompts, resources."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from mcp_tools_proxy.api.describe import ERROR_RESPONSES, Responses
from mcp_tools_proxy.api.envelope import error_response, json_response
from mcp_tools_proxy.api.models import ErrorEnvelope, PromptsAnswer, ResourcesAnswer, ToolsAnswer
from mcp_tools_proxy.api.trace import TRACE_HEADER, trace_id_from
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.registry import RegistryHolder
from mcp_tools_proxy.policy.identifiers import Identifier


def _caller(
    tenant_id: Annotated[Identifier | None, Query()] = None,
    user_id: Annotated[Identifier | None, Query()] = None,
    agent: Annotated[Identifier | None, Query()] = None,
) -> Caller:
    """Give the caller that a query names."""
    return Caller(tenant_id=tenant_id or "", user_id=user_id or "", agent=agent)


CallerQuery = Annotated[Caller, Depends(_caller)]


def catalog_routes(registry: RegistryHolder) -> APIRouter:
    """Build the routes that list what may be used, as MCP lists it."""
    router = APIRouter()

    @router.get(
        "/internal/mcp/tools",
        summary="List the tools that this caller may run",
        response_class=Response,
        responses=_responses(ToolsAnswer),
    )
    async def list_tools(
        request: Request, caller: CallerQuery, format: Annotated[Literal["mcp"], Query()] = "mcp"
    ) -> Response:
        current = registry.current
        return _answer(
            request,
            lambda: {
                "tools": [spec.as_mcp for spec in current.visible_to(caller)],
                "format": format,
            },
        )

    @router.get(
        "/internal/mcp/prompts",
        summary="List the prompts that this caller may get",
        response_class=Response,
        responses=_responses(PromptsAnswer),
    )
    async def list_prompts(request: Request, caller: CallerQuery) -> Response:
        current = registry.current
        return _answer(request, lambda: {"prompts": current.prompts_visible_to(caller)})

    @router.get(
        "/internal/mcp/resources",
        summary="List the resources that this caller may read",
        response_class=Response,
        responses=_responses(ResourcesAnswer),
    )
    async def list_resources(request: Request, caller: CallerQuery) -> Response:
        current = registry.current
        return _answer(
            request,
            lambda: {
                "resources": current.resources_visible_to(caller),
                "resource_templates": current.templates_visible_to(caller),
            },
        )

    return router


def _answer(request: Request, content: Callable[[], Mapping[str, object]]) -> Response:
    """Answer with what ``content`` gives, or with the ProxyError that it raises."""
    trace_id = trace_id_from(None, request.headers)
    try:
        return json_response(content(), headers={TRACE_HEADER: trace_id})
    except ProxyError as error:
        return error_response(error, trace_id)


def _responses(model: type[BaseModel]) -> Responses:
    return {
        200: {"model": model | ErrorEnvelope},
        **{status: ERROR_RESPONSES[status] for status in (422, 500)},
    }
