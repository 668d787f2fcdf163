"""Who is connected, and what each of them sees: told of a change of it, and of nothing else.

A registry is replaced whenever anything changes anywhere. Whether a client is told depends on its
own lists alone: those of its agent, with or without a tenant.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import structlog

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.mcp_server.notify.delivery import Delivery, Subscriber
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder

log = structlog.get_logger()


class ListKind(Enum):
    """The lists that MCP tells the changes of; templates are resources."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"


@dataclass(frozen=True, slots=True)
class ListVersions:
    """The tags of what somebody saw in ``registry``; none while nothing can be listed."""

    registry: Registry | None = None
    tags: Mapping[ListKind, str] = field(default_factory=dict)


OnChange = Callable[[frozenset[ListKind]], Awaitable[None]]


@dataclass(slots=True)
class _Watcher:
    caller: Caller
    versions: ListVersions
    subscriber: Subscriber[ListKind]


class ListChangeMonitor:
    """Those who want to be told when their lists change; ``run`` tells them."""

    def __init__(self, registry: RegistryHolder, delivery: Delivery) -> None:
        self._registry = registry
        self._delivery = delivery
        self._watchers: dict[object, _Watcher] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._watchers)

    async def snapshot(self, caller: Caller) -> ListVersions:
        """Give what ``caller`` sees now. Raises AgentNotFound, AgentRequired."""
        return await _snapshot(self._registry.current, caller)

    def subscribe(
        self, caller: Caller, versions: ListVersions, send: OnChange
    ) -> Callable[[], None]:
        """Have ``send`` called when ``caller`` sees something else than ``versions``.

        Ends when what is returned is called.
        """
        key = object()
        self._watchers[key] = _Watcher(caller, versions, Subscriber(send))
        if versions.registry is not self._registry.current:  # it was replaced meanwhile
            self._changed.set()

        def leave() -> None:
            self._watchers.pop(key, None)

        return leave

    async def run(self) -> None:
        """Follow the registry until cancelled."""
        stop_listening = self._registry.subscribe(self._changed.set)
        self._changed.set()  # whoever joined before is compared now
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._compare(self._registry.current)
        finally:
            stop_listening()

    async def _compare(self, registry: Registry) -> None:
        current: dict[tuple[str | None, bool], ListVersions] = {}
        for watcher in tuple(self._watchers.values()):
            view = (watcher.caller.agent, watcher.caller.tenant_id == NO_TENANT)
            if view not in current:
                current[view] = await _snapshot_or_empty(registry, watcher.caller)
            now = current[view]
            changed = [
                kind for kind in ListKind if watcher.versions.tags.get(kind) != now.tags.get(kind)
            ]
            watcher.versions = now
            self._delivery.enqueue(watcher.subscriber, changed)


async def _snapshot(registry: Registry, caller: Caller) -> ListVersions:
    tools = await registry.mcp_tools(caller)
    prompts = await registry.mcp_prompts(caller)
    resources = await registry.mcp_resources(caller)
    templates = await registry.mcp_templates(caller)
    tags = {
        ListKind.TOOLS: tools.etag,
        ListKind.PROMPTS: prompts.etag,
        ListKind.RESOURCES: resources.etag + templates.etag,
    }
    return ListVersions(registry, tags)


async def _snapshot_or_empty(registry: Registry, caller: Caller) -> ListVersions:
    try:
        return await _snapshot(registry, caller)
    except ProxyError:  # its agent is gone: there is nothing to list any more
        return ListVersions(registry)
    except Exception:
        log.exception("facade.look_crashed")
        return ListVersions(registry)
