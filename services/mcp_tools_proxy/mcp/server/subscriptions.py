"""Subscriptions of clients to lists and resources.

In the newer era (MCP 2026-07-28) a ``subscriptions/listen`` stream subscribes, in the older ones a
session.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp.server.list_changes import (
    Delivery,
    ListChangeMonitor,
    ListKind,
    ListVersions,
    Subscriber,
)
from mcp_tools_proxy.mcp.server.request import McpRequest
from mcp_tools_proxy.mcp.server.results import Json, protocol_error
from mcp_tools_proxy.policy.tenant_share import TenantCounts, check_tenant_streams
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS, SUBSCRIPTION_ID_META_KEY

LISTEN = "subscriptions/listen"

RESOURCE_UPDATED = "notifications/resources/updated"

MAX_RESOURCES = 100
"""Resource subscriptions of a client; the filter in its acknowledgement lacks further ones."""

COALESCE_S = 0.05
"""Merge interval of repeated updates, in seconds: a server can send a thousand at once."""

MAX_WAITING = 2 * MAX_RESOURCES
"""Notifications that wait for a client; beyond it, the stream ends.

Twice MAX_RESOURCES, as all subscribed resources can change at once.
"""

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_FILTER_KEYS: Mapping[ListKind, str] = {
    ListKind.TOOLS: "toolsListChanged",
    ListKind.PROMPTS: "promptsListChanged",
    ListKind.RESOURCES: "resourcesListChanged",
}


class OnSubscribed(Protocol):
    """Called after a stream has subscribed, with the numbers of lists and resources."""

    def __call__(self, request: McpRequest, *, lists: int, resources: int) -> None:
        """Record the subscription."""
        ...


class SubscriptionFilter(NamedTuple):
    """A client's notification filter."""

    kinds: frozenset[ListKind]
    uris: Sequence[str]

    @classmethod
    def read(cls, value: Any) -> Self:
        """Parse the parameter ``notifications``; unknown keys are ignored. Raises JsonRpcError."""
        if not isinstance(value, Mapping):
            raise JsonRpcError(INVALID_PARAMS, "notifications should be an object")
        for key in _FILTER_KEYS.values():
            if not isinstance(value.get(key), bool | None):
                raise JsonRpcError(INVALID_PARAMS, f"notifications.{key} should be true or false")
        uris = value.get("resourceSubscriptions") or []
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            text = "notifications.resourceSubscriptions should be a list of URIs"
            raise JsonRpcError(INVALID_PARAMS, text)
        return cls(frozenset(kind for kind, key in _FILTER_KEYS.items() if value.get(key)), uris)


class ListenStream:
    """An open stream; its notifications wait until the client reads them."""

    def __init__(self, id_: RequestId, send: SendMessage) -> None:
        self.meta: Json = {SUBSCRIPTION_ID_META_KEY: id_}
        """``_meta`` of every notification and of the result."""
        self._send = send
        self._waiting: deque[tuple[str, Json]] = deque()
        self._is_closed = False
        self._changed = asyncio.Event()

    async def run(self, honored: Json) -> None:
        """Acknowledge the ``honored`` filter, then send notifications until closed."""
        await self._notify(_ACKNOWLEDGED, {"notifications": honored})
        while True:
            while self._waiting:
                await self._notify(*self._waiting.popleft())
            if self._is_closed:
                return
            self._changed.clear()
            await self._changed.wait()

    async def add_list_changes(
        self, wanted: frozenset[ListKind], changed: frozenset[ListKind]
    ) -> None:
        """Add notifications of the ``changed`` lists that are ``wanted``."""
        for kind in ListKind:
            if kind in wanted & changed:
                self._add(kind.changed_method, {})

    async def add_updates(self, uris: frozenset[str]) -> None:
        """Add notifications of updated resources, then wait while further ones are merged."""
        for uri in uris:
            self._add(RESOURCE_UPDATED, {"uri": uri})
        await asyncio.sleep(COALESCE_S)

    def close(self) -> None:
        """End the stream after the client has read the waiting notifications."""
        self._is_closed = True
        self._changed.set()

    def _add(self, method: str, params: Json) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self.close()
        if not self._is_closed:
            self._waiting.append((method, params))
            self._changed.set()

    async def _notify(self, method: str, params: Json) -> None:
        params = {"_meta": self.meta, **params}
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})


class ListenStreams:
    """Open streams: at most ``max_streams``, and ``max_streams_of_tenant`` per tenant."""

    def __init__(
        self,
        list_changes: ListChangeMonitor,
        delivery: Delivery,
        subscriptions: Subscriptions,
        *,
        on_subscribed: OnSubscribed,
        max_streams: int,
        max_streams_of_tenant: int,
    ) -> None:
        self._list_changes = list_changes
        self._delivery = delivery
        self._subscriptions = subscriptions
        self._on_subscribed = on_subscribed
        self._max_streams = max_streams
        self._max_streams_of_tenant = max_streams_of_tenant
        self._open: set[ListenStream] = set()
        self._tenants = TenantCounts()

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self, request: McpRequest, id_: RequestId, wanted: SubscriptionFilter, send: SendMessage
    ) -> Json:
        """Serve a stream until the client leaves or ``close`` ends it; return its result.

        ``send`` notifies the client. Raises MCPError.
        """
        stream = ListenStream(id_, send)
        try:
            self._check_capacity(request.caller.tenant_id)
            self._open.add(stream)
            with self._tenants.counting(request.caller.tenant_id), ExitStack() as subscribed:
                honored = await self._subscribe(stream, request, wanted, subscribed)
                await stream.run(honored)
        except ProxyError as error:
            raise protocol_error(error, request.trace_id, modern=True) from None
        finally:
            self._open.discard(stream)
        return {"_meta": stream.meta}

    def close(self) -> None:
        """End every stream with its result."""
        for stream in tuple(self._open):
            stream.close()

    def _check_capacity(self, tenant_id: str) -> None:
        if len(self._open) >= self._max_streams:
            raise CapacityExceeded(
                f"{self._max_streams} streams are open, which is the limit; close one, or try "
                "again later"
            )
        check_tenant_streams(self._tenants, tenant_id, limit=self._max_streams_of_tenant)

    async def _subscribe(
        self,
        stream: ListenStream,
        request: McpRequest,
        wanted: SubscriptionFilter,
        subscribed: ExitStack,
    ) -> Json:
        """Subscribe a stream to the ``wanted`` filter; return it without failed resources.

        ``subscribed`` ends the subscriptions. Raises AgentNotFound, AgentRequired.
        """
        versions = await self._list_changes.snapshot(request.caller, request.options)
        kinds = wanted.kinds
        uris = await self._subscribe_resources(stream, request, wanted.uris, subscribed)
        subscribed.callback(
            self._list_changes.subscribe(
                request.caller, versions, partial(stream.add_list_changes, kinds)
            )
        )
        self._on_subscribed(request, lists=len(kinds), resources=len(uris))
        honored: Json = {_FILTER_KEYS[kind]: True for kind in ListKind if kind in kinds}
        return honored | ({"resourceSubscriptions": uris} if uris else {})

    async def _subscribe_resources(
        self,
        stream: ListenStream,
        request: McpRequest,
        wanted: Sequence[str],
        subscribed: ExitStack,
    ) -> list[str]:
        subscriber = Subscriber(stream.add_updates)
        subscribed.callback(subscriber.close)
        uris = []
        for uri in wanted[:MAX_RESOURCES]:
            call = request.to_call(Kind.RESOURCE, uri, {})
            on_update = partial(self._delivery.enqueue, subscriber, [uri])
            with suppress(ProxyError):
                subscribed.callback(await self._subscriptions.subscribe(call, on_update))
                uris.append(uri)
        return uris


class SessionSubscriptions:
    """Subscriptions of a session; true while it has subscribed to a resource."""

    __slots__ = (
        "_delivery",
        "_end_lists",
        "_list_changes",
        "_pending",
        "_resources",
        "_send",
        "_subscriptions",
        "known_uris",
    )

    def __init__(
        self,
        list_changes: ListChangeMonitor,
        subscriptions: Subscriptions,
        delivery: Delivery,
        send: SendMessage,
    ) -> None:
        self._list_changes = list_changes
        self._subscriptions = subscriptions
        self._delivery = delivery
        self._send = send
        self.known_uris: Set[str] = frozenset()
        """Known subscriptions of the client, here and at other replicas."""
        self._end_lists: Callable[[], None] | None = None
        self._resources: dict[str, Callable[[], None]] = {}
        self._pending = 0

    def __bool__(self) -> bool:
        return bool(self._resources or self._pending)

    @property
    def uris(self) -> Set[str]:
        """The subscribed resources."""
        return self._resources.keys()

    def subscribe_to_lists(self, caller: Caller, versions: ListVersions) -> None:
        """Send list changes from ``versions`` on; a repeated call has no effect.

        A client can send ``notifications/initialized`` many times.
        """
        if self._end_lists is None:
            self._end_lists = self._list_changes.subscribe(caller, versions, self._send_changes)

    def unsubscribe_from_lists(self) -> None:
        """Stop sending list changes."""
        if self._end_lists is not None:
            self._end_lists()
            self._end_lists = None

    async def subscribe(self, request: McpRequest, uri: str) -> None:
        """Send updates of a resource until unsubscribed. Raises JsonRpcError.

        Subscribing again has no effect.
        """
        if uri in self._resources:
            return
        followed = len(self._resources.keys() | (self.known_uris - {uri}))
        if followed + self._pending >= MAX_RESOURCES:
            raise JsonRpcError(
                INVALID_PARAMS,
                f"{MAX_RESOURCES} resources are subscribed to, which is the limit; unsubscribe "
                "from one",
            )
        subscriber: Subscriber[str] = Subscriber(self.send_updates)
        self._pending += 1
        try:
            unsubscribe = await self._subscriptions.subscribe(
                request.to_call(Kind.RESOURCE, uri, {}),
                lambda: self._delivery.enqueue(subscriber, [uri]),
            )
        except ProxyError as error:
            raise protocol_error(error, request.trace_id, modern=request.modern) from None
        finally:
            self._pending -= 1

        def cancel() -> None:
            unsubscribe()
            subscriber.close()

        if uri in self._resources:  # two such requests ran concurrently
            cancel()
        else:
            self._resources[uri] = cancel

    def unsubscribe(self, uri: str) -> None:
        """End the subscription of a resource, if it exists."""
        cancel = self._resources.pop(uri, None)
        if cancel is not None:
            cancel()

    def cancel_all(self) -> None:
        """End every subscription."""
        self.unsubscribe_from_lists()
        for cancel in self._resources.values():
            cancel()
        self._resources.clear()

    async def _send_changes(self, changed: frozenset[ListKind]) -> None:
        for kind in ListKind:
            if kind in changed:
                await self._send({"jsonrpc": "2.0", "method": kind.changed_method})

    async def send_updates(self, uris: Set[str]) -> None:
        """Notify the client of updated resources."""
        for uri in uris:
            params = {"uri": uri}
            await self._send({"jsonrpc": "2.0", "method": RESOURCE_UPDATED, "params": params})
