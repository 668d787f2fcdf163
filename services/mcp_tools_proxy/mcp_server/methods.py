"""The MCP methods: lists come from the registry, calls go to the executor."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.mcp_server.list_pages import page_of
from mcp_tools_proxy.mcp_server.request import McpRequest
from mcp_tools_proxy.mcp_server.results import (
    Json,
    completion_result,
    prompt_result,
    protocol_error,
    resource_result,
    tool_result,
)
from mcp_tools_proxy.mcp_server.sign_in_request import sign_in_request
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.telemetry.request_events import RequestTelemetry
from mcp_tools_proxy.wire.encoded_list import EncodedList
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS
from mcp_tools_proxy.wire.tracing import PENDING_KEY

LIST_METHODS = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
)
"""Methods that list the components of a caller."""

CACHED = LIST_METHODS | {"resources/read"}
"""Methods whose results carry ``ttlMs`` and ``cacheScope`` (MCP 2026-07-28)."""


class Methods:
    """The methods that list and use components, by their name in MCP."""

    def __init__(
        self,
        registry: RegistryHolder,
        first_attempts: FirstAttempts,
        executor: Executor,
        telemetry: RequestTelemetry,
    ) -> None:
        self._registry = registry
        self._first_attempts = first_attempts
        self._executor = executor
        self._telemetry = telemetry
        self._methods: Mapping[str, Callable[[McpRequest], Awaitable[Json]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
        }

    def __contains__(self, method: str) -> bool:
        return method in self._methods

    async def handle(self, request: McpRequest) -> Json:
        """Return a method's result, without the envelope of its era. Raises JsonRpcError."""
        try:
            return await self._methods[request.method](request.narrowed())
        except ProxyError as error:
            raise protocol_error(error, request.trace_id, modern=request.modern) from None

    async def _current(self, request: McpRequest, kind: Kind) -> tuple[Registry, Sequence[str]]:
        """Return the registry to list from, and the servers that it may lack items of."""
        await self._first_attempts.wait_until_listed(request.caller, kind)
        registry = self._registry.current
        return registry, self._first_attempts.pending_for(request.caller, kind, registry)

    async def _list_tools(self, request: McpRequest) -> Json:
        registry, pending = await self._current(request, Kind.TOOL)
        listed = await registry.mcp_tools(request.caller, request.options)
        tools = listed.definitions if request.modern else listed.older_era
        result = self._answer(request, registry, "tools", tools, listed.etag)
        return _with_pending(result, pending)

    async def _list_prompts(self, request: McpRequest) -> Json:
        registry, pending = await self._current(request, Kind.PROMPT)
        listed = await registry.mcp_prompts(request.caller)
        result = self._answer(request, registry, "prompts", listed.definitions, listed.etag)
        return _with_pending(result, pending)

    async def _list_resources(self, request: McpRequest) -> Json:
        registry, pending = await self._current(request, Kind.RESOURCE)
        listed = await registry.mcp_resources(request.caller)
        result = self._answer(request, registry, "resources", listed.definitions, listed.etag)
        return _with_pending(result, pending)

    async def _list_templates(self, request: McpRequest) -> Json:
        registry, pending = await self._current(request, Kind.RESOURCE)
        listed = await registry.mcp_templates(request.caller)
        key, templates = "resourceTemplates", listed.definitions
        result = self._answer(request, registry, key, templates, listed.etag)
        return _with_pending(result, pending)

    def _answer(
        self, request: McpRequest, registry: Registry, key: str, listed: EncodedList, etag: str
    ) -> Json:
        """Record a list, and return its result: one page over legacy HTTP+SSE, else all of it."""
        if request.options.page_bytes is None:
            result: Json = {key: _without_cursor(request, listed)}
        else:
            page, cursor = page_of(
                listed, etag, request.params.get("cursor"), request.options.page_bytes
            )
            result = {key: page} | ({"nextCursor": cursor} if cursor else {})
        items = len(result[key])
        self._telemetry.listed(request.caller, request.facts, registry.version, items=items)
        return result

    async def _call_tool(self, request: McpRequest) -> Json:
        call = request.to_call(
            Kind.TOOL, request.require_str("name"), request.optional_object("arguments")
        )
        outcome = await self._executor.execute(call)
        return _sign_in(outcome, call, request) or tool_result(outcome, call, modern=request.modern)

    async def _get_prompt(self, request: McpRequest) -> Json:
        call = request.to_call(
            Kind.PROMPT, request.require_str("name"), request.optional_object("arguments")
        )
        outcome = await self._executor.execute(call)
        return _sign_in(outcome, call, request) or prompt_result(
            outcome, call.trace_id, modern=request.modern
        )

    async def _read_resource(self, request: McpRequest) -> Json:
        call = request.to_call(Kind.RESOURCE, request.require_str("uri"), {})
        outcome = await self._executor.execute(call)
        return _sign_in(outcome, call, request) or resource_result(
            outcome, call.trace_id, call.name, modern=request.modern
        )

    async def _complete(self, request: McpRequest) -> Json:
        kind, name = _reference(request.optional_object("ref"))
        arguments = {"argument": request.optional_object("argument")}
        if context := request.optional_object("context"):
            arguments["context"] = context
        call = request.to_call(kind, name, arguments)
        outcome = await self._executor.complete(call)
        return completion_result(outcome, call.trace_id, modern=request.modern)


def _sign_in(outcome: Outcome, call: Call, request: McpRequest) -> Json | None:
    """Return what sends the user to a sign-in, None for all other outcomes."""
    return sign_in_request(
        outcome, call, modern=request.modern, was_sent=request.has_sign_in_response
    )


def _with_pending(result: Json, pending: Sequence[str]) -> Json:
    """Return a list's result, which names the servers that are tried for the first time."""
    return result | {"_meta": {PENDING_KEY: list(pending)}} if pending else result


def _without_cursor(request: McpRequest, listed: EncodedList) -> EncodedList:
    """Return the list, which is one page. Raises JsonRpcError for a cursor."""
    if request.params.get("cursor") is not None:
        raise JsonRpcError(
            INVALID_PARAMS, "every list here is one page, so no cursor is valid; leave cursor out"
        )
    return listed


def _reference(ref: Mapping[str, Any]) -> tuple[Kind, str]:
    """Return kind and name of what is completed; a template is its own name.

    Raises JsonRpcError.
    """
    match ref:
        case {"type": "ref/prompt", "name": str(name)}:
            return Kind.PROMPT, name
        case {"type": "ref/resource", "uri": str(uri)}:
            return Kind.RESOURCE, uri
    raise JsonRpcError(
        INVALID_PARAMS, "ref should name a prompt, or a resource template by its uri"
    )
