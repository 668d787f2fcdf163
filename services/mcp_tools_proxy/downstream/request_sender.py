"""Requests to a server: limits of calls in flight, deadline, one repetition.

``ConnectionState`` is shared by a session's owner task and the senders of requests.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.client import note_sent
from mcp_tools_proxy.domain.errors import (
    LoginRequired,
    ResultTooLarge,
    ServerBusy,
    ServerUnavailable,
    ToolTimeout,
)
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.server import (
    STILL_CONNECTING,
    ServerConfig,
    ServerState,
    unavailable_text,
)
from mcp_tools_proxy.downstream.caller_values import CallerValues
from mcp_tools_proxy.downstream.circuit_breaker import CircuitBreakers
from mcp_tools_proxy.downstream.connection import (
    AccessRefused,
    CallHeaders,
    ClosedUnanswered,
    Connection,
    ConnectionFailure,
    Relay,
    ResponseTooLarge,
    SessionLost,
)
from mcp_tools_proxy.downstream.resource_subscriptions import (
    MAX_SUBSCRIBED,
    MAX_SUBSCRIBED_BY_TENANT,
    OnUpdate,
    ResourceSubscriptions,
)
from mcp_tools_proxy.policy.tenant_share import tenant_share
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS, METHOD_NOT_FOUND


class _Repeat(Enum):
    """When to repeat a request; one that a lost session did not execute is always repeated."""

    NEVER = auto()
    IF_CLOSED = auto()
    """If the connection was closed before any byte of the answer."""
    ALWAYS = auto()


def _is_sent_again(fault: ConnectionFailure, repeat: _Repeat, relay: Relay | None) -> bool:
    if relay is not None and relay.request_count:
        return False
    if repeat is _Repeat.ALWAYS or (isinstance(fault, SessionLost) and not fault.sent):
        return True
    return repeat is _Repeat.IF_CLOSED and isinstance(fault, ClosedUnanswered)


class CallLimit:
    """Calls in flight at one server, across all of its sessions."""

    def __init__(self, config: ServerConfig) -> None:
        self.in_flight = 0
        self._of_tenant: dict[str, int] = {}
        self._tenant_limit = config.max_calls_in_flight_per_tenant or tenant_share(
            config.max_calls_in_flight
        )
        self._config = config

    def __repr__(self) -> str:
        return f"<CallLimit {self._config.server_id} in_flight={self.in_flight}>"

    def enter(self, tenant_id: str) -> None:
        """Count a call until ``leave``. Raises ServerBusy."""
        if self.in_flight >= self._config.max_calls_in_flight:
            raise self._busy()
        of_tenant = self._of_tenant.get(tenant_id, 0)
        if of_tenant >= self._tenant_limit:
            raise self._busy_for_tenant()
        self.in_flight += 1
        self._of_tenant[tenant_id] = of_tenant + 1

    def leave(self, tenant_id: str) -> None:
        """End the count of a call."""
        self.in_flight -= 1
        of_tenant = self._of_tenant.pop(tenant_id) - 1
        if of_tenant:  # idle tenants have no entry: the number of tenants is unlimited
            self._of_tenant[tenant_id] = of_tenant

    def _busy(self) -> ServerBusy:
        server_id, limit = self._config.server_id, self._config.max_calls_in_flight
        return ServerBusy(
            f"server {server_id} has reached its limit of {limit} running calls; try again when "
            "some of them have finished",
            details={"server_id": server_id, "max_calls_in_flight": limit},
        )

    def _busy_for_tenant(self) -> ServerBusy:
        server_id, limit = self._config.server_id, self._tenant_limit
        return ServerBusy(
            f"your tenant has reached its limit of {limit} running calls on server {server_id}; "
            "try again when some of them have finished",
            details={"server_id": server_id, "max_calls_in_flight_per_tenant": limit},
        )


class RequestSender:
    """Sender of requests over the current connection of one server; ``clock`` returns seconds.

    ``limit`` can be shared by several sessions.
    """

    def __init__(
        self,
        config: ServerConfig,
        connection_state: "ConnectionState",
        subscriptions: ResourceSubscriptions,
        clock: Callable[[], float],
        caller_values: CallerValues | None = None,
        *,
        limit: CallLimit | None = None,
        breakers: CircuitBreakers | None = None,
    ) -> None:
        self.in_flight = 0
        self.answer_count = 0
        self._config = config
        self._needs_caller = config.needs_caller
        self._connection_state = connection_state
        self._subscriptions = subscriptions
        self._clock = clock
        self._caller_values = caller_values or CallerValues()
        self._limit = limit or CallLimit(config)
        self._breakers = breakers
        self.on_idle: Callable[[], None] | None = None
        """Called at the end of the last call in flight, and of a subscription."""
        self._idle = asyncio.Event()
        self._idle.set()

    async def send(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        repeatable: bool = False,
        idempotent: bool = False,
        relay: Relay | None = None,
        tenant_id: str = NO_TENANT,
        waited_s: float = 0.0,
        caller: Caller | None = None,
    ) -> Any:
        """Send one request within the server's call time-out and return its raw result.

        The request waits for an attempt to connect; in the pause between two attempts it fails at
        once. Unless its client was asked for input, it is sent once more if it got no answer and is
        ``repeatable``; if it is ``idempotent`` and the connection was closed before any byte of an
        answer; or if it was not executed because the session was lost.

        The request counts towards the share of ``tenant_id`` in the calls in flight. ``waited_s``
        seconds of the time-out are spent already. ``caller`` provides the headers that the server's
        entry requires. Raises ServerBusy, ToolTimeout, ResultTooLarge, ServerUnavailable (retryable
        if ``idempotent``, or if nothing can have been sent), JsonRpcError for the server's own
        errors, and IdentityRequired or CredentialsMissing before anything is sent.
        """
        headers = None
        if caller is not None and self._needs_caller:
            headers = await self._headers_of(caller)
        deadline = self._clock() + self._config.call_timeout_s - waited_s
        self._enter(tenant_id)
        try:
            repeat = _Repeat.IF_CLOSED if idempotent else _Repeat.NEVER
            repeat = _Repeat.ALWAYS if repeatable else repeat
            if self._breakers is None:
                return await self._send(method, params, relay, headers, repeat, deadline)
            with self._breakers.entered(tenant_id) as breaker, breaker.observing():
                return await self._send(method, params, relay, headers, repeat, deadline)
        except AccessRefused as fault:
            raise fault.error from fault
        except ConnectionFailure as fault:
            may_be_done = fault.sent and not (repeatable or idempotent)
            raise self._connection_state.unavailable(
                fault.reason, may_be_done=may_be_done, retry_after_s=fault.retry_after_s
            ) from fault
        except TimeoutError:
            late = self._late()
            raise (late if repeatable or idempotent else late.after_sending()) from None
        except ResponseTooLarge as error:
            raise self._too_large(error) from None
        finally:
            self._leave(tenant_id)

    async def _headers_of(self, caller: Caller) -> CallHeaders:
        try:
            headers = await self._caller_values.for_call(self._config, caller)
        except LoginRequired:
            self._connection_state.note_login_missing()
            raise
        self._connection_state.note_login()
        return headers

    async def wait(self, event: asyncio.Event, waited_s: float, tenant_id: str) -> bool:
        """Wait for an event, counted as a call in flight; return False on time-out.

        ``waited_s`` seconds of the call's time-out are spent already. Raises ServerBusy.
        """
        self._enter(tenant_id)
        try:
            async with asyncio.timeout(self._config.call_timeout_s - waited_s):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            self._leave(tenant_id)
        return True

    def _enter(self, tenant_id: str) -> None:
        self._limit.enter(tenant_id)
        self.in_flight += 1
        self._idle.clear()

    def _leave(self, tenant_id: str) -> None:
        self._limit.leave(tenant_id)
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()
            if self.on_idle is not None:
                self.on_idle()

    async def subscribe(
        self, uri: str, listener: OnUpdate, tenant_id: str = NO_TENANT
    ) -> Callable[[], None]:
        """Subscribe ``listener`` to changes of a resource; return the function that unsubscribes.

        The subscription outlives connections and the session. Raises as ``send``, and JsonRpcError
        for an unknown resource.
        """
        deadline = self._clock() + self._config.call_timeout_s
        state = self._connection_state
        connection = state.decided or await state.wait_for_decision(deadline)
        resources = connection.capabilities.get("resources")
        if not isinstance(resources, Mapping) or not resources.get("subscribe"):
            raise JsonRpcError(
                METHOD_NOT_FOUND,
                "the server has no resource subscriptions; read the resource again instead",
            )
        if not self._subscriptions.has_capacity(uri, tenant_id):
            raise self._too_many_subscriptions()
        try:
            async with asyncio.timeout(deadline - self._clock()):
                unsubscribe = await self._subscriptions.subscribe(uri, listener, tenant_id)
        except TimeoutError:
            raise self._late() from None
        return self._reporting_idle(unsubscribe)

    def _reporting_idle(self, unsubscribe: Callable[[], None]) -> Callable[[], None]:
        on_idle = self.on_idle
        if on_idle is None:
            return unsubscribe

        def unsubscribe_and_report() -> None:
            unsubscribe()
            on_idle()

        return unsubscribe_and_report

    async def drain(self, timeout_s: float) -> None:
        """Wait until no call is in flight, at most ``timeout_s``. New calls are still accepted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    async def _send(
        self,
        method: str,
        params: Mapping[str, Any],
        relay: Relay | None,
        call_headers: CallHeaders | None,
        repeat: _Repeat,
        deadline: float,
    ) -> Any:
        """Send the request, and repeat it if ``repeat`` allows.

        Raises ConnectionFailure if the last try got no answer, ToolTimeout if no connection was
        ready, and TimeoutError later.
        """
        state = self._connection_state
        connection = state.decided or await self._wait_connected(deadline)
        is_first = True
        while True:
            note_sent()
            try:
                answer = await connection.request(
                    method,
                    params,
                    timeout_s=deadline - self._clock(),
                    relay=relay,
                    call_headers=call_headers,
                )
            except AccessRefused:
                raise  # concerns this request alone
            except ConnectionFailure as fault:
                state.probe_after(fault, connection)
                if not is_first or not _is_sent_again(fault, repeat, relay):
                    raise
                is_first = False
                connection = await state.wait_for_decision(deadline)
            except TimeoutError:
                state.probe_later(connection)
                raise
            else:
                self.answer_count += 1
                return answer

    def _too_many_subscriptions(self) -> ServerBusy:
        server_id = self._config.server_id
        return ServerBusy(
            f"server {server_id} has reached its limit of {MAX_SUBSCRIBED} subscribed resources, "
            f"{MAX_SUBSCRIBED_BY_TENANT} for one tenant; unsubscribe from some, or try again "
            "later",
            details={"server_id": server_id},
        )

    def _late(self) -> ToolTimeout:
        server_id, limit = self._config.server_id, self._config.call_timeout_s
        return ToolTimeout(
            f"server {server_id} did not answer within {limit:g} s; ask for less at a time",
            details={"server_id": server_id, "timeout_s": limit},
        )

    async def _wait_connected(self, deadline: float) -> Connection:
        try:
            return await self._connection_state.wait_for_decision(deadline)
        except TimeoutError:
            pass
        server_id, limit = self._config.server_id, self._config.call_timeout_s
        error = ToolTimeout(
            f"server {server_id} could not be connected to within {limit:g} s; try again later",
            details={"server_id": server_id, "timeout_s": limit},
        )
        error.nothing_ran = True
        raise error

    def _too_large(self, error: ResponseTooLarge) -> ResultTooLarge:
        server_id = self._config.server_id
        details = {"server_id": server_id, "max_result_bytes": error.max_bytes}
        return ResultTooLarge(
            f"the answer from server {server_id} is over {error.limit}; ask for less at a time",
            details=without_none(details),
        )


PING_S = 5.0

SOONEST_RETRY_S = 0.1


class ConnectionState:
    """State of the connection: callers get the connection, or wait for the owner task's decision.

    It is undecided while the owner task is about to connect, or probes the connection. ``error`` is
    the reason for a missing connection, for callers; ``error_for_operators`` may add an internal
    address. ``clock`` returns seconds; ``label`` is the server's name in errors.
    """

    def __init__(
        self, server_id: str, clock: Callable[[], float], label: str | None = None
    ) -> None:
        self.connection: Connection | None = None
        self.error = STILL_CONNECTING
        self.error_for_operators: str | None = None
        self.probe_requested = asyncio.Event()
        """Set by callers, cleared by the owner task with the ping."""
        self._server_id = server_id
        self._label = label or server_id
        self._clock = clock
        self._retry_at = 0.0
        self._decided = asyncio.Event()
        self._needs_login = False
        self._retry_now = asyncio.Event()
        self._reconnect_wanted = asyncio.Event()
        """Set from a request to reconnect until an attempt begins or succeeds."""
        self.login_missed = asyncio.Event()
        """Set while the last call found no login."""

    def note_login_missing(self) -> None:
        """Record that a call found no login, which ends the connection."""
        if self.connection is not None:
            self.login_missed.set()

    def note_login(self) -> None:
        """Record that a call found a login; if it was missing, start the next attempt at once."""
        self.login_missed.clear()
        if self._needs_login:
            self._needs_login = False
            self.mark_connecting()
            self._retry_now.set()

    def request_reconnect(self) -> None:
        """Close and reopen the connection, or start the next attempt at once.

        An attempt that is under way counts if it succeeds, so repeated requests are one.
        """
        self._reconnect_wanted.set()
        self._retry_now.set()
        if self.connection is None:
            self.mark_connecting()

    def shown(self, state: ServerState) -> ServerState:
        """Return ``state`` for operators: reconnecting if a ready connection is about to end."""
        is_ending = state is ServerState.READY and self._reconnect_wanted.is_set()
        return ServerState.RECONNECTING if is_ending else state

    # For the owner task

    def mark_connecting(self) -> None:
        """Mark an attempt as under way or about to begin; callers wait for it."""
        self._decided.clear()

    def mark_connected(self, connection: Connection) -> None:
        """Publish ``connection`` to callers."""
        self.connection = connection
        self.probe_requested.clear()
        self.login_missed.clear()
        self._reconnect_wanted.clear()
        self._decided.set()

    def mark_lost(self, error: str, *, for_operators: str | None = None) -> None:
        """Withdraw the connection. Callers wait for the next one, until ``mark_down_until``."""
        self.connection = None
        self.error = error
        self.error_for_operators = for_operators or error
        self._decided.clear()

    def mark_down_until(self, retry_at: float) -> None:
        """Fail calls at once until ``retry_at``, a time on the clock."""
        self._retry_at = retry_at
        self._decided.set()

    async def wait_retry(self, pause_s: float, *, needs_login: bool) -> None:
        """Wait until the next attempt, or until an operator asks to reconnect.

        ``needs_login`` also ends the wait when a call finds a login.
        """
        self._needs_login = needs_login
        if not self._reconnect_wanted.is_set():
            self._retry_now.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._retry_now.wait()
        self._needs_login = False
        self._reconnect_wanted.clear()

    async def wait_reconnect_wanted(self) -> str:
        """Wait until an operator asks to reconnect; return that reason."""
        await self._reconnect_wanted.wait()
        return "an operator asked to reconnect"

    async def wait_until_dead(self, connection: Connection, timeout_s: float) -> str:
        """Ping ``connection`` whenever a probe is requested; return the reason once a ping fails.

        A ping takes at most PING_S and ``timeout_s``. A JSON-RPC error counts as alive: servers
        without ``ping`` answer with one.
        """
        timeout_s = min(PING_S, timeout_s)
        while True:
            await self.probe_requested.wait()
            self.probe_requested.clear()
            try:
                with suppress(JsonRpcError, ResponseTooLarge):
                    await connection.ping(timeout_s=timeout_s)
            except TimeoutError:
                return f"it hung: no sign of life within {timeout_s:g} s"
            except ConnectionFailure as fault:
                if fault.is_alive:
                    self._decided.set()
                    continue
                return f"no sign of life: {fault.reason}"
            self._decided.set()

    # For callers

    @property
    def is_legacy(self) -> bool:
        """Whether the server is known to use an era before 2026-07-28.

        Such servers send client requests during calls.
        """
        return self.connection is not None and self.connection.era in HANDSHAKE_VERSIONS

    def offers(self, capability: str) -> bool:
        """Return whether the server declares a capability; True while not connected."""
        return self.connection is None or capability in self.connection.capabilities

    def check(self) -> bool:
        """Return whether a call would wait for a decision about the connection.

        Raises ServerUnavailable if ``wait_for_decision`` would do so at once.
        """
        if self._needs_login or not self._decided.is_set():
            return True
        if self.connection is None:
            raise self.unavailable(self.error)
        return False

    @property
    def decided(self) -> Connection | None:
        """The connection; None while undecided, or if it is lost."""
        return self.connection if self._decided.is_set() else None

    async def wait_for_decision(self, deadline: float) -> Connection:
        """Wait for a decision, and return the connection.

        Raises ServerUnavailable, and TimeoutError at ``deadline`` on the clock.
        """
        async with asyncio.timeout(deadline - self._clock()):
            # the owner task can clear the event again before this task runs
            while not self._decided.is_set():
                await self._decided.wait()
        if self.connection is None:
            raise self.unavailable(self.error)
        return self.connection

    def probe_later(self, connection: Connection) -> None:
        """Request a probe of ``connection`` without delaying callers.

        For a request that timed out: usually only that request is slow.
        """
        if connection is self.connection:
            self.probe_requested.set()

    def probe_after(self, fault: ConnectionFailure, connection: Connection) -> None:
        """Request a probe of ``connection``; new callers wait for its result.

        For a request that was cut off: others, or an immediate retry, would probably be cut off,
        too. A fault that proves the server alive requests no probe.
        """
        if connection is self.connection and not fault.is_alive:
            self._decided.clear()
            self.probe_requested.set()

    @property
    def without_login(self) -> ServerUnavailable:
        """Error of a call while a login is missing, without a time to retry."""
        return ServerUnavailable(
            unavailable_text(self._label, self.error),
            details={"server_id": self._server_id},
            reason=self.error_for_operators,
        )

    def unavailable(
        self, reason: str, *, may_be_done: bool = False, retry_after_s: float | None = None
    ) -> ServerUnavailable:
        """Build the error of a call that the server did not answer.

        ``retry_after_s`` is the wait that the server asked for. ``may_be_done`` means that the call
        may have been executed and must not be repeated.
        """
        what = unavailable_text(self._label, reason)
        details = {"server_id": self._server_id}
        if may_be_done:
            error = ServerUnavailable(what, details=details).after_sending()
            error.retry_after_s = retry_after_s
            return error
        wait_s = round(max(SOONEST_RETRY_S, self._retry_at - self._clock()), 1)
        return ServerUnavailable(
            f"{what}; try again later",
            details=details,
            retry_after_s=retry_after_s if self.connection else max(wait_s, retry_after_s or 0),
            reason=None if self.connection else self.error_for_operators,
        )
