"""The session with one server: an owner task connects, discovers, monitors and reconnects.

A separate task enters and leaves each connection: a slow close then delays nothing, and the SDK's
contexts raise RuntimeError if another task leaves them (seen with mcp 2.3).
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import CredentialsInsufficient, LoginRequired
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.downstream.caller_values import CallerDial, CallerValues
from mcp_tools_proxy.downstream.circuit_breaker import CircuitBreakers
from mcp_tools_proxy.downstream.client_input import SuspendedCalls
from mcp_tools_proxy.downstream.connection import (
    FAULTS,
    AccessRefused,
    ConnectAttempt,
    Connection,
    ConnectionFailure,
    Dial,
    NotUsableAsConfigured,
    ServerOutput,
    reason_of,
)
from mcp_tools_proxy.downstream.discovery import (
    counts_of,
    discover,
    log_change,
    log_connected,
)
from mcp_tools_proxy.downstream.known_definitions import KnownDefinitions
from mcp_tools_proxy.downstream.request_sender import CallLimit, ConnectionState, RequestSender
from mcp_tools_proxy.downstream.resource_subscriptions import ResourceSubscriptions
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics

PROVEN_S = 5.0
"""A connection that lived this long, or answered a call, resets the back-off when it is lost."""

RECONNECT = Backoff(first_s=0.3, longest_s=30.0, least_share=0.0, shortest_s=0.05)
"""Pauses before reconnecting: a restarted server is back within half a second."""

REFRESH_RETRY_S = 30.0

FAILED_RETRY_S = 300.0
"""Pause before retrying a server that is unusable as configured."""

LOGIN_RETRY_S = 2.0

REFUSED_RETRY_S = 30.0

COALESCE_S = 0.2
"""Time to collect ``list_changed`` notifications for one discovery."""

Lease = Callable[[Caller, float], AbstractAsyncContextManager[tuple["ReconnectingSession", float]]]
"""Keeps a caller's own session with a server open while the context is entered.

Takes the seconds that the call has waited; yields the session, and the seconds including this wait.
Entering raises IdentityRequired, ServerBusy, ServerUnavailable.
"""

_CLOSED = "its session is closed"

Dialled = AbstractAsyncContextManager[Connection]


OpenInTask = Callable[[Dialled], AbstractAsyncContextManager[Connection]]
"""Keeps a connection open while its context is entered; leaving only begins to close it."""


log = structlog.get_logger()


class ReconnectingSession:
    """Connection, last good snapshot and calls in flight of one server.

    ``run`` is the owner task. ``on_change`` is awaited when the snapshot's content has changed, and
    returns when callers can use it. ``inherited`` is the snapshot of an earlier session, stale
    until the first discovery. ``clock`` returns seconds, ``jitter`` 0 … 1.
    """

    def __init__(
        self,
        config: ServerConfig,
        dial: Dial,
        metrics: ServerMetrics,
        *,
        on_change: Callable[[], Awaitable[None]],
        inherited: Snapshot | None = None,
        subscriptions: ResourceSubscriptions | None = None,
        suspended_calls: SuspendedCalls | None = None,
        caller_values: CallerValues | None = None,
        caller: Caller | None = None,
        call_limit: CallLimit | None = None,
        known_definitions: KnownDefinitions | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self.metrics = metrics
        self.clock = clock
        self.first_attempt_over = asyncio.Event()
        """Set when the first attempt to connect has succeeded or failed."""
        self.snapshot = inherited
        """Last good discovery; before the first one that of an earlier run, or None."""
        self.subscriptions = subscriptions or ResourceSubscriptions()
        """Kept when this session is replaced."""
        self.suspended_calls = suspended_calls or SuspendedCalls()
        self._is_offer_inherited = inherited is not None
        self.caller_values = caller_values or CallerValues()
        self._known_definitions = known_definitions
        self._kept: Snapshot | None = None
        self._caller_dial = CallerDial(dial, self.caller_values, caller)
        self._on_change = on_change
        self._now = now
        self._jitter = jitter
        self.connection_state = ConnectionState(config.server_id, clock, config.label)
        self.lease: Lease | None = None
        """Opens the sessions of tenants or users; None if all callers use this one."""
        self.on_tools: Callable[[], None] | None = None
        self.call_limit = call_limit or CallLimit(config)
        self._breakers = (
            CircuitBreakers(config, metrics, clock) if config.breaker_failures else None
        )
        self.sender = RequestSender(
            config,
            self.connection_state,
            self.subscriptions,
            clock,
            self.caller_values,
            limit=self.call_limit,
            breakers=self._breakers,
        )
        self._lists_changed = asyncio.Event()
        self._output = ServerOutput()
        self._refresh_error: str | None = None
        self._was_listed = False
        self._status = ServerStatus(
            server_id=config.server_id,
            state=ServerState.CONNECTING,
            transport=config.transport,
            original_id=config.original_id,
        )

    def __repr__(self) -> str:
        state = self._status.state.value
        in_flight = self.sender.in_flight
        return f"<ReconnectingSession {self.config.server_id} {state} {in_flight=}>"

    @property
    def is_pending(self) -> bool:
        """Whether the first attempt is not over, and no earlier session discovered the server."""
        return not self._is_offer_inherited and not self.first_attempt_over.is_set()

    @property
    def needs_login(self) -> bool:
        """Whether the server is still undiscovered because a login is missing."""
        return self.snapshot is None and self._status.state is ServerState.LOGIN_REQUIRED

    @property
    def is_legacy(self) -> bool:
        """Whether the server is known to send client requests during calls."""
        return self.connection_state.is_legacy

    @property
    def status(self) -> ServerStatus:
        """Current status, for operators and metrics."""
        up = self.connection_state.connection is not None
        return replace(
            self._status,
            state=self.connection_state.shown(self._status.state),
            last_error=self._problem if up else self._last_error,
            reason=None if up else self.connection_state.error,
            stale=self._is_stale,
            counts=counts_of(self.snapshot) if self.snapshot else {},
        )

    @property
    def _problem(self) -> str | None:
        return (self._breakers and self._breakers.problem) or self._refresh_error

    @property
    def _last_error(self) -> str | None:
        error = self.connection_state.error_for_operators
        return None if error is None else self._output.added_to(error)

    def _with_address(self, error: str) -> str:
        address = self.config.address
        return f"{address}: {error}" if address else error

    def check_circuit(self, tenant_id: str) -> None:
        """Raise ServerUnavailable if the circuit refuses a tenant's calls."""
        if self._breakers is not None:
            self._breakers.check(tenant_id)

    def detach(self) -> None:
        """Stop reporting metrics and changes: the session was replaced, or its server removed."""
        self.metrics.close()
        self._on_change = _nothing
        # releases the waiting calls, which then find the session's successor
        self.first_attempt_over.set()

    async def run(self) -> None:
        """Connect and reconnect until cancelled, also when the server fails."""
        async with owner_tasks() as open_in_task, asyncio.TaskGroup() as tasks:
            recalling = tasks.create_task(self._recall())
            try:
                await self._stay_connected(open_in_task)
            finally:
                recalling.cancel()
                self.connection_state.mark_lost(_CLOSED)
                self.connection_state.mark_down_until(self.clock())
                if self._breakers is not None:
                    self._breakers.close()

    async def _recall(self) -> None:
        """Show the lists of an earlier run until the first connection.

        The first attempt does not wait for a slow disk.
        """
        if self._known_definitions is None or not self.is_pending:
            return
        remembered = await self._known_definitions.load(self.config)
        if remembered is not None and self._is_unknown:
            self.snapshot = remembered
            await self._on_change()

    @property
    def _is_unknown(self) -> bool:
        """Whether the server has neither an offer nor a failed attempt."""
        return self.is_pending and self.snapshot is None

    async def _keep_definitions(self) -> None:
        snapshot, kept = self.snapshot, self._kept
        if self._known_definitions is None or snapshot is None or snapshot.failed_lists:
            return
        if snapshot != kept:
            self._kept = snapshot
            await self._known_definitions.save(self.config, snapshot)

    async def _stay_connected(self, open_in_task: OpenInTask) -> None:
        unproven_attempts = 0
        while True:
            self.connection_state.mark_connecting()
            await self._wait_wanted()
            failure: ConnectionFailure | None = None
            try:
                proven = await self._run_connection(open_in_task)
                unproven_attempts = 0 if proven else unproven_attempts
            except ConnectionFailure as error:
                failure = without_frames(error)
            pause_s = RECONNECT.pause_s(unproven_attempts, self._jitter)
            pause_s = _pause_after(failure, pause_s)
            self._note_attempts(self._status.attempts + (failure is not None), pause_s)
            if failure is not None:
                await self._connect_failed(failure, pause_s)
            elif unproven_attempts:
                self.connection_state.mark_down_until(self.clock() + pause_s)
            unproven_attempts += 1
            needs_login = _needs_login(failure)
            await self.connection_state.wait_retry(pause_s, needs_login=needs_login)
            self._note_attempts(self._status.attempts)

    def _note_attempts(self, attempts: int, pause_s: float | None = None) -> None:
        next_at = None if pause_s is None else self._now() + timedelta(seconds=pause_s)
        self._status = replace(self._status, attempts=attempts, next_attempt_at=next_at)

    async def _run_connection(self, open_in_task: OpenInTask) -> bool:
        """Connect and serve until the connection is lost; return whether it had proven itself.

        Raises ConnectionFailure if the attempt failed.
        """
        async with AsyncExitStack() as stack:
            connection = await self._connect(stack, open_in_task)
            since, answer_count = self.clock(), self.sender.answer_count
            reason = _CLOSED
            try:
                reason = await self._monitor(connection)
            finally:
                self.connection_state.mark_lost(reason, for_operators=self._with_address(reason))
                self._status = replace(self._status, state=ServerState.RECONNECTING, era=None)
                self._update_metrics()
            log.warning("server.lost", server_id=self.config.server_id, reason=reason)
        return self.sender.answer_count > answer_count or self.clock() - since >= PROVEN_S

    async def _connect(self, stack: AsyncExitStack, open_in_task: OpenInTask) -> Connection:
        """Dial and discover, both within the connect time-out. Raises ConnectionFailure."""
        started, timeout_s = self.clock(), self.config.connect_timeout_s
        self._lists_changed.clear()
        limit = asyncio.timeout(timeout_s)
        attempt = ConnectAttempt(
            limit,
            self.config,
            first_start=not self._was_started,
            waits_for_place=self._waits_for_place,
        )
        try:
            async with limit:
                dialled = self._caller_dial.dial(
                    self.config, self._lists_changed.set, self._output, attempt
                )
                connection = await stack.enter_async_context(open_in_task(dialled))
                snapshot = await self._discover(connection, attempt.list_timeout_s)
        except ConnectionFailure:
            raise
        except TimeoutError as fault:
            raise attempt.timeout from fault
        except FAULTS as fault:
            raise ConnectionFailure(reason_of(fault, timeout_s=timeout_s)) from fault
        self.connection_state.mark_connected(connection)
        await self._accept_snapshot(snapshot)
        again = self._status.connect_s is not None
        self._status = replace(
            self._status,
            state=ServerState.READY,
            sign_in_command=None,
            attempts=0,
            era=connection.era,
            transport=connection.transport,
            connect_s=self.clock() - started,
            reconnects=self._status.reconnects + again,
        )
        if again:
            self.metrics.reconnected()
        self.first_attempt_over.set()
        log_connected(self.status)
        return connection

    async def _monitor(self, connection: Connection) -> str:
        async with asyncio.TaskGroup() as tasks:
            refreshing = tasks.create_task(self._refresh_loop(connection))
            subscribing = tasks.create_task(connection.sync_subscriptions(self.subscriptions))
            wait_until_dead = self.connection_state.wait_until_dead(
                connection, self.config.connect_timeout_s
            )
            losses = [
                tasks.create_task(connection.wait_lost()),
                tasks.create_task(wait_until_dead),
                tasks.create_task(self.connection_state.wait_reconnect_wanted()),
                tasks.create_task(self._wait_outdated()),
                tasks.create_task(self._wait_login_missed()),
            ]
            lost, _ = await asyncio.wait(losses, return_when=asyncio.FIRST_COMPLETED)
            for task in (refreshing, subscribing, *losses):
                task.cancel()
        return lost.pop().result()

    async def _wait_outdated(self) -> str:
        await self._caller_dial.wait_secrets_changed(self.config)
        await self.sender.drain(self.config.call_timeout_s)
        return "a secret that it was opened with changed"

    async def _wait_login_missed(self) -> str:
        """Wait until a call found no login and the calls are over; the state then shows it."""
        await self.connection_state.login_missed.wait()
        await self.sender.drain(self.config.call_timeout_s)
        return "the login has ended"

    async def _wait_wanted(self) -> None:
        """Wait until a connection is needed: always, to notice changes of the offer."""

    async def _discover(self, connection: Connection, timeout_s: float) -> Snapshot:
        is_first, self._was_listed = not self._was_listed, True
        return await discover(
            connection, self.discovered, timeout_s=timeout_s, include_undeclared=is_first
        )

    @property
    def discovered(self) -> Snapshot | None:
        """The last good discovery since the start."""
        return None if self.snapshot is None or self.snapshot.is_remembered else self.snapshot

    async def _refresh_loop(self, connection: Connection) -> None:
        while True:
            await self._keep_definitions()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_before_refreshing()):
                    await self._lists_changed.wait()
                    await asyncio.sleep(COALESCE_S)
            self._lists_changed.clear()
            try:
                snapshot = await self._discover(connection, self.config.connect_timeout_s)
            except ConnectionFailure as fault:
                self._discovery_failed(fault.reason)
            else:
                await self._accept_snapshot(snapshot)

    def _pause_before_refreshing(self) -> float | None:
        """Return the seconds until the next discovery, ±10 % so that servers are not in step.

        None if the interval is 0, unless a failed discovery has to be repeated.
        """
        interval_s = self.config.refresh_interval_s
        if self._refresh_error is not None:
            interval_s = min(interval_s or REFRESH_RETRY_S, REFRESH_RETRY_S)
        return interval_s * (0.9 + 0.2 * self._jitter()) if interval_s else None

    async def _accept_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot; await ``on_change`` only if its content is new."""
        known = self.snapshot
        if snapshot.failed_lists:
            self._discovery_failed("; ".join(f"{k}: {v}" for k, v in snapshot.failed_lists.items()))
        else:
            self._refresh_error = None
        if not snapshot.failed_lists or self._status.discovered_at is None:
            self._status = replace(self._status, discovered_at=self._now())
        # equal content: keep the old objects, whose identity is the key of compiled checks of tools
        if known is not None and snapshot == known:
            self.snapshot = replace(known, failed_lists=snapshot.failed_lists, is_remembered=False)
            self._update_metrics()
            if known.is_remembered:
                await self._on_change()
            return
        self.snapshot = snapshot
        self._update_metrics()
        log_change(self.config.server_id, known, snapshot)
        if self.on_tools is not None:
            self.on_tools()
        await self._on_change()

    def _discovery_failed(self, reason: str) -> None:
        """Record a failed list. The known items stay, and the connection is probed."""
        if reason != self._refresh_error:
            log.warning("server.discovery_failed", server_id=self.config.server_id, reason=reason)
        self._refresh_error = reason
        self.metrics.discovery_failed()
        if self.connection_state.connection is not None:
            self.connection_state.probe_later(self.connection_state.connection)
        self._update_metrics()

    async def _connect_failed(self, fault: ConnectionFailure, pause_s: float) -> None:
        was_pending = self.is_pending
        self.snapshot = self.discovered
        was_known = _needs_login(fault) and self._status.state is ServerState.LOGIN_REQUIRED
        self._status = replace(
            self._status, state=self._state_after(fault), sign_in_command=_sign_in_command(fault)
        )
        for_operators = self._with_address(fault.for_operators)
        self.connection_state.mark_lost(fault.reason, for_operators=for_operators)
        self.connection_state.mark_down_until(self.clock() + pause_s)
        self.first_attempt_over.set()
        self._update_metrics()
        if not was_known:
            log.warning(
                "server.connect_failed",
                server_id=self.config.server_id,
                reason=for_operators,
                next_try_s=round(pause_s, 2),
            )
        if was_pending:
            await self._on_change()

    def _state_after(self, fault: ConnectionFailure) -> ServerState:
        if isinstance(fault, NotUsableAsConfigured) or _is_refused(fault):
            return ServerState.FAILED
        if _needs_login(fault):
            return ServerState.LOGIN_REQUIRED
        was_connected = self._status.connect_s is not None
        return ServerState.RECONNECTING if was_connected else ServerState.UNREACHABLE

    @property
    def _was_started(self) -> bool:
        """Whether the server was connected before, so that its program is installed."""
        return self._status.connect_s is not None

    @property
    def _waits_for_place(self) -> bool:
        """Whether a start waits for a place; calls to a lost server should not wait."""
        return not self._was_started

    @property
    def _is_stale(self) -> bool:
        is_sound = self.connection_state.connection is not None and self._refresh_error is None
        return self.snapshot is not None and not is_sound

    def _update_metrics(self) -> None:
        self.metrics.set_status(
            up=self.connection_state.connection is not None, stale=self._is_stale
        )


def _pause_after(failure: ConnectionFailure | None, pause_s: float) -> float:
    if isinstance(failure, NotUsableAsConfigured):
        return FAILED_RETRY_S
    if _needs_login(failure):
        return LOGIN_RETRY_S
    if _is_refused(failure):
        return max(pause_s, REFUSED_RETRY_S)
    retry_after_s = None if failure is None else failure.retry_after_s
    return max(pause_s, retry_after_s or 0.0)


def _needs_login(failure: ConnectionFailure | None) -> bool:
    return isinstance(failure, AccessRefused) and isinstance(failure.error, LoginRequired)


def _sign_in_command(failure: ConnectionFailure) -> str | None:
    match failure:
        case AccessRefused(error=LoginRequired(command=command)):
            return command
        case _:
            return None


def _is_refused(failure: ConnectionFailure | None) -> bool:
    return isinstance(failure, AccessRefused) and isinstance(failure.error, CredentialsInsufficient)


async def _nothing() -> None:
    """Ignore a change."""


@asynccontextmanager
async def owner_tasks() -> AsyncIterator[OpenInTask]:
    """Yield the function that opens connections in separate tasks; wait until all are closed.

    Exceptions outside FAULTS are defects of this program, and propagate.
    """
    owners: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:

        @asynccontextmanager
        async def open_in_task(dialled: Dialled) -> AsyncIterator[Connection]:
            opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            released = asyncio.Event()
            owner = tasks.create_task(_own(dialled, opened, released))
            owners.add(owner)
            owner.add_done_callback(owners.discard)
            try:
                yield await opened
            finally:
                released.set()
                if opened.cancelled():  # cancelled before the connection was open
                    owner.cancel()

        try:
            yield open_in_task
        finally:
            # wait first: on an error the task group would cancel the owners while they close
            if owners:
                await asyncio.wait(owners)


async def _own(
    dialled: Dialled, opened: asyncio.Future[Connection], released: asyncio.Event
) -> None:
    """Open a connection, hold it until ``released``, and close it, all in this task.

    ``opened`` gets the connection, or the fault. A cancellation before ``released`` comes from a
    library, and becomes an error.
    """
    try:
        async with dialled as connection:
            if not opened.done():
                opened.set_result(connection)
            await released.wait()
    except FAULTS as fault:
        if not opened.done():
            opened.set_exception(fault)
    except asyncio.CancelledError:
        if released.is_set():
            raise
        raise RuntimeError("the task that holds a link was cancelled by a library") from None
