"""The GET routes that list what a caller may use: tools, prompts, resources."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams

from mcp_tools_proxy.api.callers import asserted_by_query
from mcp_tools_proxy.api.endpoint import Endpoint, EndpointFactory, validate
from mcp_tools_proxy.api.models import (
    CallerQuery,
    ErrorEnvelope,
    PromptsAnswer,
    ResourcesAnswer,
    ToolsAnswer,
    ToolsQuery,
)
from mcp_tools_proxy.api.openapi import (
    CALLER_HEADERS,
    ERROR_RESPONSES,
    Responses,
    query_parameters,
    security,
)
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.registry.tool_lists import etag_of
from mcp_tools_proxy.web.envelope import JSON
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

_SINGLE_VALUED = (*CallerQuery.model_fields, "format")
_ENTITY_TAG = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class ListResponse:
    """A list: its entity tag, and a function that returns its JSON."""

    etag: str
    body: Callable[[], bytes]


class ListEndpoints:
    """The endpoints that list what a caller may use; 304 if the client has the list already."""

    def __init__(
        self,
        endpoints: EndpointFactory,
        callers: CallerResolver,
        registry: RegistryHolder,
        first_attempts: FirstAttempts,
        *,
        needs_token: bool,
    ) -> None:
        self._endpoints = endpoints
        self._callers = callers
        self._needs_token = needs_token
        self._registry = registry
        self._first_attempts = first_attempts

    def routes(self) -> Sequence[DirectRoute]:
        """Return the routes with their OpenAPI descriptions."""
        secured = security(needed=self._needs_token)
        return (
            DirectRoute(
                "/internal/mcp/tools",
                self._endpoint(self._list_tools),
                name="list_tools",
                methods=["GET"],
                summary="List the tools that this caller may run",
                description=(
                    "As MCP lists them, or as a model API takes them; there each goes by its "
                    "alias. The same tools give the same bytes."
                ),
                response_class=Response,
                responses=_responses(ToolsAnswer),
                openapi_extra=query_parameters(ToolsQuery, *CALLER_HEADERS, _IF_NONE_MATCH),
                dependencies=secured,
            ),
            DirectRoute(
                "/internal/mcp/prompts",
                self._endpoint(self._list_prompts),
                name="list_prompts",
                methods=["GET"],
                summary="List the prompts that this caller may get",
                response_class=Response,
                responses=_responses(PromptsAnswer),
                openapi_extra=query_parameters(CallerQuery, *CALLER_HEADERS, _IF_NONE_MATCH),
                dependencies=secured,
            ),
            DirectRoute(
                "/internal/mcp/resources",
                self._endpoint(self._list_resources),
                name="list_resources",
                methods=["GET"],
                summary="List the resources that this caller may read",
                response_class=Response,
                responses=_responses(ResourcesAnswer),
                openapi_extra=query_parameters(CallerQuery, *CALLER_HEADERS, _IF_NONE_MATCH),
                dependencies=secured,
            ),
        )

    def _endpoint(self, listed: Callable[[Request], Awaitable[ListResponse]]) -> Endpoint:
        """Build an endpoint that sends the list of ``listed``, or the ProxyError that it raises."""
        return self._endpoints.without_body(partial(_answer, listed))

    async def _list_tools(self, request: Request) -> ListResponse:
        parameters = request.query_params
        names = parameters.getlist("names") if "names" in parameters else None
        query = validate(ToolsQuery, _single_values(parameters) | {"names": names})
        caller = await self._callers.resolve(request.scope, asserted_by_query(query))
        tools = await self._registry.list_tools(caller, query.format, query.names)
        if pending := self._first_attempts.pending_for(caller, Kind.TOOL):
            body = b'%b,"pending":%b}' % (tools.body[:-1], to_json(pending))
            return ListResponse(etag_of(body), lambda: body)
        return ListResponse(tools.etag, lambda: tools.body)

    async def _list_prompts(self, request: Request) -> ListResponse:
        caller = await self._lister(request)
        prompts = self._registry.current.prompts_visible_to(caller)
        return self._listed(caller, Kind.PROMPT, {"prompts": prompts})

    async def _lister(self, request: Request) -> Caller:
        query = validate(CallerQuery, _single_values(request.query_params))
        return await self._callers.resolve(request.scope, asserted_by_query(query))

    async def _list_resources(self, request: Request) -> ListResponse:
        caller = await self._lister(request)
        current = self._registry.current
        listed = {
            "resources": current.resources_visible_to(caller),
            "resource_templates": current.templates_visible_to(caller),
        }
        return self._listed(caller, Kind.RESOURCE, listed)

    def _listed(self, caller: Caller, kind: Kind, content: Mapping[str, object]) -> ListResponse:
        """Build a list; ``pending`` names the servers whose first connection is not decided yet."""
        pending = self._first_attempts.pending_for(caller, kind)
        body = to_json({**content, "pending": pending} if pending else content)
        return ListResponse(etag_of(body), lambda: body)


async def _answer(
    listed: Callable[[Request], Awaitable[ListResponse]], request: Request, trace_id: str
) -> Response:
    found = await listed(request)
    headers = {TRACE_HEADER: trace_id, "ETag": found.etag, "Cache-Control": "private, no-cache"}
    if _matches_etag(request.headers, found.etag):
        return Response(None, 304, headers)
    return Response(found.body(), 200, headers, JSON)


def _single_values(query: QueryParams) -> dict[str, object]:
    """Return the query parameters. Raises InvalidRequest for a repeated one of _SINGLE_VALUED.

    A proxy in front may have checked the first of two values while we would use the last.
    """
    for key in _SINGLE_VALUED:
        if len(query.getlist(key)) > 1:
            raise InvalidRequest(f"{key}: is given twice; keep one", details={"field": key})
    return dict(query)


def _matches_etag(headers: Headers, etag: str) -> bool:
    """Return whether ``If-None-Match`` has the tag, weak or strong (RFC 9110 §13.1.2)."""
    if "if-none-match" not in headers:
        return False
    values = ",".join(headers.getlist("if-none-match"))
    return values.strip() == "*" or etag in _ENTITY_TAG.findall(values)


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
        **{status: ERROR_RESPONSES[status] for status in (401, 403, 422, 500)},
    }
