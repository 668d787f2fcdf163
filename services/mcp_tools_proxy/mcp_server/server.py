"""The MCP server behind every transport: what a caller may list and use, in both eras."""

import asyncio
from collections.abc import Mapping
from uuid import uuid4

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp_server.methods import CACHED, Methods
from mcp_tools_proxy.mcp_server.request import McpRequest
from mcp_tools_proxy.mcp_server.results import Json
from mcp_tools_proxy.mcp_server.subscriptions.delivery import Delivery
from mcp_tools_proxy.mcp_server.subscriptions.list_changes import ListChangeMonitor
from mcp_tools_proxy.mcp_server.subscriptions.listen_streams import (
    LISTEN,
    ListenStreams,
    SubscriptionFilter,
)
from mcp_tools_proxy.mcp_server.subscriptions.session_subscriptions import SessionSubscriptions
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.telemetry.request_events import RequestFacts, RequestTelemetry
from mcp_tools_proxy.telemetry.tracing.call_spans import METHOD
from mcp_tools_proxy.telemetry.tracing.spans import NO_SPAN, TRACE_ID, Span, Tracer
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import MODERN_VERSIONS, SERVER_INFO_META_KEY
from mcp_tools_proxy.wire.version import VERSION

DISCOVER = "server/discover"
"""The method that returns what the server is and has."""

DISCOVER_TTL_MS = 60_000
"""How long clients may cache ``server/discover``: only its instructions change while we run."""

CAPABILITIES: Json = {
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}
"""All capabilities, whatever is listed now: a reload may add the first prompt."""

HANDSHAKE_CAPABILITIES: Json = {**CAPABILITIES, "logging": {}}
"""The capabilities in the older eras. In the newer one each request says which log level it wants,
so there is no method for that."""


class GatewayMcpServer:
    """Serves what a caller may list and use.

    Requests of the newer era (see stateless.py) and sessions of the older eras (see
    handshake_session.py) call ``handle`` for the methods that both have.
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
    ) -> None:
        """Create a server; ``max_streams`` bounds its open ``subscriptions/listen`` streams."""
        self._tracer = tracer
        self.info: Mapping[str, str] = {"name": name, "version": VERSION}
        self.replica = uuid4().hex[:8]
        """Its name in the ids of its requests to clients: several replicas may serve a session."""
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
        """The methods that list and use components, in both eras."""
        self._stamp = {SERVER_INFO_META_KEY: self.info}

    async def run_notifications(self) -> None:
        """Send change notifications until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._delivery.run())
            await self.list_changes.run()

    def session_subscriptions(self, send: SendMessage) -> SessionSubscriptions:
        """Return the subscriptions of a new session, none at first; ``send`` tells its client."""
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
        """Return the field ``instructions`` for a caller; no field if there are none."""
        try:
            text = self._registry.current.instructions_for(caller)
        except ProxyError:  # its requests are refused, with the reason
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
        """Record that a client gets changes of so many lists and resources from now on."""
        version = self._registry.current.version
        self._telemetry.subscribed(
            request.caller, request.facts, version, lists=lists, resources=resources
        )

    def record_error(self, request: McpRequest, error: JsonRpcError) -> None:
        """Record a request that failed and made no call."""
        if not error.is_recorded:
            self.record_refusal(request.caller, error, request.facts)

    def record_refusal(self, caller: Caller, error: JsonRpcError, request: RequestFacts) -> None:
        """Record a request that was refused before any method was called."""
        self._telemetry.refused_to(caller, error.refusal or InvalidRequest(error.message), request)

    def record_unread(self, event: str, caller: Caller, code: str, **what: object) -> None:
        """Record what a caller sent that is no request at all."""
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
