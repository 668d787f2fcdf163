"""The MCP server behind every transport: our methods, under the SDK's server or without it."""

import asyncio
from typing import Any

import structlog
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.types import (
    INVALID_REQUEST,
    SERVER_INFO_META_KEY,
    CompletionsCapability,
    DiscoverResult,
    EmptyResult,
    LoggingCapability,
    NotificationParams,
    PromptsCapability,
    RequestId,
    RequestParams,
    ResourcesCapability,
    ServerCapabilities,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    ToolsCapability,
    UnsubscribeRequestParams,
)
from mcp.types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from mcp_tools_proxy.domain.errors import InternalError
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp_server.clients import session_sender
from mcp_tools_proxy.mcp_server.methods import CACHED, Methods
from mcp_tools_proxy.mcp_server.request import CallerOf, Context, McpRequest, id_of
from mcp_tools_proxy.mcp_server.results import Json, protocol_error
from mcp_tools_proxy.mcp_server.subscriptions.delivery import Delivery
from mcp_tools_proxy.mcp_server.subscriptions.list_changes import ListChangeMonitor
from mcp_tools_proxy.mcp_server.subscriptions.listen_streams import LISTEN, ListenStreams
from mcp_tools_proxy.mcp_server.subscriptions.session_state import (
    SessionState,
    log_level_of,
    set_log_level,
)
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.wire.json_rpc import SendMessage
from mcp_tools_proxy.wire.version import VERSION

DISCOVER = "server/discover"
"""The method that returns what the server is and has."""

DISCOVER_TTL_MS = 3_600_000
"""How long clients may cache ``server/discover``: an hour, as it never changes while we run."""

log = structlog.get_logger()


class GatewayMcpServer(Server[Any]):
    """Serves what a caller may list and use; ``caller_of`` returns the caller of a request.

    Stateless requests (see stateless.py) call ``handle``, ``discover`` and ``listen`` directly. The
    sessions of older eras, stdio and legacy HTTP+SSE are served by the SDK, which does handshakes
    and framing. Our methods run as its only middleware, on the raw request: the SDK's models would
    drop the fields that they do not know.
    """

    def __init__(
        self,
        name: str,
        *,
        registry: RegistryHolder,
        executor: Executor,
        subscriptions: Subscriptions,
        caller_of: CallerOf,
        max_streams: int,
        max_streams_of_tenant: int,
    ) -> None:
        """Create a server; ``max_streams`` bounds its open ``subscriptions/listen`` streams."""
        self._delivery = Delivery()
        self.list_changes = ListChangeMonitor(registry, self._delivery)
        self.listen_streams = ListenStreams(
            self.list_changes,
            self._delivery,
            subscriptions,
            max_streams=max_streams,
            max_streams_of_tenant=max_streams_of_tenant,
        )
        self._session_state = SessionState(self.list_changes, subscriptions, self._delivery)
        self.methods = Methods(registry, executor)
        """The methods that list and use components, in both eras."""
        self._caller_of = caller_of
        super().__init__(
            name,
            version=VERSION,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
        )
        self._stamp = {SERVER_INFO_META_KEY: self.server_info_stamp}
        self._discovered = DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=self.get_capabilities(protocol_version=LATEST_MODERN_VERSION),
            ttl_ms=DISCOVER_TTL_MS,
            cache_scope="public",
        ).model_dump(by_alias=True, mode="json", exclude_none=True)
        self.middleware = [self._handle]  # not the SDK's tracing: telemetry is ours
        self.add_request_handler(DISCOVER, RequestParams, self._discover)
        self.add_request_handler(LISTEN, SubscriptionsListenRequestParams, self._listen)
        self.add_request_handler("logging/setLevel", SetLevelRequestParams, set_log_level)
        self.add_notification_handler(
            "notifications/initialized", NotificationParams, self._on_initialized
        )

    async def run_notifications(self) -> None:
        """Send change notifications until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._delivery.run())
            await self.list_changes.run()

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Return all capabilities, whatever is listed now: a reload may add the first prompt."""
        return ServerCapabilities(
            tools=ToolsCapability(list_changed=True),
            prompts=PromptsCapability(list_changed=True),
            resources=ResourcesCapability(list_changed=True, subscribe=True),
            completions=CompletionsCapability(),
            logging=None if protocol_version in MODERN_PROTOCOL_VERSIONS else LoggingCapability(),
        )

    @property
    def options(self) -> InitializationOptions:
        """The initialization options of a connection that is not HTTP."""
        return self.create_initialization_options()

    async def _handle(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Handle our own methods, and leave the others to the SDK."""
        if ctx.request_id is None or ctx.method not in self.methods:
            return await call_next(ctx)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not modern and ctx.session.client_params is None:
            raise MCPError(INVALID_REQUEST, "send initialize first")
        request = self._request_of(ctx)
        try:
            return await self.handle(request)
        except MCPError:
            raise
        except Exception:
            log.exception("facade.crashed", method=request.method, trace_id=request.trace_id)
            crash = protocol_error(InternalError(), request.trace_id, modern=request.modern)
            raise crash from None

    async def handle(self, request: McpRequest) -> Json:
        """Return the result of a request, with the envelope of its era. Raises MCPError."""
        result = await self.methods.handle(request)
        return self._enveloped(result, request.method) if request.modern else result

    def discover(self) -> Json:
        """Return the result of ``server/discover``, with its envelope."""
        return self._enveloped(dict(self._discovered), DISCOVER)

    async def listen(
        self, request: McpRequest, id_: RequestId, wanted: SubscriptionFilter, send: SendMessage
    ) -> Json:
        """Serve ``subscriptions/listen`` until it ends; return its result, with its envelope.

        ``send`` sends the notifications. Raises MCPError.
        """
        result = await self.listen_streams.listen(request, id_, wanted, send)
        return self._enveloped(result, LISTEN)

    def _enveloped(self, result: Json, method: str) -> Json:
        """Add the fields that MCP 2026-07-28 requires. Lists depend on the caller: private, 0 s."""
        meta = result.get("_meta") or {}
        if result.get("resultType") is None:
            result["resultType"] = "complete"
            if method in CACHED:
                result |= {"ttlMs": 0, "cacheScope": "private"}
        return result | {"_meta": {**self._stamp, **meta}}

    def _request_of(self, context: Context) -> McpRequest:
        return McpRequest.from_context(context, self._caller_of(context), log_level_of(context))

    async def _discover(self, _context: Context, _params: RequestParams | None) -> Json:
        return self.discover()

    async def _listen(self, context: Context, params: SubscriptionsListenRequestParams) -> Json:
        id_ = id_of(context)
        send = session_sender(context.session, id_)
        return await self.listen(self._request_of(context), id_, params.notifications, send)

    async def _subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        return await self._session_state.subscribe(context, self._request_of(context), params.uri)

    async def _unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        return await self._session_state.unsubscribe(context, params.uri)

    async def _on_initialized(self, context: Context, _params: NotificationParams) -> None:
        await self._session_state.subscribe_to_lists(context, self._caller_of(context))
