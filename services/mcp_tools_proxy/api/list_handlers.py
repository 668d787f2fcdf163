"""The handlers that list what a caller may use: tools, prompts, resources."""

import re
from collections.abc import Callable, Mapping

from fastapi import Request, Response
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams

from mcp_tools_proxy.api.callers import asserted_by_query
from mcp_tools_proxy.api.endpoint import ParsedRequest, validate
from mcp_tools_proxy.api.models import CallerQuery, ToolsQuery
from mcp_tools_proxy.api.tool_previews import ToolPreviews
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.registry.list_cache import etag_of
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.registry.tool_lists import ListBody
from mcp_tools_proxy.telemetry.request_events import RequestFacts, RequestTelemetry
from mcp_tools_proxy.web.envelope import JSON
from mcp_tools_proxy.web.list_query import name_style_of
from mcp_tools_proxy.web.request_refusals import route_of
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

_SEVERAL_VALUED = ("names", "roles", "documents")
_SINGLE_VALUED = (
    *(key for key in CallerQuery.model_fields if key not in _SEVERAL_VALUED),
    "format",
    "preset_id",
)
_ENTITY_TAG = re.compile(r'"[^"]*"')


class ListHandlers:
    """The handlers that list what a caller may use; 304 if the client has the list already."""

    def __init__(
        self,
        callers: CallerResolver,
        registry: RegistryHolder,
        first_attempts: FirstAttempts,
        telemetry: RequestTelemetry,
        previews: ToolPreviews,
    ) -> None:
        self._callers = callers
        self._registry = registry
        self._first_attempts = first_attempts
        self._telemetry = telemetry
        self._previews = previews

    async def list_tools(self, parsed: ParsedRequest[None]) -> Response:
        """List the tools that the caller may run, in the format that the query names."""
        request = parsed.request
        requested_style = name_style_of(request.scope)
        query = validate(ToolsQuery, _values(request.query_params))
        if query.preset_id is not None:
            listed = await self._previews.list_tools(
                parsed, query, query.preset_id, requested_style
            )
            return _list_response(parsed, listed.etag, listed.join)
        caller = await self._callers.resolve(request.scope, asserted_by_query(query))
        registry = self._registry.current
        style = registry.name_styles.over_http(requested_style, caller.agent)
        tools = await registry.list_tools(caller, query.format, query.names, style)
        self._record(parsed, caller, registry, items=len(tools))
        pending = self._first_attempts.pending_for(caller, Kind.TOOL)
        permissions = registry.access_rules.permissions_of(caller)
        instructions = registry.instructions.text_for(permissions)
        more = {"instructions": instructions, "pending": pending or None}
        listed = ListBody.of(tools, without_none(more))
        return _list_response(parsed, listed.etag, listed.join)

    async def list_prompts(self, parsed: ParsedRequest[None]) -> Response:
        """List the prompts that the caller may get."""
        caller = await self._lister(parsed.request)
        current = self._registry.current
        permissions = current.access_rules.permissions_of(caller)
        prompts = current.listings.prompts.definitions_for(permissions)
        self._record(parsed, caller, current, items=len(prompts))
        return self._response(parsed, caller, Kind.PROMPT, {"prompts": prompts})

    async def list_resources(self, parsed: ParsedRequest[None]) -> Response:
        """List the resources and templates that the caller may read."""
        caller = await self._lister(parsed.request)
        current = self._registry.current
        permissions = current.access_rules.permissions_of(caller)
        listed = {
            "resources": current.listings.resources.definitions_for(permissions),
            "resource_templates": current.listings.templates.definitions_for(permissions),
        }
        self._record(parsed, caller, current, items=sum(map(len, listed.values())))
        return self._response(parsed, caller, Kind.RESOURCE, listed)

    def _record(
        self, parsed: ParsedRequest[None], caller: Caller, registry: Registry, *, items: int
    ) -> None:
        request = RequestFacts(route_of(parsed.request.scope), parsed.trace_id)
        self._telemetry.listed(caller, request, registry.version, items=items)

    async def _lister(self, request: Request) -> Caller:
        query = validate(CallerQuery, _values(request.query_params))
        return await self._callers.resolve(request.scope, asserted_by_query(query))

    def _response(
        self,
        parsed: ParsedRequest[None],
        caller: Caller,
        kind: Kind,
        content: Mapping[str, object],
    ) -> Response:
        """Build a list; ``pending`` names the servers whose first connection is not decided yet."""
        pending = self._first_attempts.pending_for(caller, kind)
        body = to_json({**content, "pending": pending} if pending else content)
        return _list_response(parsed, etag_of(body), lambda: body)


def _list_response(parsed: ParsedRequest[None], etag: str, body: Callable[[], bytes]) -> Response:
    """Build the response with a list; ``body`` is called if the client does not have it."""
    headers = {TRACE_HEADER: parsed.trace_id, "ETag": etag, "Cache-Control": "private, no-cache"}
    if _matches_etag(parsed.request.headers, etag):
        return Response(None, 304, headers)
    return Response(body(), 200, headers, JSON)


def _values(query: QueryParams) -> dict[str, object]:
    """Return the query parameters. Raises InvalidRequest for a repeated one of _SINGLE_VALUED.

    A proxy in front may have checked the first of two values while we would use the last.
    """
    for key in _SINGLE_VALUED:
        if len(query.getlist(key)) > 1:
            raise InvalidRequest(f"{key}: is given twice; keep one", details={"field": key})
    return dict(query) | {key: query.getlist(key) for key in _SEVERAL_VALUED if key in query}


def _matches_etag(headers: Headers, etag: str) -> bool:
    """Return whether ``If-None-Match`` has the tag, weak or strong (RFC 9110 §13.1.2)."""
    if "if-none-match" not in headers:
        return False
    values = ",".join(headers.getlist("if-none-match"))
    return values.strip() == "*" or etag in _ENTITY_TAG.findall(values)
