"""The session of one tenant or user with a server: its connection is open while it is used."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.downstream.connection import Connection, Dial
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.downstream.resource_subscriptions import ResourceSubscriptions


class IsolatedSession(ReconnectingSession):
    """Connects at its first use, and again, after a loss, at the next one.

    It discovers nothing: ``discovery`` is the session whose offer, limits, metrics and clock are
    its own as well. ``on_idle`` is called when the last use is over.
    """

    def __init__(
        self,
        discovery: ReconnectingSession,
        dial: Dial,
        caller: Caller,
        *,
        on_idle: Callable[[], None],
        subscriptions: ResourceSubscriptions | None = None,
    ) -> None:
        super().__init__(
            discovery.config,
            dial,
            discovery.metrics,
            on_change=_nothing,
            inherited=discovery.snapshot,
            subscriptions=subscriptions,
            suspended_calls=discovery.suspended_calls,
            call_limit=discovery.call_limit,
            caller_values=discovery.caller_values,
            caller=caller,
            clock=discovery.clock,
        )
        self.caller = caller
        self.idle_since = self.clock()
        """When it was used last, on its clock."""
        self._discovery = discovery
        self._on_idle = on_idle
        self._uses = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._wanted = asyncio.Event()
        if self.subscriptions.uris:
            self._wanted.set()
        self.sender.on_idle = self.check_idle

    @property
    def is_legacy(self) -> bool:
        """Whether the server is known to send requests to clients in the midst of calls.

        Before the first connection the server is known from its discovery.
        """
        known = self if self.connection_state.connection is not None else self._discovery
        return known.connection_state.is_legacy

    @property
    def is_busy(self) -> bool:
        """Whether a call is in flight or suspended, or a resource subscribed to."""
        return bool(self._uses or self.sender.in_flight or self.subscriptions.uris)

    def begin_use(self) -> None:
        """Count a use, until ``end_use``; it connects for the first one."""
        self._uses += 1
        self._unused.clear()
        self._wanted.set()

    def end_use(self) -> None:
        """Count a use out."""
        self._uses -= 1
        if not self._uses:
            self._unused.set()
        self.check_idle()

    def check_idle(self) -> None:
        """Report that nothing uses it any more, if that is so."""
        if self.is_busy:
            return
        self.idle_since = self.clock()
        self._wanted.clear()
        self._on_idle()

    def adopt_tools(self) -> None:
        """Pass on to the connection what is known of the server's tools."""
        connection, snapshot = self.connection_state.connection, self._discovery.snapshot
        if connection is not None and snapshot is not None:
            connection.adopt_tools(snapshot.tools)

    async def drain(self, timeout_s: float) -> None:
        """Wait until no call uses it, at most ``timeout_s``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._unused.wait()
                await self.sender.drain(timeout_s)

    async def _wait_wanted(self) -> None:
        """Wait for the next use: a lost connection of nobody is not opened again."""
        await self._wanted.wait()

    @property
    def _was_started(self) -> bool:
        """Whether the server was connected before, by this session or by the discovery."""
        return super()._was_started or self._discovery.status.connect_s is not None

    @property
    def _waits_for_place(self) -> bool:
        """Return False: a call opens the session, and waits for it."""
        return False

    async def _discover(self, connection: Connection, timeout_s: float) -> Snapshot:
        """Return what the discovery found, of which the connection needs the tools."""
        snapshot = self._discovery.snapshot or Snapshot()
        connection.adopt_tools(snapshot.tools)
        return snapshot

    async def _accept_snapshot(self, snapshot: Snapshot) -> None:
        """Keep what the discovery found: whether it is new is not for this session to say."""
        self.snapshot = snapshot

    async def _refresh_loop(self, connection: Connection) -> None:
        """Never discover again."""
        await asyncio.Event().wait()

    def _update_metrics(self) -> None:
        """Leave the metrics of the server's status to the discovery."""


async def _nothing() -> None:
    """Ignore a change."""
