"""Calls for servers that are being connected to for the first time wait for it (contract §6)."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import (
    NotAllowed,
    PromptNotFound,
    ProxyError,
    ResourceNotFound,
    ToolNotFound,
)
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder

NOT_THERE = (NotAllowed, ToolNotFound, PromptNotFound, ResourceNotFound)
"""How a registry refuses a name that leads to nothing that the caller may use."""

T = TypeVar("T")
Find = Callable[[Registry, Call], T]
"""Looks up in a registry what a call names. Raises ProxyError."""


class PendingServers(Protocol):
    """The servers, as far as their first attempts are concerned."""

    @property
    def pending(self) -> Collection[str]:
        """The ids of the servers that are being connected to for the first time."""
        ...

    async def wait_first_attempt(self, server_id: str, waited_s: float, tenant_id: str) -> None:
        """Wait, as a call in flight of a tenant, until this server's first attempt is over.

        ``waited_s`` of the call's time are over. Raises ServerBusy; ServerUnavailable when the
        attempt failed, or the call's time is over first.
        """
        ...


class FirstAttempts:
    """Looks up what calls name, and lets those wait that may name an item of a pending server."""

    def __init__(
        self,
        registry: RegistryHolder,
        servers: PendingServers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._servers = servers
        self._clock = clock

    def pending_for(self, caller: Caller, kind: Kind) -> Sequence[str]:
        """Name the pending servers of which ``caller`` may yet see items of this kind.

        Raises AgentNotFound, AgentRequired.
        """
        pending = self._servers.pending
        if not pending:
            return ()
        registry = self._registry.current
        viewer = registry.access.viewer_for(caller)
        return [it for it in pending if registry.pending_offers.may_list(it, kind, viewer)]

    async def find(self, call: Call, find: Find[T]) -> tuple[T, Call]:
        """Return what ``find`` finds for the call, now or after waiting, and the call; see both."""
        found = self.find_now(call, find)
        return await self.wait(call, find) if found is None else (found, call)

    def find_now(self, call: Call, find: Find[T]) -> T | None:
        """Return what ``find`` finds for the call; None where a server has to be waited for.

        Apart from ``wait``, because every call comes through here. Raises what ``find`` raises.
        """
        try:
            return find(self._registry.current, call)
        except NOT_THERE:
            if not self._candidates(call):
                raise
        return None

    async def wait(self, call: Call, find: Find[T]) -> tuple[T, Call]:
        """Return what ``find`` finds once its server was tried, and the call.

        The call that is returned knows how long it waited. Raises what ``find`` raises; ServerBusy,
        ServerUnavailable where a server was waited for in vain.
        """
        started = self._clock()
        failures: dict[str, ProxyError] = {}
        while True:
            waited_s = self._clock() - started
            try:
                return find(self._registry.current, call), replace(call, waited_s=waited_s)
            except NOT_THERE:
                servers = [it for it in self._candidates(call) if it not in failures]
                if not servers and not failures:
                    raise
            if not servers:
                raise next(iter(failures.values()))
            failures |= await self._first_of(servers, waited_s, call.caller.tenant_id)

    def _candidates(self, call: Call) -> Sequence[str]:
        """Name the pending servers that may offer what the call names.

        What is the own name of a tool that is there never means another one (A-19).
        """
        registry, kind, name = self._registry.current, call.kind, call.name
        pending = self._servers.pending
        if not pending or (kind is Kind.TOOL and registry.tools.owns(name)):
            return ()
        viewer = registry.access.viewer_for(call.caller)
        return [it for it in pending if registry.pending_offers.may_offer(it, kind, name, viewer)]

    async def _first_of(
        self, servers: Sequence[str], waited_s: float, tenant_id: str
    ) -> dict[str, ProxyError]:
        """Wait until the attempt of one of the servers is over; give those that failed, and why."""
        failures: dict[str, ProxyError] = {}
        over = asyncio.Event()

        async def wait(server_id: str) -> None:
            try:
                await self._servers.wait_first_attempt(server_id, waited_s, tenant_id)
            except ProxyError as error:
                failures[server_id] = error
            over.set()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(wait(server_id)) for server_id in servers]
            await over.wait()
            for task in tasks:
                task.cancel()
        return failures
