"""The MCP server of all transports and both eras.

Lists come from the registry; calls go to the executor.
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import InvalidRequest, LoginRequired, ProxyError
from mcp_tools_proxy.domain.outcome import Failed, Outcome
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp.server.list_changes import Delivery, ListChangeMonitor
from mcp_tools_proxy.mcp.server.request import SIGN_IN_KEY, McpRequest
from mcp_tools_proxy.mcp.server.results import (
    Json,
    completion_result,
    prompt_result,
    protocol_error,
    recorded,
    resource_result,
    tool_result,
)
from mcp_tools_proxy.mcp.server.subscriptions import (
    LISTEN,
    ListenStreams,
    SessionSubscriptions,
    SubscriptionFilter,
)
from mcp_tools_proxy.registry.mcp_lists import McpLists
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.telemetry.request_events import RequestFacts, RequestTelemetry
from mcp_tools_proxy.telemetry.spans import METHOD, NO_SPAN, TRACE_ID, Span, Tracer
from mcp_tools_proxy.wire.encoding import EncodedList
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import (
    INVALID_PARAMS,
    MODERN_VERSIONS,
    SERVER_INFO_META_KEY,
    URL_ELICITATION_REQUIRED,
)
from mcp_tools_proxy.wire.tracing import PENDING_KEY, TRACE_ID_KEY
from mcp_tools_proxy.wire.version import VERSION

DISCOVER = "server/discover"

DISCOVER_TTL_MS = 60_000
"""Cache time of ``server/discover`` for clients: only its instructions change while running."""

CAPABILITIES: Json = {
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}
"""All capabilities, independent of the current lists: a reload can add the first prompt."""

HANDSHAKE_CAPABILITIES: Json = {**CAPABILITIES, "logging": {}}
"""Capabilities in the older eras. In the newer era each request has its own log level."""


class GatewayMcpServer:
    """Serves the components that a caller can list and use.

    Requests of the newer era (stateless.py) and sessions of the older eras (handshake_session.py)
    call ``handle`` for their common methods.
    """

    def __init__(
        self,
        name: str,
        *,
        registry: RegistryHolder,
        first_attempts: FirstAttempts,
        executor: Executor,
        subscriptions: Subscriptions,
        telemetry: RequestTelemetry,
        max_streams: int,
        max_streams_of_tenant: int,
        tracer: Tracer,
        sessions_are_runs: bool,
    ) -> None:
        """Create a server; ``max_streams`` limits its open ``subscriptions/listen`` streams."""
        self._tracer = tracer
        self.sessions_are_runs = sessions_are_runs
        self.info: Mapping[str, str] = {"name": name, "version": VERSION}
        self.replica = uuid4().hex[:8]
        """This replica in the ids of its requests to clients, as several replicas can serve a
        session.
        """
        self._subscriptions = subscriptions
        self._delivery = Delivery()
        self.list_changes = ListChangeMonitor(registry, self._delivery)
        self.listen_streams = ListenStreams(
            self.list_changes,
            self._delivery,
            subscriptions,
            on_subscribed=self.record_subscription,
            max_streams=max_streams,
            max_streams_of_tenant=max_streams_of_tenant,
        )
        self._registry = registry
        self._telemetry = telemetry
        self.methods = Methods(registry, first_attempts, executor, telemetry)
        self._stamp = {SERVER_INFO_META_KEY: self.info}

    async def run_notifications(self) -> None:
        """Send change notifications until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._delivery.run())
            await self.list_changes.run()

    def session_subscriptions(self, send: SendMessage) -> SessionSubscriptions:
        """Return the empty subscriptions of a new session; ``send`` notifies its client."""
        return SessionSubscriptions(self.list_changes, self._subscriptions, self._delivery, send)

    async def handle(self, request: McpRequest) -> Json:
        """Return the result of a request, with the envelope of its era. Raises MCPError."""
        with self._start_span(request) if self._tracer.is_on else NO_SPAN:
            result = await self.methods.handle(request)
        return self._enveloped(result, request.method) if request.modern else result

    def discover(self, caller: Caller) -> Json:
        """Return the result of ``server/discover``, with its envelope."""
        discovered = {
            "supportedVersions": list(MODERN_VERSIONS),
            "capabilities": CAPABILITIES,
            **self.instructions_for(caller),
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "private",
        }
        return self._enveloped(discovered, DISCOVER)

    def instructions_for(self, caller: Caller) -> Json:
        """Return the field ``instructions`` for a caller, or {}."""
        try:
            registry = self._registry.current
            text = registry.instructions.text_for(registry.access_rules.permissions_of(caller))
        except ProxyError:  # the caller's requests are refused with the reason
            text = None
        return {} if text is None else {"instructions": text}

    async def listen(
        self, request: McpRequest, id_: RequestId, wanted: SubscriptionFilter, send: SendMessage
    ) -> Json:
        """Serve ``subscriptions/listen`` until it ends; return its result, with its envelope.

        ``send`` sends the notifications. Raises MCPError.
        """
        result = await self.listen_streams.listen(request, id_, wanted, send)
        return self._enveloped(result, LISTEN)

    def record_subscription(
        self, request: McpRequest, *, lists: int = 0, resources: int = 0
    ) -> None:
        """Record that a client has subscribed to this number of lists and resources."""
        version = self._registry.current.version
        self._telemetry.subscribed(
            request.caller, request.facts, version, lists=lists, resources=resources
        )

    def record_error(self, request: McpRequest, error: JsonRpcError) -> None:
        """Record a request that failed without a call."""
        if not error.is_recorded:
            self.record_refusal(request.caller, error, request.facts)

    def record_refusal(self, caller: Caller, error: JsonRpcError, request: RequestFacts) -> None:
        """Record a request that was refused before any method was called."""
        self._telemetry.refused_to(caller, error.refusal or InvalidRequest(error.message), request)

    def record_unread(self, event: str, caller: Caller, code: str, **what: object) -> None:
        """Record a message that could not be parsed as a request."""
        self._telemetry.unread(event, caller, code, what)

    def _start_span(self, request: McpRequest) -> Span:
        attributes = {METHOD: request.method, TRACE_ID: request.trace_id}
        return self._tracer.start_request(
            request.method, attributes, request.trace_context, is_mcp=True
        )

    def _enveloped(self, result: Json, method: str) -> Json:
        """Add the fields that MCP 2026-07-28 requires. Lists depend on the caller: private, 0 s."""
        meta = result.get("_meta") or {}
        if result.get("resultType") is None:
            result["resultType"] = "complete"
            if method in CACHED:
                result |= {"ttlMs": 0, "cacheScope": "private"}
        return result | {"_meta": {**self._stamp, **meta}}


def sign_in_request(outcome: Outcome, call: Call, *, modern: bool, was_sent: bool) -> Json | None:
    """Return the ``input_required`` result of a call that needs a sign-in, otherwise None.

    Also None if the client cannot open URLs, or if the request ``was_sent`` before: a client that
    repeats the call at once would never see the error. Raises JsonRpcError in the older eras, as
    they require.
    """
    if was_sent or not isinstance(outcome, Failed) or not isinstance(outcome.error, LoginRequired):
        return None
    url = (outcome.error.details or {}).get("url")
    if not isinstance(url, str) or not _opens_urls(call.client.capabilities):
        return None
    server_id = (outcome.error.details or {}).get("server_id")
    message = f"Sign in to server {server_id}, then go on."
    request = {"mode": "url", "message": message, "url": url}
    if not modern:
        elicitation = {**request, "elicitationId": call.trace_id}
        raise recorded(
            JsonRpcError(
                URL_ELICITATION_REQUIRED, outcome.error.message, {"elicitations": [elicitation]}
            )
        )
    return {
        "resultType": "input_required",
        "inputRequests": {SIGN_IN_KEY: {"method": "elicitation/create", "params": request}},
        "_meta": {TRACE_ID_KEY: call.trace_id},
    }


def _opens_urls(capabilities: Mapping[str, object]) -> bool:
    elicitation = capabilities.get("elicitation")
    return isinstance(elicitation, Mapping) and isinstance(elicitation.get("url"), Mapping)


def page_of(
    listed: EncodedList, etag: str, cursor: object, max_bytes: int
) -> tuple[Sequence[Mapping[str, object]], str | None]:
    """Return the page at a cursor (without one, the first page) and the next cursor, if any.

    A page has at least one item. Raises JsonRpcError for an invalid cursor or one of another list.
    """
    start = 0 if cursor is None else _offset_in(cursor, etag, len(listed))
    if not start and len(listed.as_json(ensure_ascii=True)) <= max_bytes:
        return listed, None
    end, size = start, 0
    while end < len(listed):
        size += len(to_json(listed[end], ensure_ascii=True)) + 1
        if size > max_bytes and end > start:
            break
        end += 1
    return listed[start:end], None if end == len(listed) else _cursor(etag, end)


def _cursor(etag: str, offset: int) -> str:
    return urlsafe_b64encode(f"{etag} {offset}".encode()).decode()


def _offset_in(cursor: object, etag: str, count: int) -> int:
    try:
        tag, _, offset = urlsafe_b64decode(str(cursor)).decode("ascii").rpartition(" ")
    except ValueError:
        tag, offset = "", ""
    if tag == etag and offset.isdigit() and 0 < int(offset) < count:
        return int(offset)
    raise JsonRpcError(
        INVALID_PARAMS, "cursor: invalid, or the list has changed; leave it out to start over"
    )


LIST_METHODS = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
)
"""Methods that list the components of a caller."""

CACHED = LIST_METHODS | {"resources/read"}
"""Methods whose results carry ``ttlMs`` and ``cacheScope`` (MCP 2026-07-28)."""


class Methods:
    """The methods that list and use components, by MCP name."""

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
        """Return the registry after first attempts, and the servers whose items can still be
        missing.
        """
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
        result = await self._list(request, registry, "prompts", registry.listings.prompts)
        return _with_pending(result, pending)

    async def _list_resources(self, request: McpRequest) -> Json:
        registry, pending = await self._current(request, Kind.RESOURCE)
        result = await self._list(request, registry, "resources", registry.listings.resources)
        return _with_pending(result, pending)

    async def _list_templates(self, request: McpRequest) -> Json:
        registry, pending = await self._current(request, Kind.RESOURCE)
        lists = registry.listings.templates
        result = await self._list(request, registry, "resourceTemplates", lists)
        return _with_pending(result, pending)

    async def _list(
        self, request: McpRequest, registry: Registry, key: str, lists: McpLists[Any]
    ) -> Json:
        listed = await lists.list_for(registry.access_rules.permissions_of(request.caller))
        return self._answer(request, registry, key, listed.definitions, listed.etag)

    def _answer(
        self, request: McpRequest, registry: Registry, key: str, listed: EncodedList, etag: str
    ) -> Json:
        """Record and return a list: one page over legacy HTTP+SSE, otherwise all items."""
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
    return sign_in_request(
        outcome, call, modern=request.modern, was_sent=request.has_sign_in_response
    )


def _with_pending(result: Json, pending: Sequence[str]) -> Json:
    return result | {"_meta": {PENDING_KEY: list(pending)}} if pending else result


def _without_cursor(request: McpRequest, listed: EncodedList) -> EncodedList:
    if request.params.get("cursor") is not None:
        raise JsonRpcError(
            INVALID_PARAMS, "every list here is one page, so no cursor is valid; leave cursor out"
        )
    return listed


def _reference(ref: Mapping[str, Any]) -> tuple[Kind, str]:
    match ref:
        case {"type": "ref/prompt", "name": str(name)}:
            return Kind.PROMPT, name
        case {"type": "ref/resource", "uri": str(uri)}:
            return Kind.RESOURCE, uri
    raise JsonRpcError(
        INVALID_PARAMS, "ref should name a prompt, or a resource template by its uri"
    )
