"""Makes a call wait while its server is being connected to for the first time (contract §6).

Until that first attempt is over the server's items are in no registry, so a call for one of them
would be refused as unknown right after every start.
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
        self.registry = registry
        """Has the registry in which the next call is resolved."""
        self._servers = servers
        self._clock = clock

    def pending_for(
        self, caller: Caller, kind: Kind, registry: Registry | None = None
    ) -> Sequence[str]:
        """Return the pending servers that may yet have items of this kind for ``caller``.

        In the registry in force, unless another is given. Raises AgentNotFound, AgentRequired.
        """
        pending = self._servers.pending
        if not pending:
            return ()
        registry = registry or self.registry.current
        permissions = registry.access_rules.permissions_of(caller)
        return [it for it in pending if _may_list(registry.offers, it, kind, permissions)]

    async def wait_until_listed(self, caller: Caller, kind: Kind) -> None:
        """Wait until the offers of the servers that a list may have items of are known.

        Many clients list once, right after the start. A server that was tried, or whose items of an
        earlier run are known, is not waited for. Raises AgentNotFound, AgentRequired.
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
        """Resolve the call now, or wait for its server: ``find_unless_pending``, then ``wait``."""
        found = self.find_unless_pending(call, find)
        return await self.wait(call, find) if found is None else (found, call)

    def find_unless_pending(self, call: Call, find: Find[T]) -> T | None:
        """Return what ``find`` finds for the call, or None if a server has to be waited for.

        Separate from ``wait`` so that the hot path awaits nothing. Raises what ``find`` raises, and
        ServerUnavailable for an item that the preset names of a server that was never discovered.
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
        """Wait for the servers that may offer what the call names, and resolve the call.

        Returns what ``find`` finds, and the call with ``waited_s`` set. Raises what ``find``
        raises; ServerBusy or ServerUnavailable if all those servers' first attempts failed.
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

        That may last for days: where a preset names no items of this kind, such a server would be
        the answer to every unknown name.
        """
        offers = self.registry.current.offers
        if offers.scope.named(call.kind) is None:
            return
        unavailable = self._servers.undiscovered(call.kind)
        for server_id in self._candidates(call, [*unavailable, *offers.invalid_servers]):
            raise unavailable.get(server_id) or _invalid(server_id, offers)

    def _candidates(self, call: Call, servers: Collection[str]) -> Sequence[str]:
        """Return those of the undiscovered servers that may offer what the call names.

        None for the full name or alias of a present tool: such a name never means another (A-19).
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


def may_offer(offers: Offers, server_id: str, kind: Kind, name: str, caller: Permissions) -> bool:
    """Return whether ``name`` may mean an item of an undiscovered server that ``caller`` may use.

    The items of such a server are in no table yet, so preset, exclusions and profile decide alone
    (contract §6).
    """
    if kind is Kind.RESOURCE and offers.excludes_uri(server_id, name, caller):
        return False
    names = _bare_names(offers, server_id, kind, name)
    return any(offers.may_show(caller, kind, server_id, it) for it in names)


def _may_list(offers: Offers, server_id: str, kind: Kind, caller: Permissions) -> bool:
    """Return whether the caller's list may have an item of an undiscovered server."""
    named = offers.scope.named(kind)
    if named is None:
        return server_id in offers.scope.servers and caller.visibility.may_allow(kind, server_id)
    of_server = (name for named_id, name in named if named_id == server_id)
    return any(offers.may_show(caller, kind, server_id, it) for it in of_server)


def _bare_names(offers: Offers, server_id: str, kind: Kind, name: str) -> Iterator[str]:
    """Yield the names that the server may have for the item that a caller calls ``name``."""
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
    """Return what a call is to a server whose entry is invalid."""
    status = offers.statuses().get(server_id)
    return ServerUnavailable(
        f"{offers.server_reason(server_id).text}; tell an operator",
        details={"server_id": server_id},
        reason=None if status is None else "; ".join(status.problems),
    )
