"""Which resources of a server somebody wants to hear of, whatever link there is to it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mcp_tools_proxy.policy.tenant_share import tenant_share

MAX_SUBSCRIBED = 1000
"""Resources of one server that are watched at once."""

MAX_SUBSCRIBED_BY_TENANT = tenant_share(MAX_SUBSCRIBED)
"""As many as one tenant may watch."""

OnUpdate = Callable[[], None]
"""Called on the event loop when a resource changed, or may have; it must not raise or wait."""


@dataclass(eq=False, slots=True)
class _Subscription:
    """One resource: who listens, and once ``decided`` how the server took it."""

    listeners: dict[object, OnUpdate] = field(default_factory=dict)
    tenants: Counter[str] = field(default_factory=Counter)
    """How many of the listeners are each tenant's."""
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Exception | None = None


class ResourceSubscriptions:
    """The listeners to one server's resources, by URI; each link subscribes to what is here."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """Set when ``uris`` changes the next time; another one is in its place then."""
        self._subscriptions: dict[str, _Subscription] = {}
        self._of_tenant: Counter[str] = Counter()
        """How many resources each tenant watches."""

    def __repr__(self) -> str:
        return f"<ResourceSubscriptions {len(self._subscriptions)} resources>"

    @property
    def uris(self) -> frozenset[str]:
        """What somebody listens to."""
        return frozenset(self._subscriptions)

    def has_capacity(self, uri: str, tenant_id: str) -> bool:
        """Return whether a tenant may watch a resource; one that it watches already it may."""
        watch = self._subscriptions.get(uri)
        if watch is not None and watch.tenants[tenant_id]:
            return True
        if self._of_tenant[tenant_id] >= MAX_SUBSCRIBED_BY_TENANT:
            return False
        return watch is not None or len(self._subscriptions) < MAX_SUBSCRIBED

    async def subscribe(self, uri: str, listener: OnUpdate, tenant_id: str) -> Callable[[], None]:
        """Listen until what is returned is called; give it once the server has agreed.

        Raises the server's refusal; how long it takes is not bounded.
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
                self._of_tenant += Counter()  # drops who watches nothing
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
        """The server has taken the subscription, or refused it."""
        watch = self._subscriptions.get(uri)
        if watch is not None:
            watch.refusal = refusal
            watch.decided.set()

    def confirmed(self) -> frozenset[str]:
        """Give what the server has taken before: who listens may have missed something since."""
        return frozenset(
            uri for uri, watch in self._subscriptions.items() if watch.decided.is_set()
        )

    def on_updated(self, uri: str | None) -> None:
        """Tell who listens to this resource, or to one that it is a part of; None is any."""
        self.notify(known for known in self._subscriptions if uri is None or _is_part(uri, known))

    def notify(self, uris: Iterable[str]) -> None:
        """Tell who listens to these resources."""
        for uri in tuple(uris):
            if (watch := self._subscriptions.get(uri)) is not None:
                for listener in tuple(watch.listeners.values()):
                    listener()


def _is_part(uri: str, known: str) -> bool:
    return uri == known or uri.startswith(known.rstrip("/") + "/")
