"""The GET routes that list what a caller may use: tools, prompts, resources."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams

from mcp_tools_proxy.api.describe import ERROR_RESPONSES, Responses, query_parameters
from mcp_tools_proxy.api.direct import DirectRoute
from mcp_tools_proxy.api.envelope import JSON, error_response
from mcp_tools_proxy.api.models import (
    CallerQuery,
    ErrorEnvelope,
    PromptsAnswer,
    ResourcesAnswer,
    ToolsAnswer,
    ToolsQuery,
)
from mcp_tools_proxy.api.requests import validate
from mcp_tools_proxy.domain.caller import SOME_TENANT, Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.gateway.registry import RegistryHolder
from mcp_tools_proxy.gateway.tool_lists import etag_of
from mcp_tools_proxy.web.trace import TRACE_HEADER, trace_id_from

_GIVEN_ONCE = (*CallerQuery.model_fields, "format")
_ENTITY_TAG = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class Listed:
    """A list: its entity tag, and what gives its JSON."""

    etag: str
    body: Callable[[], bytes]


class CatalogEndpoints:
    """The endpoints that list what may be used; a list that a client has already is not sent."""

    def __init__(self, registry: RegistryHolder) -> None:
        self._registry = registry

    def routes(self) -> Sequence[DirectRoute]:
        """Describe and route the endpoints."""
        return (
            DirectRoute(
                "/internal/mcp/tools",
                _endpoint(self._list_tools),
                name="list_tools",
                methods=["GET"],
                summary="List the tools that this caller may run",
                description=(
                    "As MCP lists them, or as a model API takes them; there each goes by its "
                    "alias. The same tools give the same bytes."
                ),
                response_class=Response,
                responses=_responses(ToolsAnswer),
                openapi_extra=query_parameters(ToolsQuery, _IF_NONE_MATCH),
            ),
            DirectRoute(
                "/internal/mcp/prompts",
                _endpoint(self._list_prompts),
                name="list_prompts",
                methods=["GET"],
                summary="List the prompts that this caller may get",
                response_class=Response,
                responses=_responses(PromptsAnswer),
                openapi_extra=query_parameters(CallerQuery, _IF_NONE_MATCH),
            ),
            DirectRoute(
                "/internal/mcp/resources",
                _endpoint(self._list_resources),
                name="list_resources",
                methods=["GET"],
                summary="List the resources that this caller may read",
                response_class=Response,
                responses=_responses(ResourcesAnswer),
                openapi_extra=query_parameters(CallerQuery, _IF_NONE_MATCH),
            ),
        )

    async def _list_tools(self, query: QueryParams) -> Listed:
        names = query.getlist("names") if "names" in query else None
        asked = validate(ToolsQuery, _once_each(query) | {"names": names})
        tools = await self._registry.list_tools(_caller(asked), asked.format, asked.names)
        return Listed(tools.etag, lambda: tools.body)

    async def _list_prompts(self, query: QueryParams) -> Listed:
        caller = _caller(validate(CallerQuery, _once_each(query)))
        return _listed({"prompts": self._registry.current.prompts_visible_to(caller)})

    async def _list_resources(self, query: QueryParams) -> Listed:
        caller = _caller(validate(CallerQuery, _once_each(query)))
        current = self._registry.current
        return _listed(
            {
                "resources": current.resources_visible_to(caller),
                "resource_templates": current.templates_visible_to(caller),
            }
        )


def _endpoint(
    listed: Callable[[QueryParams], Awaitable[Listed]],
) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint that answers with what ``listed`` gives, or the ProxyError it raises."""

    async def endpoint(request: Request) -> Response:
        trace_id = trace_id_from(None, request.headers)
        try:
            found = await listed(request.query_params)
        except ProxyError as error:
            return error_response(error, trace_id)
        headers = {
            TRACE_HEADER: trace_id,
            "ETag": found.etag,
            "Cache-Control": "private, no-cache",
        }
        if _has_already(request.headers, found.etag):
            return Response(None, 304, headers)
        return Response(found.body(), 200, headers, JSON)

    return endpoint


def _once_each(query: QueryParams) -> dict[str, object]:
    """Give the parameters. One that counts once must not be there twice: whoever looked at the
    request before may have believed the other."""
    for key in _GIVEN_ONCE:
        if len(query.getlist(key)) > 1:
            raise InvalidRequest(f"{key}: is given twice; keep one", details={"field": key})
    return dict(query)


def _has_already(headers: Headers, etag: str) -> bool:
    """Tell whether ``If-None-Match`` names the tag, weak or strong (RFC 9110 §13.1.2)."""
    if "if-none-match" not in headers:
        return False
    told = ",".join(headers.getlist("if-none-match"))
    return told.strip() == "*" or etag in _ENTITY_TAG.findall(told)


def _listed(content: Mapping[str, object]) -> Listed:
    body = to_json(content)
    return Listed(etag_of(body), lambda: body)


def _caller(query: CallerQuery) -> Caller:
    return Caller(
        tenant_id=query.tenant_id or SOME_TENANT, user_id=query.user_id or "", agent=query.agent
    )


_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "Entity tags of lists that the client has, or `*`.",
}

_ETAG = {
    "ETag": {"schema": {"type": "string"}, "description": "Changes when the list does."},
}


def _responses(model: type[BaseModel]) -> Responses:
    return {
        200: {"model": model | ErrorEnvelope, "headers": _ETAG},
        304: {"description": "The client has this list", "headers": _ETAG},
        **{status: ERROR_RESPONSES[status] for status in (422, 500)},
    }
