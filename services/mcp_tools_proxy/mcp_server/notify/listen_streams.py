"""The newer era's streams of changes: ``subscriptions/listen`` (MCP 2026-07-28)."""

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
from mcp_tools_proxy.mcp_server.http.open_streams import no_room_for_tenant
from mcp_tools_proxy.mcp_server.notify.delivery import Delivery, Recipient
from mcp_tools_proxy.mcp_server.notify.list_changes import ListChangeMonitor, Lists, Seen
from mcp_tools_proxy.mcp_server.request import Context, McpRequest
from mcp_tools_proxy.mcp_server.results import protocol_error

LISTEN = "subscriptions/listen"
"""The method."""

MAX_RESOURCES = 100
"""How many resources one client follows at once."""

COALESCE_S = 0.05
"""How long what changed again and again is collected: a server may say it a thousand times."""

MAX_WAITING_EVENTS = 2 * MAX_RESOURCES
"""How many events a stream holds for a client that does not read; then it is ended. All that a
client follows may change at once."""

_EVENTS: dict[Lists, ServerEvent] = {
    Lists.TOOLS: ToolsListChanged(),
    Lists.PROMPTS: PromptsListChanged(),
    Lists.RESOURCES: ResourcesListChanged(),
}


class _OwnChanges:
    """The SDK's bus for one stream: the changes of what its caller sees, and of its resources."""

    def __init__(
        self, watching: ListChangeMonitor, telling: Delivery, caller: Caller, seen: Seen
    ) -> None:
        self._watching = watching
        self._telling = telling
        self._recipient: Recipient[ServerEvent] = Recipient(self._pass_on)
        self._caller = caller
        self._seen = seen
        self._listener: Callable[[ServerEvent], None] | None = None

    async def publish(self, event: ServerEvent) -> None:
        """Tell the stream of a change."""
        self.tell(event)

    def tell(self, event: ServerEvent) -> None:
        """Tell the stream of a change, once it is open."""
        self._telling.soon(self._recipient, [event])

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have ``listener`` told of changes, until what is returned is called."""
        self._listener = listener

        async def tell(changed: frozenset[Lists]) -> None:
            for kind in Lists:
                if kind in changed:
                    listener(_EVENTS[kind])

        return self._watching.join(self._caller, self._seen, tell)

    async def _pass_on(self, events: frozenset[ServerEvent]) -> None:
        if self._listener is not None:
            for event in events:
                self._listener(event)
        await asyncio.sleep(COALESCE_S)


class ListenStreams:
    """The open streams; at most ``max_streams``, of one tenant ``max_streams_of_tenant``."""

    def __init__(
        self,
        watching: ListChangeMonitor,
        telling: Delivery,
        subscriptions: Subscriptions,
        *,
        max_streams: int,
        max_streams_of_tenant: int,
    ) -> None:
        self._watching = watching
        self._telling = telling
        self._subscriptions = subscriptions
        self._max_streams = max_streams
        self._max_streams_of_tenant = max_streams_of_tenant
        self._open: dict[ListenHandler, str] = {}
        """Each with the tenant whose it is."""

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self, context: Context, asked: McpRequest, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream until the client leaves or ``close`` ends it. Raises MCPError."""
        try:
            self._check_room(asked.caller.tenant_id)
            seen = await self._watching.look(asked.caller)
        except ProxyError as error:
            raise protocol_error(error, asked.trace_id, modern=True) from None
        changes = _OwnChanges(self._watching, self._telling, asked.caller, seen)
        handler = ListenHandler(
            changes, max_subscriptions=1, max_buffered_events=MAX_WAITING_EVENTS
        )
        self._open[handler] = asked.caller.tenant_id
        try:
            async with self._following(asked, params.notifications, changes) as honored:
                return await handler(context, params.model_copy(update={"notifications": honored}))
        finally:
            del self._open[handler]

    def _check_room(self, tenant_id: str) -> None:
        """Raise CapacityExceeded when there is no room for one more stream of this tenant."""
        if len(self._open) >= self._max_streams:
            raise CapacityExceeded(f"{self._max_streams} streams are open; try again later")
        limit = self._max_streams_of_tenant
        if len(self._open) < limit:  # so that most need not be counted
            return
        if sum(tenant == tenant_id for tenant in self._open.values()) >= limit:
            raise no_room_for_tenant(limit)

    @asynccontextmanager
    async def _following(
        self, asked: McpRequest, wanted: SubscriptionFilter, changes: _OwnChanges
    ) -> AsyncIterator[SubscriptionFilter]:
        """Follow the resources that are ``wanted``; give the filter with those that can be."""
        followed: list[str] = []
        with ExitStack() as stack:
            for uri in (wanted.resource_subscriptions or ())[:MAX_RESOURCES]:
                call = asked.call(Kind.RESOURCE, uri, {})
                tell = partial(changes.tell, ResourceUpdated(uri))
                with suppress(ProxyError):
                    stack.callback(await self._subscriptions.subscribe(call, tell))
                    followed.append(uri)
            yield wanted.model_copy(update={"resource_subscriptions": followed or None})

    def close(self) -> None:
        """End every stream in the protocol's own way."""
        for handler in tuple(self._open):
            handler.close()
