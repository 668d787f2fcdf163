"""One server, kept connected and known by one owner task."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog

from mcp_tools_proxy.aiokits.backoff import pause_before_connecting, pause_before_refreshing
from mcp_tools_proxy.domain.caller import NO_TENANT
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.domain.snapshot import Snapshot
from mcp_tools_proxy.downstream.connection import Connection, ConnectionFailure, Dial
from mcp_tools_proxy.downstream.connection_state import ConnectionState
from mcp_tools_proxy.downstream.discovery.listing import discover
from mcp_tools_proxy.downstream.errors import FAULTS, reason_of
from mcp_tools_proxy.downstream.log_events import counts_of, log_change, log_connected
from mcp_tools_proxy.downstream.owner_tasks import OwnInTask, owner_tasks
from mcp_tools_proxy.downstream.relay.call_relay import CallRelay
from mcp_tools_proxy.downstream.relay.suspended_calls import SuspendedCalls
from mcp_tools_proxy.downstream.request_sender import RequestSender
from mcp_tools_proxy.downstream.subscriptions.resource_subscriptions import (
    OnUpdate,
    ResourceSubscriptions,
)
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics

PROVEN_S = 5.0
"""A link that lived this long, or answered a call, has proven itself: its loss is a first one."""

COALESCE_S = 0.2
"""How long a server's words that its lists changed are collected before they are looked at."""
_CLOSED = "its session is closed"

log = structlog.get_logger()


class Session:
    """What there is of one server: its link, its last good snapshot, the calls in flight.

    ``run`` is the owner task: it connects, and decides when a link is lost; how long that takes to
    close does not hold up the next one. ``on_change`` is called when the snapshot really changed.
    ``inherited`` is what an earlier session of the server knew, stale until the first discovery.
    ``clock`` gives seconds, ``jitter`` 0 … 1.
    """

    def __init__(
        self,
        config: ServerConfig,
        dial: Dial,
        meters: ServerMetrics,
        *,
        on_change: Callable[[], None],
        inherited: Snapshot | None = None,
        subscriptions: ResourceSubscriptions | None = None,
        suspended_calls: SuspendedCalls | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self.meters = meters
        self.clock = clock
        self.tried = asyncio.Event()
        """Set once the first attempt to connect is over, well or not."""
        self.snapshot = inherited
        """What the server offered at its last good discovery; None before the first."""
        self.subscriptions = subscriptions or ResourceSubscriptions()
        """Who listens to which of its resources; an earlier session's, where there was one."""
        self.suspended_calls = suspended_calls or SuspendedCalls()
        self._dial = dial
        self._on_change = on_change
        self._now = now
        self._jitter = jitter
        self.connection_state = ConnectionState(config.server_id, clock)
        self.sender = RequestSender(config, self.connection_state, clock)
        self._lists_changed = asyncio.Event()
        self._refresh_error: str | None = None
        self._status = ServerStatus(
            server_id=config.server_id, state=ServerState.CONNECTING, transport=config.transport
        )

    def __repr__(self) -> str:
        state = self._status.state.value
        return f"<Session {self.config.server_id} {state} in_flight={self.sender.in_flight}>"

    @property
    def status(self) -> ServerStatus:
        """How the server is now."""
        up = self.connection_state.connection is not None
        return replace(
            self._status,
            last_error=self._refresh_error
            if up
            else self.connection_state.error_for_operators or None,
            stale=self._is_stale,
            counts=counts_of(self.snapshot) if self.snapshot else {},
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        repeatable: bool = False,
        idempotent: bool = False,
        relay: CallRelay | None = None,
        tenant_id: str = NO_TENANT,
        waited_s: float = 0.0,
    ) -> Any:
        """Send one request within the server's call time-out, and return its raw result.

        While the server is being connected to, it waits; while the next attempt is further off, it
        fails at once. A ``repeatable`` request is sent once more when it got no answer, any other
        never, nor one whose client was asked. It takes from ``tenant_id``'s share of the calls in
        flight; ``waited_s`` of its time are over already. Raises ServerBusy, ToolTimeout,
        ResultTooLarge, ServerUnavailable (retryable if ``idempotent``, or surely not sent), and
        JsonRpcError for the server's own errors.
        """
        return await self.sender.send(
            method,
            params,
            repeatable=repeatable,
            idempotent=idempotent,
            relay=relay,
            tenant_id=tenant_id,
            waited_s=waited_s,
        )

    async def watch(
        self, uri: str, listener: OnUpdate, tenant_id: str = NO_TENANT
    ) -> Callable[[], None]:
        """Have ``listener`` called when a resource changes, until what is returned is called.

        It outlives links, and this session. Raises as ``request``; JsonRpcError also when there is
        no such thing.
        """
        return await self.sender.watch(self.subscriptions, uri, listener, tenant_id)

    def detach(self) -> None:
        """Stop speaking for the server, which another session has, or nobody wants."""
        self.meters.close()
        self._on_change = lambda: None
        self.tried.set()  # who waits for it looks for what is in its place

    async def run(self) -> None:
        """Connect, stay connected, connect again: until cancelled, whatever the server does."""
        async with owner_tasks() as own:
            try:
                await self._stay_connected(own)
            finally:
                self.connection_state.lost(_CLOSED)
                self.connection_state.unavailable_until(self.clock())

    async def _stay_connected(self, own: OwnInTask) -> None:
        setbacks = 0
        while True:
            self.connection_state.connecting()
            failure: ConnectionFailure | None = None
            try:
                proven = await self._run_connection(own)
                setbacks = 0 if proven else setbacks
            except ConnectionFailure as fault:
                failure = fault
            pause_s = pause_before_connecting(setbacks, self._jitter)
            if failure is not None:
                self._connect_failed(failure, pause_s)
            elif setbacks:
                self.connection_state.unavailable_until(self.clock() + pause_s)
            setbacks += 1
            await asyncio.sleep(pause_s)

    async def _run_connection(self, own: OwnInTask) -> bool:
        """Connect and serve until the link is lost; tell whether the link had proven itself.

        Raises ConnectionFailure when it did not even connect.
        """
        async with AsyncExitStack() as stack:
            connection = await self._connect(stack, own)
            since, answered = self.clock(), self.sender.answered
            reason = _CLOSED
            try:
                reason = await self._monitor(connection)
            finally:
                self.connection_state.lost(reason)
                self._status = replace(self._status, state=ServerState.RECONNECTING, era=None)
                self._update_metrics()
            log.warning("server.lost", server_id=self.config.server_id, reason=reason)
        return self.sender.answered > answered or self.clock() - since >= PROVEN_S

    async def _connect(self, stack: AsyncExitStack, own: OwnInTask) -> Connection:
        """Dial and discover, both within the connect time-out. Raises ConnectionFailure."""
        started, timeout_s = self.clock(), self.config.connect_timeout_s
        self._lists_changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                dialled = self._dial(self.config, self._lists_changed.set)
                connection = await stack.enter_async_context(own(dialled))
                snapshot = await discover(connection, self.snapshot, timeout_s=timeout_s)
        except ConnectionFailure:
            raise
        except FAULTS as fault:
            raise ConnectionFailure(reason_of(fault, timeout_s=timeout_s)) from fault
        again = self._status.state is ServerState.RECONNECTING
        self._status = replace(
            self._status,
            state=ServerState.READY,
            era=connection.era,
            transport=connection.transport,
            connect_s=self.clock() - started,
            reconnects=self._status.reconnects + again,
        )
        if again:
            self.meters.reconnected()
        self.connection_state.connected(connection)
        self._accept_snapshot(snapshot)
        self.tried.set()
        log_connected(self.status)
        return connection

    async def _monitor(self, connection: Connection) -> str:
        """Keep the snapshot fresh until the link is lost, and say why it was."""
        async with asyncio.TaskGroup() as chores:
            refreshing = chores.create_task(self._refresh_loop(connection))
            following = chores.create_task(connection.sync_subscriptions(self.subscriptions))
            wait_until_dead = self.connection_state.wait_until_dead(
                connection, self.config.connect_timeout_s
            )
            losses = [
                chores.create_task(connection.wait_lost()),
                chores.create_task(wait_until_dead),
            ]
            lost, _ = await asyncio.wait(losses, return_when=asyncio.FIRST_COMPLETED)
            for chore in (refreshing, following, *losses):
                chore.cancel()
        return lost.pop().result()

    async def _refresh_loop(self, connection: Connection) -> None:
        """Discover again when the server says that its lists changed, and now and then anyway."""
        while True:
            with suppress(TimeoutError):
                interval_s, failed = self.config.refresh_interval_s, self._refresh_error is not None
                pause_s = pause_before_refreshing(interval_s, self._jitter, failed=failed)
                async with asyncio.timeout(pause_s):
                    await self._lists_changed.wait()
                    await asyncio.sleep(COALESCE_S)
            self._lists_changed.clear()
            try:
                snapshot = await discover(
                    connection, self.snapshot, timeout_s=self.config.connect_timeout_s
                )
            except ConnectionFailure as fault:
                self._discovery_failed(fault.reason)
            else:
                self._accept_snapshot(snapshot)

    def _accept_snapshot(self, snapshot: Snapshot) -> None:
        """Make ``snapshot`` the current one; tell others only if it says something new."""
        known = self.snapshot
        if snapshot.failed:
            self._discovery_failed("; ".join(f"{k}: {v}" for k, v in snapshot.failed.items()))
        else:
            self._refresh_error = None
        if not snapshot.failed or self._status.discovered_at is None:
            self._status = replace(self._status, discovered_at=self._now())
        if known is not None and snapshot == known:  # keep the objects that others hold
            self.snapshot = replace(known, failed=snapshot.failed)
            self._update_metrics()
            return
        self.snapshot = snapshot
        self._update_metrics()
        log_change(self.config.server_id, known, snapshot)
        self._on_change()

    def _discovery_failed(self, reason: str) -> None:
        """Note that a list could not be had; what is known stays, and the link is suspect."""
        if reason != self._refresh_error:
            log.warning("server.discovery_failed", server_id=self.config.server_id, reason=reason)
        self._refresh_error = reason
        self.meters.discovery_failed()
        if self.connection_state.connection is not None:
            self.connection_state.probe_later(self.connection_state.connection)
        self._update_metrics()

    def _connect_failed(self, fault: ConnectionFailure, pause_s: float) -> None:
        self.connection_state.lost(fault.reason, for_operators=fault.for_operators)
        self.connection_state.unavailable_until(self.clock() + pause_s)
        self.tried.set()
        self._update_metrics()
        log.warning(
            "server.connect_failed",
            server_id=self.config.server_id,
            reason=fault.for_operators,
            next_try_s=round(pause_s, 2),
        )

    @property
    def _is_stale(self) -> bool:
        is_sound = self.connection_state.connection is not None and self._refresh_error is None
        return self.snapshot is not None and not is_sound

    def _update_metrics(self) -> None:
        self.meters.show(up=self.connection_state.connection is not None, stale=self._is_stale)
