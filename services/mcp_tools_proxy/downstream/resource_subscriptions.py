"""The listeners to the resources of one server, independent of its current connection."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.policy.tenant_share import tenant_share

MAX_SUBSCRIBED = 1000

MAX_SUBSCRIBED_BY_TENANT = tenant_share(MAX_SUBSCRIBED)

OnUpdate = Callable[[], None]
"""Called on the event loop when a resource changed, or may have; must neither raise nor block."""


@dataclass(eq=False, slots=True)
class _Subscription:
    listeners: dict[object, OnUpdate] = field(default_factory=dict)
    tenants: Counter[str] = field(default_factory=Counter)
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Exception | None = None


class ResourceSubscriptions:
    """The listeners to one server's resources, by URI. Each connection subscribes to these URIs."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """Set at the next change of ``uris``, then replaced by a new event."""
        self._subscriptions: dict[str, _Subscription] = {}
        self._of_tenant: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<ResourceSubscriptions {len(self._subscriptions)} resources>"

    @property
    def uris(self) -> frozenset[str]:
        """The URIs that have listeners."""
        return frozenset(self._subscriptions)

    def has_capacity(self, uri: str, tenant_id: str) -> bool:
        """Return whether a tenant may subscribe; always True for a resource subscribed before."""
        subscription = self._subscriptions.get(uri)
        if subscription is not None and subscription.tenants[tenant_id]:
            return True
        if self._of_tenant[tenant_id] >= MAX_SUBSCRIBED_BY_TENANT:
            return False
        return subscription is not None or len(self._subscriptions) < MAX_SUBSCRIBED

    async def subscribe(self, uri: str, listener: OnUpdate, tenant_id: str) -> Callable[[], None]:
        """Add a listener, wait for the server's answer, and return the function that removes it.

        Raises the server's refusal. The wait is unlimited.
        """
        subscription, key = self._subscriptions.get(uri), object()
        if subscription is None:
            subscription = self._subscriptions[uri] = _Subscription()
            self._signal_change()
        subscription.listeners[key] = listener
        subscription.tenants[tenant_id] += 1
        self._of_tenant[tenant_id] += subscription.tenants[tenant_id] == 1

        def unsubscribe() -> None:
            if subscription.listeners.pop(key, None) is None:
                return
            if _count_out(subscription.tenants, tenant_id):
                _count_out(self._of_tenant, tenant_id)
            if not subscription.listeners:
                del self._subscriptions[uri]
                self._signal_change()

        try:
            await subscription.decided.wait()
        except asyncio.CancelledError:
            unsubscribe()
            raise
        if subscription.refusal is not None:
            unsubscribe()
            raise subscription.refusal
        return unsubscribe

    def _signal_change(self) -> None:
        previous, self.changed = self.changed, asyncio.Event()
        previous.set()

    def record_answer(self, uri: str, refusal: Exception | None = None) -> None:
        """Record that the server accepted a subscription, or its ``refusal``."""
        subscription = self._subscriptions.get(uri)
        if subscription is not None:
            subscription.refusal = refusal and without_frames(refusal)
            subscription.decided.set()

    def confirmed(self) -> frozenset[str]:
        """Return the URIs that the server accepted before.

        After a reconnect their listeners may have missed updates.
        """
        return frozenset(
            uri
            for uri, subscription in self._subscriptions.items()
            if subscription.decided.is_set()
        )

    def on_updated(self, uri: str | None) -> None:
        """Notify the listeners of a resource and of resources that contain it; None means all."""
        self.notify(
            subscribed
            for subscribed in self._subscriptions
            if uri is None or _is_part(uri, subscribed)
        )

    def notify(self, uris: Iterable[str]) -> None:
        """Call the listeners of these resources."""
        for uri in tuple(uris):
            if (subscription := self._subscriptions.get(uri)) is not None:
                for listener in tuple(subscription.listeners.values()):
                    listener()


def _count_out(tenants: Counter[str], tenant_id: str) -> bool:
    """Decrement a tenant's count; return whether it was the last one, and remove its entry."""
    tenants[tenant_id] -= 1
    if tenants[tenant_id]:
        return False
    del tenants[tenant_id]
    return True


def _is_part(uri: str, subscribed: str) -> bool:
    return uri == subscribed or uri.startswith(subscribed.rstrip("/") + "/")
