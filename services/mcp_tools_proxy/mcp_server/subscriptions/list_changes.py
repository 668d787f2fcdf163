"""Notifies each connected client when a list that this client sees has changed, and only then.

A registry is replaced whenever anything changes anywhere, so a new registry says little. The lists
of a client depend on its agent, on whether it has a tenant, and on whether it has one document
only; their entity tags are compared.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256

import structlog

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.mcp_server.subscriptions.delivery import Delivery, Subscriber
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder

log = structlog.get_logger()


class ListKind(Enum):
    """The lists that have a ``list_changed`` notification; templates belong to resources."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"

    @property
    def changed_method(self) -> str:
        """The notification that this list has changed."""
        return f"notifications/{self.value}/list_changed"


@dataclass(frozen=True, slots=True)
class ListVersions:
    """Entity tags of a caller's lists in ``registry``; empty while nothing can be listed.

    ``options`` is how the lists are written.
    """

    registry: Registry | None = None
    etags: Mapping[ListKind, str] = field(default_factory=dict)
    options: ListOptions = SERVER_NAMES

    @property
    def digest(self) -> bytes:
        """Four bytes that are other ones, but by rare chance, when any of the lists is."""
        tags = ";".join(self.etags.get(kind, "") for kind in ListKind)
        return sha256(tags.encode()).digest()[:4]


OnChange = Callable[[frozenset[ListKind]], Awaitable[None]]
"""Notifies one client of the lists that have changed."""


@dataclass(slots=True)
class _ListSubscription:
    caller: Caller
    versions: ListVersions
    subscriber: Subscriber[ListKind]


class ListChangeMonitor:
    """Compares the lists of all subscribed clients after each change of the registry."""

    def __init__(self, registry: RegistryHolder, delivery: Delivery) -> None:
        self._registry = registry
        self._delivery = delivery
        self._subscriptions: dict[object, _ListSubscription] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._subscriptions)

    async def snapshot(self, caller: Caller, options: ListOptions = SERVER_NAMES) -> ListVersions:
        """Return the versions that ``caller`` sees now. Raises AgentNotFound, AgentRequired."""
        return await _snapshot(self._registry.current, caller, options)

    async def snapshot_or_empty(
        self, caller: Caller, options: ListOptions = SERVER_NAMES
    ) -> ListVersions:
        """Return the versions that ``caller`` sees now, empty ones where it may list nothing."""
        return await _snapshot_or_empty(self._registry.current, caller, options)

    def subscribe(
        self, caller: Caller, versions: ListVersions, send: OnChange
    ) -> Callable[[], None]:
        """Call ``send`` at each change of the lists of ``caller``, starting from ``versions``.

        The lists are those in the style of ``versions``. Returns a function that ends the
        subscription. A change between snapshot and subscription is not lost.
        """
        key = object()
        subscriber = Subscriber(send)
        self._subscriptions[key] = _ListSubscription(caller, versions, subscriber)
        if versions.registry is not self._registry.current:  # replaced since the snapshot
            self._changed.set()

        def cancel() -> None:
            self._subscriptions.pop(key, None)
            subscriber.close()

        return cancel

    async def run(self) -> None:
        """Compare after each change of the registry, until cancelled."""
        unsubscribe = self._registry.subscribe(self._changed.set)
        self._changed.set()  # clients that subscribed before are compared now
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._compare(self._registry.current)
        finally:
            unsubscribe()

    async def _compare(self, registry: Registry) -> None:
        current: dict[object, ListVersions] = {}
        for subscription in tuple(self._subscriptions.values()):
            caller, options = subscription.caller, subscription.versions.options
            has_one_document = registry.access_rules.has_one_document(caller)
            view = (caller.agent, caller.tenant_id == NO_TENANT, has_one_document, options)
            if view not in current:
                current[view] = await _snapshot_or_empty(registry, caller, options)
            now = current[view]
            changed = [
                kind
                for kind in ListKind
                if subscription.versions.etags.get(kind) != now.etags.get(kind)
            ]
            subscription.versions = now
            self._delivery.enqueue(subscription.subscriber, changed)


async def _snapshot(registry: Registry, caller: Caller, options: ListOptions) -> ListVersions:
    tools = await registry.mcp_tools(caller, options)
    prompts = await registry.mcp_prompts(caller)
    resources = await registry.mcp_resources(caller)
    templates = await registry.mcp_templates(caller)
    etags = {
        ListKind.TOOLS: tools.etag,
        ListKind.PROMPTS: prompts.etag,
        ListKind.RESOURCES: resources.etag + templates.etag,
    }
    return ListVersions(registry, etags, options)


async def _snapshot_or_empty(
    registry: Registry, caller: Caller, options: ListOptions
) -> ListVersions:
    try:
        return await _snapshot(registry, caller, options)
    except ProxyError:  # its agent was removed: nothing can be listed any more
        pass
    except Exception:
        log.exception("facade.look_crashed")
    return ListVersions(registry, options=options)
