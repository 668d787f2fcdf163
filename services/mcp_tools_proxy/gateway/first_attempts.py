"""Delays calls until the first connection attempt to their server has ended (contract §6).

Before that, no registry contains the server's items, and calls right after a start would be refused
as unknown.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import (
    NotAllowed,
    PromptNotFound,
    ProxyError,
    ResourceNotFound,
    ServerUnavailable,
    ToolNotFound,
)
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.policy.aliases import alias_of, impersonates_server, qualified_name
from mcp_tools_proxy.policy.visibility import Offers, Permissions
from mcp_tools_proxy.registry.component_table import HasSpec
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.wire.uris import has_own_scheme

NOT_RESOLVED = (NotAllowed, ToolNotFound, PromptNotFound, ResourceNotFound)
"""Registry errors for a name that resolves to no item of the caller."""

T = TypeVar("T", bound=HasSpec)
Find = Callable[[Registry, Call], T]
"""Resolves a call in a registry. Raises ProxyError."""


class PendingServers(Protocol):
    """First connection attempts of the downstream servers."""

    @property
    def pending(self) -> Collection[str]:
        """Ids of servers whose first connection attempt is in progress."""
        ...

    def undiscovered(self, kind: Kind) -> Mapping[str, ServerUnavailable]:
        """Return the errors of calls to servers that were tried but never listed items of this
        kind.
        """
        ...

    async def wait_first_attempt(self, server_id: str, waited_s: float, tenant_id: str) -> None:
        """Wait, as a call in flight of a tenant, for the end of the server's first attempt.

        ``waited_s`` is the part of the call's time already used. Raises ServerBusy;
        ServerUnavailable if the attempt fails or the call's time runs out.
        """
        ...


class FirstAttempts:
    """Resolves calls; a call that can match an item of a pending server waits for this server."""

    def __init__(
        self,
        registry: RegistryHolder,
        servers: PendingServers,
        clock: Callable[[], float] = time.monotonic,
        *,
        list_wait_s: float = 0.0,
    ) -> None:
        """Initialize; lists over MCP wait for servers for at most ``list_wait_s`` seconds."""
        self._list_wait_s = list_wait_s
        self.registry = registry
        """Holder of the current registry."""
        self._servers = servers
        self._clock = clock

    def pending_for(
        self, caller: Caller, kind: Kind, registry: Registry | None = None
    ) -> Sequence[str]:
        """Return the pending servers that may offer items of this kind to ``caller``.

        Uses the current registry by default. Raises AgentNotFound, AgentRequired.
        """
        pending = self._servers.pending
        if not pending:
            return ()
        registry = registry or self.registry.current
        permissions = registry.access_rules.permissions_of(caller)
        return [it for it in pending if _may_list(registry.offers, it, kind, permissions)]

    async def wait_until_listed(self, caller: Caller, kind: Kind) -> None:
        """Wait until the offers of pending servers with listable items are known.

        Many clients list once, right after the start. Does not wait for servers that were tried or
        whose items are known from an earlier run. Raises AgentNotFound, AgentRequired.
        """
        if not self._list_wait_s or not self._has_unknown(caller, kind):
            return
        replaced = asyncio.Event()
        unsubscribe = self.registry.subscribe(replaced.set)
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
        registry = self.registry.current
        pending = self.pending_for(caller, kind, registry)
        return any(server_id not in registry.offers.snapshots for server_id in pending)

    async def find(self, call: Call, find: Find[T]) -> tuple[T, Call]:
        """Resolve the call, waiting for its server if necessary."""
        found = self.find_unless_pending(call, find)
        return await self.wait(call, find) if found is None else (found, call)

    def find_unless_pending(self, call: Call, find: Find[T]) -> T | None:
        """Return the item that ``find`` finds, or None if the call has to wait for a server.

        Separate from ``wait`` so that the hot path does not await. Raises the errors of ``find``,
        and ServerUnavailable for an item named by the preset whose server was never discovered.
        """
        registry = self.registry.current
        try:
            found = find(registry, call)
        except NOT_RESOLVED:
            if not self._candidates(call, self._servers.pending):
                self._raise_if_undiscovered(call)
                raise
            return None
        return found if found.spec.server_id not in registry.remembered else None

    async def wait(self, call: Call, find: Find[T]) -> tuple[T, Call]:
        """Wait for the servers that may offer the item, and resolve the call.

        Each round resolves in the current registry. If that fails, it waits for the first of the
        candidate servers' attempts to end, and then tries again; a server that failed is not
        awaited again. Returns the item, and the call with ``waited_s`` set. Raises the errors of
        ``find``; ServerBusy or ServerUnavailable if all candidates failed.
        """
        started = self._clock()
        failures: dict[str, ProxyError] = {}
        while True:
            waited_s = self._clock() - started
            registry = self.registry.current
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

        Only if the preset names items of this kind: otherwise such a server, which can be
        unavailable for days, would be reported for every unknown name.
        """
        offers = self.registry.current.offers
        if offers.scope.named(call.kind) is None:
            return
        unavailable = self._servers.undiscovered(call.kind)
        for server_id in self._candidates(call, [*unavailable, *offers.invalid_servers]):
            raise unavailable.get(server_id) or _invalid(server_id, offers)

    def _candidates(self, call: Call, servers: Collection[str]) -> Sequence[str]:
        """Return those of the undiscovered servers that may offer the item of the call.

        Empty for the full name or alias of a present tool, which never means another (A-19).
        """
        registry, kind, name = self.registry.current, call.kind, call.name
        if not servers or (kind is Kind.TOOL and registry.tools.owns(name)):
            return ()
        if kind is Kind.RESOURCE and has_own_scheme(name):
            return ()
        permissions = registry.access_rules.permissions_of(call.caller)
        return [it for it in servers if may_offer(registry.offers, it, kind, name, permissions)]

    async def _first_of(
        self, servers: Sequence[str], waited_s: float, tenant_id: str
    ) -> dict[str, ProxyError]:
        """Wait for the end of any of the servers' first attempts; return failures by server."""
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


def may_offer(offers: Offers, server_id: str, kind: Kind, name: str, caller: Permissions) -> bool:
    """Return whether ``name`` can be an item of an undiscovered server visible to ``caller``.

    Such items are in no table, so preset, exclusions and profile decide alone (contract §6).
    """
    if kind is Kind.RESOURCE and offers.excludes_uri(server_id, name, caller):
        return False
    names = _bare_names(offers, server_id, kind, name)
    return any(offers.may_show(caller, kind, server_id, it) for it in names)


def _may_list(offers: Offers, server_id: str, kind: Kind, caller: Permissions) -> bool:
    """Return whether an undiscovered server may have items for the caller's list."""
    named = offers.scope.named(kind)
    if named is None:
        return server_id in offers.scope.servers and caller.visibility.may_allow(kind, server_id)
    of_server = (name for named_id, name in named if named_id == server_id)
    return any(offers.may_show(caller, kind, server_id, it) for it in of_server)


def _bare_names(offers: Offers, server_id: str, kind: Kind, name: str) -> Iterator[str]:
    """Yield the names that the server may use for the item ``name`` of a caller."""
    prefix = qualified_name(server_id, "")
    bare_names = [] if impersonates_server(kind, server_id, name, offers.servers) else [name]
    if name.startswith(prefix):
        bare_names.append(name[len(prefix) :])
    yield from bare_names
    scope = offers.scope
    renamed = scope.renamed(kind, name)
    if renamed is not None and renamed[0] == server_id:
        yield renamed[1]
    if kind is Kind.TOOL:
        tools = (tool for named_id, tool in scope.tools if named_id == server_id)
        yield from (tool for tool in tools if alias_of(server_id, tool) == name)
    elif kind is Kind.RESOURCE:
        for named_id, template in scope.resources or ():
            begin, brace, _ = template.partition("{")
            if named_id == server_id and brace and any(it.startswith(begin) for it in bare_names):
                yield template


def _invalid(server_id: str, offers: Offers) -> ServerUnavailable:
    status = offers.statuses().get(server_id)
    return ServerUnavailable(
        f"{offers.server_reason(server_id).text}; tell an operator",
        details={"server_id": server_id},
        reason=None if status is None else "; ".join(status.problems),
    )
