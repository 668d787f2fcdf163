"""The listeners to the resources of one server, independent of its present connection."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mcp_tools_proxy.policy.tenant_share import tenant_share

MAX_SUBSCRIBED = 1000
"""Upper bound of subscribed resources of one server."""

MAX_SUBSCRIBED_BY_TENANT = tenant_share(MAX_SUBSCRIBED)
"""One tenant's share of MAX_SUBSCRIBED."""

OnUpdate = Callable[[], None]
"""Called on the event loop when a resource changed, or may have; must neither raise nor block."""


@dataclass(eq=False, slots=True)
class _Subscription:
    """The listeners to one resource, and the server's answer once ``decided`` is set."""

    listeners: dict[object, OnUpdate] = field(default_factory=dict)
    tenants: Counter[str] = field(default_factory=Counter)
    """How many of the listeners belong to each tenant."""
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Exception | None = None


class ResourceSubscriptions:
    """The listeners to one server's resources, by URI. Each connection subscribes to these URIs."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """Set at the next change of ``uris``, when a fresh event replaces it."""
        self._subscriptions: dict[str, _Subscription] = {}
        self._of_tenant: Counter[str] = Counter()
        """How many resources each tenant has subscribed to."""

    def __repr__(self) -> str:
        return f"<ResourceSubscriptions {len(self._subscriptions)} resources>"

    @property
    def uris(self) -> frozenset[str]:
        """The URIs that have listeners."""
        return frozenset(self._subscriptions)

    def has_capacity(self, uri: str, tenant_id: str) -> bool:
        """Return whether a tenant may subscribe; a second listener to a resource costs nothing."""
        watch = self._subscriptions.get(uri)
        if watch is not None and watch.tenants[tenant_id]:
            return True
        if self._of_tenant[tenant_id] >= MAX_SUBSCRIBED_BY_TENANT:
            return False
        return watch is not None or len(self._subscriptions) < MAX_SUBSCRIBED

    async def subscribe(self, uri: str, listener: OnUpdate, tenant_id: str) -> Callable[[], None]:
        """Add a listener; return the function that removes it, once the server has confirmed.

        Raises the server's refusal. The wait is not bounded in time.
        """
        watch, key = self._subscriptions.get(uri), object()
        if watch is None:
            watch = self._subscriptions[uri] = _Subscription()
            self._change()
        watch.listeners[key] = listener
        watch.tenants[tenant_id] += 1
        self._of_tenant[tenant_id] += watch.tenants[tenant_id] == 1

        def leave() -> None:
            if watch.listeners.pop(key, None) is None:
                return
            watch.tenants[tenant_id] -= 1
            if not watch.tenants[tenant_id]:
                self._of_tenant[tenant_id] -= 1
                self._of_tenant += Counter()  # drops tenants without any
            if not watch.listeners:
                del self._subscriptions[uri]
                self._change()

        try:
            await watch.decided.wait()
        except asyncio.CancelledError:
            leave()
            raise
        if watch.refusal is not None:
            leave()
            raise watch.refusal
        return leave

    def _change(self) -> None:
        previous, self.changed = self.changed, asyncio.Event()
        previous.set()

    def confirm(self, uri: str, refusal: Exception | None = None) -> None:
        """Record that the server accepted a subscription, or refused it with ``refusal``."""
        watch = self._subscriptions.get(uri)
        if watch is not None:
            watch.refusal = refusal
            watch.decided.set()

    def confirmed(self) -> frozenset[str]:
        """Return the URIs that the server accepted before.

        After a reconnect their listeners may have missed updates.
        """
        return frozenset(
            uri for uri, watch in self._subscriptions.items() if watch.decided.is_set()
        )

    def on_updated(self, uri: str | None) -> None:
        """Notify the listeners to a resource, and to those it is a part of; None stands for all."""
        self.notify(known for known in self._subscriptions if uri is None or _is_part(uri, known))

    def notify(self, uris: Iterable[str]) -> None:
        """Call the listeners to these resources."""
        for uri in tuple(uris):
            if (watch := self._subscriptions.get(uri)) is not None:
                for listener in tuple(watch.listeners.values()):
                    listener()


def _is_part(uri: str, known: str) -> bool:
    return uri == known or uri.startswith(known.rstrip("/") + "/")
