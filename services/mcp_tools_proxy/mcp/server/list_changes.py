"""Notifies connected clients when a list that they see has changed.

A registry is replaced after any change, so each client's lists are compared by entity tags. They
depend on its agent, on whether it has a tenant, and on whether it has exactly one document.

Each client has a sending task, so a slow one neither delays others nor accumulates work: its
pending changes are merged. It is kept, since dropping its notifications would leave its lists stale
until the next change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from hashlib import sha256
from typing import Generic, TypeVar

import structlog

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder

log = structlog.get_logger()


T = TypeVar("T")


class Subscriber(Generic[T]):
    """A notification target; ``send`` receives all pending items as one batch.

    Items added during a send form the next batch.
    """

    def __init__(self, send: Callable[[frozenset[T]], Awaitable[None]]) -> None:
        self._send = send
        self._pending: set[T] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, items: Iterable[T], tasks: asyncio.TaskGroup) -> None:
        """Add pending items, which a task of ``tasks`` sends."""
        self._pending.update(items)
        if self._pending and (self._task is None or self._task.done()):
            self._task = tasks.create_task(self._send_pending())

    def close(self) -> None:
        """Drop pending items, as the client has left."""
        if self._task is not None:
            self._task.cancel()

    async def _send_pending(self) -> None:
        """Send batches until no item is pending; log a failure, as after the stream has ended."""
        try:
            while self._pending:
                batch, self._pending = frozenset(self._pending), set()
                await self._send(batch)
        except Exception as error:  # noqa: BLE001 - the client has left
            log.debug("facade.not_told", error=type(error).__name__)


class Delivery:
    """Owns the sending tasks. Items enqueued while ``run`` does not run are dropped."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    def enqueue(self, subscriber: Subscriber[T], items: Iterable[T]) -> None:
        """Add pending ``items`` for ``subscriber``, and send them in the background."""
        if self._tasks is not None:
            subscriber.add(items, self._tasks)

    async def run(self) -> None:
        """Keep the task group open until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None


class ListKind(Enum):
    """The lists with a ``list_changed`` notification; templates belong to resources."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"

    @property
    def changed_method(self) -> str:
        """The method of the notification."""
        return f"notifications/{self.value}/list_changed"


@dataclass(frozen=True, slots=True)
class ListVersions:
    """Entity tags of a caller's lists in ``registry``; empty while nothing can be listed.

    ``options`` applies to the lists.
    """

    registry: Registry | None = None
    etags: Mapping[ListKind, str] = field(default_factory=dict)
    options: ListOptions = SERVER_NAMES

    @property
    def digest(self) -> bytes:
        """Four bytes that, except for rare collisions, change with any of the lists."""
        tags = ";".join(self.etags.get(kind, "") for kind in ListKind)
        return sha256(tags.encode()).digest()[:4]


OnChange = Callable[[frozenset[ListKind]], Awaitable[None]]
"""Notifies a client of changed lists."""


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
        """Return the current versions for ``caller``. Raises AgentNotFound, AgentRequired."""
        return await _snapshot(self._registry.current, caller, options)

    async def snapshot_or_empty(
        self, caller: Caller, options: ListOptions = SERVER_NAMES
    ) -> ListVersions:
        """Return the current versions for ``caller``, empty ones if listing fails."""
        return await _snapshot_or_empty(self._registry.current, caller, options)

    def subscribe(
        self, caller: Caller, versions: ListVersions, send: OnChange
    ) -> Callable[[], None]:
        """Call ``send`` at each change of the lists of ``caller``, starting from ``versions``.

        Uses the list options of ``versions``. Returns a function that ends the subscription. A
        change between snapshot and subscription is not lost.
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
        self._changed.set()  # compare clients that subscribed earlier
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
    permissions, lists = registry.access_rules.permissions_of(caller), registry.listings
    prompts = await lists.prompts.list_for(permissions)
    resources = await lists.resources.list_for(permissions)
    templates = await lists.templates.list_for(permissions)
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
    except ProxyError:  # its agent was removed
        pass
    except Exception:
        log.exception("facade.look_crashed")
    return ListVersions(registry, options=options)
