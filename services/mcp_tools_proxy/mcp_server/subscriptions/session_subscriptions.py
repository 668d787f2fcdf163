"""The subscriptions of one session of the older eras: its lists, and resources."""

from collections.abc import Callable, Set

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp_server.request import McpRequest
from mcp_tools_proxy.mcp_server.results import protocol_error
from mcp_tools_proxy.mcp_server.subscriptions.delivery import Delivery, Subscriber
from mcp_tools_proxy.mcp_server.subscriptions.list_changes import (
    ListChangeMonitor,
    ListKind,
    ListVersions,
)
from mcp_tools_proxy.mcp_server.subscriptions.listen_streams import (
    MAX_RESOURCES,
    RESOURCE_UPDATED,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS


class SessionSubscriptions:
    """What one session is told of by ``send``; true while it has subscribed to a resource."""

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
        """What the client has subscribed to, here or at another replica, as far as is known."""
        self._end_lists: Callable[[], None] | None = None
        self._resources: dict[str, Callable[[], None]] = {}
        """What ends each resource's subscription, by URI."""
        self._pending = 0
        """Number of resources whose subscription is being confirmed."""

    def __bool__(self) -> bool:
        return bool(self._resources or self._pending)

    @property
    def uris(self) -> Set[str]:
        """The resources that are followed."""
        return self._resources.keys()

    def subscribe_to_lists(self, caller: Caller, versions: ListVersions) -> None:
        """Send list changes from ``versions`` on; a repeated call does nothing.

        A client may send ``notifications/initialized`` many times.
        """
        if self._end_lists is None:
            self._end_lists = self._list_changes.subscribe(caller, versions, self._send_changes)

    def unsubscribe_from_lists(self) -> None:
        """Send no more list changes."""
        if self._end_lists is not None:
            self._end_lists()
            self._end_lists = None

    async def subscribe(self, request: McpRequest, uri: str) -> None:
        """Send updates of a resource until unsubscribed. Raises JsonRpcError.

        Subscribing twice is the same as once.
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

        if uri in self._resources:  # two such requests ran at the same time
            cancel()
        else:
            self._resources[uri] = cancel

    def unsubscribe(self, uri: str) -> None:
        """End the subscription of a resource; one that does not exist is no error."""
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
        """Notify the client that resources were updated."""
        for uri in uris:
            params = {"uri": uri}
            await self._send({"jsonrpc": "2.0", "method": RESOURCE_UPDATED, "params": params})
