"""Makes a call wait while its server is being connected to for the first time (contract §6).

Until that first attempt is over the server's items are in no registry, so a call for one of them
would be refused as unknown right after every start.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from mcp_tools_proxy.domain.audit.registry_version import RegistryVersion
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import (
    NotAllowed,
    PromptNotFound,
    ProxyError,
    ResourceNotFound,
    ServerUnavailable,
    ToolNotFound,
)
from mcp_tools_proxy.domain.kept_errors import without_frames
from mcp_tools_proxy.policy.guards.screen import GuardSet
from mcp_tools_proxy.policy.item_reasons import ItemReasons
from mcp_tools_proxy.registry.component_table import HasSpec
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.wire.uris import has_own_scheme

NOT_RESOLVED = (NotAllowed, ToolNotFound, PromptNotFound, ResourceNotFound)
"""The errors of a registry for a name that resolves to nothing that the caller may use."""

T = TypeVar("T", bound=HasSpec)
Find = Callable[[Registry, Call], T]
"""Resolves in a registry what a call names. Raises ProxyError."""


class PendingServers(Protocol):
    """The downstream servers, as far as their first connection attempts are concerned."""

    @property
    def pending(self) -> Collection[str]:
        """The ids of the servers whose first connection attempt is not over."""
        ...

    def undiscovered(self, kind: Kind) -> Mapping[str, ServerUnavailable]:
        """Return what calls are to servers that were tried and never listed items of this kind."""
        ...

    async def wait_first_attempt(self, server_id: str, waited_s: float, tenant_id: str) -> None:
        """Wait, as a call in flight of a tenant, until this server's first attempt is over.

        ``waited_s`` is how much of the call's time was used up before. Raises ServerBusy;
        ServerUnavailable when the attempt failed or the call's time ran out first.
        """
        ...


def _invalid(server_id: str, reasons: ItemReasons) -> ServerUnavailable:
    """Return what a call is to a server whose entry is invalid."""
    status = reasons.statuses().get(server_id)
    return ServerUnavailable(
        f"{reasons.of_server(server_id).text}; tell an operator",
        details={"server_id": server_id},
        reason=None if status is None else "; ".join(status.problems),
    )


class FirstAttempts:
    """Resolves what calls name; a call that may name an item of a pending server waits for it."""

    def __init__(
        self,
        registry: RegistryHolder,
        servers: PendingServers,
        clock: Callable[[], float] = time.monotonic,
        *,
        list_wait_s: float = 0.0,
    ) -> None:
        """Create it; a list over MCP waits for servers for ``list_wait_s`` seconds at most."""
        self._list_wait_s = list_wait_s
        self._registry = registry
        self._servers = servers
        self._clock = clock

    @property
    def registry_version(self) -> RegistryVersion:
        """The version of the registry in which the next call is resolved."""
        return self._registry.current.version

    @property
    def guards(self) -> GuardSet | None:
        """The guards in force; None if none is on."""
        return self._registry.current.guards

    def pending_for(
        self, caller: Caller, kind: Kind, registry: Registry | None = None
    ) -> Sequence[str]:
        """Return the pending servers that may yet have items of this kind for ``caller``.

        In the registry in force, unless another is given. Raises AgentNotFound, AgentRequired.
        """
        pending = self._servers.pending
        if not pending:
            return ()
        registry = registry or self._registry.current
        permissions = registry.access_rules.permissions_of(caller)
        return [it for it in pending if registry.pending_offers.may_list(it, kind, permissions)]

    async def wait_until_listed(self, caller: Caller, kind: Kind) -> None:
        """Wait until the offers of the servers that a list may have items of are known.

        Many clients list once, right after the start. A server that was tried, or whose items of an
        earlier run are known, is not waited for. Raises AgentNotFound, AgentRequired.
        """
        if not self._list_wait_s or not self._has_unknown(caller, kind):
            return
        replaced = asyncio.Event()
        unsubscribe = self._registry.subscribe(replaced.set)
        try:
            async with asyncio.timeout(self._list_wait_s):
                while self._has_unknown(caller, kind):
                    await replaced.wait()
                    replaced.clear()
        except TimeoutError:
            return
        finally:
            unsubscribe()

    def _has_unknown(self, caller: Caller, kind: Kind) -> bool:
        registry = self._registry.current
        pending = self.pending_for(caller, kind, registry)
        return any(not registry.knows(server_id) for server_id in pending)

    async def find(self, call: Call, find: Find[T]) -> tuple[T, Call]:
        """Resolve the call now, or wait for its server: ``find_unless_pending``, then ``wait``."""
        found = self.find_unless_pending(call, find)
        return await self.wait(call, find) if found is None else (found, call)

    def find_unless_pending(self, call: Call, find: Find[T]) -> T | None:
        """Return what ``find`` finds for the call, or None if a server has to be waited for.

        Separate from ``wait`` so that the hot path awaits nothing. Raises what ``find`` raises, and
        ServerUnavailable for an item that the preset names of a server that was never discovered.
        """
        registry = self._registry.current
        try:
            found = find(registry, call)
        except NOT_RESOLVED:
            if not self._candidates(call, self._servers.pending):
                self._raise_if_undiscovered(call)
                raise
            return None
        return found if found.spec.server_id not in registry.remembered else None

    async def wait(self, call: Call, find: Find[T]) -> tuple[T, Call]:
        """Wait for the servers that may offer what the call names, and resolve the call.

        Returns what ``find`` finds, and the call with ``waited_s`` set. Raises what ``find``
        raises; ServerBusy or ServerUnavailable if all those servers' first attempts failed.
        """
        started = self._clock()
        failures: dict[str, ProxyError] = {}
        while True:
            waited_s = self._clock() - started
            registry = self._registry.current
            try:
                found = find(registry, call)
                server_id = found.spec.server_id
                if server_id is None or server_id not in registry.remembered:
                    return found, replace(call, waited_s=waited_s)
                servers = [] if server_id in failures else [server_id]
            except NOT_RESOLVED:
                candidates = self._candidates(call, self._servers.pending)
                servers = [it for it in candidates if it not in failures]
                if not servers and not failures:
                    self._raise_if_undiscovered(call)
                    raise
            if not servers:
                raise next(iter(failures.values()))
            failures |= await self._first_of(servers, waited_s, call.caller.tenant_id)

    def _raise_if_undiscovered(self, call: Call) -> None:
        """Raise ServerUnavailable if the call names an item that its server never listed.

        That may last for days: where a preset names no items of this kind, such a server would be
        the answer to every unknown name.
        """
        registry = self._registry.current
        if not registry.pending_offers.are_named(call.kind):
            return
        unavailable, offers = self._servers.undiscovered(call.kind), registry.unlisted_offers
        for server_id in self._candidates(call, [*unavailable, *offers.invalid_servers]):
            raise unavailable.get(server_id) or _invalid(server_id, offers.reasons)

    def _candidates(self, call: Call, servers: Collection[str]) -> Sequence[str]:
        """Return those of the undiscovered servers that may offer what the call names.

        None for the full name or alias of a present tool: such a name never means another (A-19).
        """
        registry, kind, name = self._registry.current, call.kind, call.name
        if not servers or (kind is Kind.TOOL and registry.tools.owns(name)):
            return ()
        if kind is Kind.RESOURCE and has_own_scheme(name):
            return ()
        permissions = registry.access_rules.permissions_of(call.caller)
        return [
            it for it in servers if registry.pending_offers.may_offer(it, kind, name, permissions)
        ]

    async def _first_of(
        self, servers: Sequence[str], waited_s: float, tenant_id: str
    ) -> dict[str, ProxyError]:
        """Wait until the first attempt of any of the servers is over; return failures by server."""
        failures: dict[str, ProxyError] = {}
        over = asyncio.Event()

        async def wait(server_id: str) -> None:
            try:
                await self._servers.wait_first_attempt(server_id, waited_s, tenant_id)
            except ProxyError as error:
                failures[server_id] = without_frames(error)
            over.set()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(wait(server_id)) for server_id in servers]
            await over.wait()
            for task in tasks:
                task.cancel()
        return failures
