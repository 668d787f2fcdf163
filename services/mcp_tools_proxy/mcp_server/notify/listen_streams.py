"""Serves ``subscriptions/listen``: the newer era's change notifications (MCP 2026-07-28)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial

from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import (
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp_server.http.open_streams import tenant_capacity_exceeded
from mcp_tools_proxy.mcp_server.notify.delivery import Delivery, Subscriber
from mcp_tools_proxy.mcp_server.notify.list_changes import ListChangeMonitor, ListKind, ListVersions
from mcp_tools_proxy.mcp_server.request import Context, McpRequest
from mcp_tools_proxy.mcp_server.results import protocol_error

LISTEN = "subscriptions/listen"
"""The method that opens a stream of change notifications."""

MAX_RESOURCES = 100
"""Resource subscriptions of one client; more are left out of the filter that it gets back."""

COALESCE_S = 0.05
"""Seconds for which repeated events are merged: a server may send a thousand updates at once."""

MAX_WAITING_EVENTS = 2 * MAX_RESOURCES
"""Events that a stream buffers for a client that does not read, before the stream is ended. Twice
MAX_RESOURCES, as all subscribed resources may change at once."""

_EVENTS: dict[ListKind, ServerEvent] = {
    ListKind.TOOLS: ToolsListChanged(),
    ListKind.PROMPTS: PromptsListChanged(),
    ListKind.RESOURCES: ResourcesListChanged(),
}


class _CallerEventBus:
    """The event bus that the SDK expects, for one stream: list changes and resource updates.

    The SDK's own bus sends every event to all streams; here a caller gets only events of what that
    caller may see.
    """

    def __init__(
        self,
        list_changes: ListChangeMonitor,
        delivery: Delivery,
        caller: Caller,
        versions: ListVersions,
    ) -> None:
        self._list_changes = list_changes
        self._delivery = delivery
        self._subscriber: Subscriber[ServerEvent] = Subscriber(self._publish_batch)
        self._caller = caller
        self._versions = versions
        self._listener: Callable[[ServerEvent], None] | None = None

    async def publish(self, event: ServerEvent) -> None:
        """Send an event to the stream; part of the SDK's interface."""
        self.send(event)

    def send(self, event: ServerEvent) -> None:
        """Send an event to the stream, merged with others; dropped until the stream is open."""
        self._delivery.enqueue(self._subscriber, [event])

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Send events to ``listener`` until the returned function is called."""
        self._listener = listener

        async def send(changed: frozenset[ListKind]) -> None:
            for kind in ListKind:
                if kind in changed:
                    listener(_EVENTS[kind])

        return self._list_changes.subscribe(self._caller, self._versions, send)

    async def _publish_batch(self, events: frozenset[ServerEvent]) -> None:
        if self._listener is not None:
            for event in events:
                self._listener(event)
        await asyncio.sleep(COALESCE_S)


class ListenStreams:
    """The open streams: at most ``max_streams``, and ``max_streams_of_tenant`` of one tenant."""

    def __init__(
        self,
        list_changes: ListChangeMonitor,
        delivery: Delivery,
        subscriptions: Subscriptions,
        *,
        max_streams: int,
        max_streams_of_tenant: int,
    ) -> None:
        self._list_changes = list_changes
        self._delivery = delivery
        self._subscriptions = subscriptions
        self._max_streams = max_streams
        self._max_streams_of_tenant = max_streams_of_tenant
        self._open: dict[ListenHandler, str] = {}
        """Handlers of the open streams, each with its tenant id."""

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self, context: Context, request: McpRequest, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream until the client leaves or ``close`` ends it. Raises MCPError."""
        try:
            self._check_capacity(request.caller.tenant_id)
            versions = await self._list_changes.snapshot(request.caller)
        except ProxyError as error:
            raise protocol_error(error, request.trace_id, modern=True) from None
        changes = _CallerEventBus(self._list_changes, self._delivery, request.caller, versions)
        handler = ListenHandler(
            changes, max_subscriptions=1, max_buffered_events=MAX_WAITING_EVENTS
        )
        self._open[handler] = request.caller.tenant_id
        try:
            async with self._subscribed_resources(
                request, params.notifications, changes
            ) as honored:
                return await handler(context, params.model_copy(update={"notifications": honored}))
        finally:
            del self._open[handler]

    def _check_capacity(self, tenant_id: str) -> None:
        """Raise CapacityExceeded if one more stream of this tenant would be too many."""
        if len(self._open) >= self._max_streams:
            raise CapacityExceeded(f"{self._max_streams} streams are open; try again later")
        limit = self._max_streams_of_tenant
        if len(self._open) < limit:  # the usual case costs no count
            return
        if sum(tenant == tenant_id for tenant in self._open.values()) >= limit:
            raise tenant_capacity_exceeded(limit)

    @asynccontextmanager
    async def _subscribed_resources(
        self, request: McpRequest, wanted: SubscriptionFilter, changes: _CallerEventBus
    ) -> AsyncIterator[SubscriptionFilter]:
        """Subscribe to the ``wanted`` resources; yield the filter without those that failed."""
        followed: list[str] = []
        with ExitStack() as stack:
            for uri in (wanted.resource_subscriptions or ())[:MAX_RESOURCES]:
                call = request.to_call(Kind.RESOURCE, uri, {})
                send = partial(changes.send, ResourceUpdated(uri))
                with suppress(ProxyError):
                    stack.callback(await self._subscriptions.subscribe(call, send))
                    followed.append(uri)
            yield wanted.model_copy(update={"resource_subscriptions": followed or None})

    def close(self) -> None:
        """End every stream with the result that the protocol has for it."""
        for handler in tuple(self._open):
            handler.close()
