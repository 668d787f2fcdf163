"""Sends every request to a server: limits of calls in flight, deadline, one repetition."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import LoginRequired, ResultTooLarge, ServerBusy, ToolTimeout
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.sending import note_sent
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.call_relay import CallRelay
from mcp_tools_proxy.downstream.caller_values import CallerValues
from mcp_tools_proxy.downstream.circuit_breaker import CircuitBreaker, CircuitBreakers
from mcp_tools_proxy.downstream.connection import (
    AccessRefused,
    CallHeaders,
    ClosedUnanswered,
    ConnectionFailure,
    ResponseTooLarge,
    SessionLost,
)
from mcp_tools_proxy.downstream.connection_state import ConnectionState
from mcp_tools_proxy.downstream.resource_subscriptions import (
    MAX_SUBSCRIBED,
    MAX_SUBSCRIBED_BY_TENANT,
    OnUpdate,
    ResourceSubscriptions,
)
from mcp_tools_proxy.policy.tenant_share import tenant_share
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import METHOD_NOT_FOUND


class _Repeat(Enum):
    """When a request is sent once more; one of a lost session that was not executed always is."""

    NEVER = auto()
    IF_CLOSED = auto()
    """After a connection that was closed before any byte of the answer."""
    ALWAYS = auto()


def _is_sent_again(fault: ConnectionFailure, repeat: _Repeat, relay: CallRelay | None) -> bool:
    if relay is not None and relay.request_count:
        return False
    if repeat is _Repeat.ALWAYS or (isinstance(fault, SessionLost) and not fault.sent):
        return True
    return repeat is _Repeat.IF_CLOSED and isinstance(fault, ClosedUnanswered)


class CallLimit:
    """Counts the calls in flight at one server, over all of its sessions."""

    def __init__(self, config: ServerConfig) -> None:
        self.in_flight = 0
        self._of_tenant: dict[str, int] = {}
        """How many calls in flight each tenant has."""
        self._tenant_limit = config.max_calls_in_flight_per_tenant or tenant_share(
            config.max_calls_in_flight
        )
        self._config = config

    def __repr__(self) -> str:
        return f"<CallLimit {self._config.server_id} in_flight={self.in_flight}>"

    def enter(self, tenant_id: str) -> None:
        """Count a call in until ``leave`` counts it out. Raises ServerBusy."""
        if self.in_flight >= self._config.max_calls_in_flight:
            raise self._busy()
        of_tenant = self._of_tenant.get(tenant_id, 0)
        if of_tenant >= self._tenant_limit:
            raise self._busy_for_tenant()
        self.in_flight += 1
        self._of_tenant[tenant_id] = of_tenant + 1

    def leave(self, tenant_id: str) -> None:
        """Count a call out."""
        self.in_flight -= 1
        of_tenant = self._of_tenant.pop(tenant_id) - 1
        if of_tenant:  # no entry for an idle tenant: there may be any number of tenants
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
    """Sends requests over the current connection of one server; ``clock`` returns seconds.

    ``subscriptions`` are the subscribed resources of the server, ``limit`` that of its calls, which
    several sessions may share.
    """

    def __init__(
        self,
        config: ServerConfig,
        connection_state: ConnectionState,
        subscriptions: ResourceSubscriptions,
        clock: Callable[[], float],
        caller_values: CallerValues | None = None,
        *,
        limit: CallLimit | None = None,
        breakers: CircuitBreakers | None = None,
    ) -> None:
        self.in_flight = 0
        self.answer_count = 0
        """How many requests were answered since the session began."""
        self._config = config
        self._connection_state = connection_state
        self._subscriptions = subscriptions
        self._clock = clock
        self._caller_values = caller_values or CallerValues()
        self._limit = limit or CallLimit(config)
        self._breakers = breakers
        self.on_idle: Callable[[], None] | None = None
        """Called when the last call in flight, or a subscription, is over."""
        self._idle = asyncio.Event()
        self._idle.set()

    async def send(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        repeatable: bool = False,
        idempotent: bool = False,
        relay: CallRelay | None = None,
        tenant_id: str = NO_TENANT,
        waited_s: float = 0.0,
        caller: Caller | None = None,
    ) -> Any:
        """Send one request within the server's call time-out and return its raw result.

        While an attempt to connect is under way the request waits for it; while the next attempt is
        still to come it fails at once. A ``repeatable`` request without an answer is sent once
        more, unless its client was asked for input meanwhile. So is an ``idempotent`` one whose
        connection was closed before any byte of an answer, and any that was not executed since the
        session was lost. Other requests are never sent twice.

        The request counts against the share of ``tenant_id`` in the calls in flight. ``waited_s``
        seconds of the time-out are spent already. With ``caller`` it has the headers of that
        caller. Raises ServerBusy, ToolTimeout, ResultTooLarge, ServerUnavailable (retryable if
        ``idempotent``, or if surely nothing was sent), JsonRpcError for the server's own errors,
        and IdentityRequired or CredentialsMissing before anything is sent.
        """
        headers = None
        if caller is not None:
            headers = await self._headers_of(caller)
        deadline = self._clock() + self._config.call_timeout_s - waited_s
        self._enter(tenant_id)
        try:
            repeat = _Repeat.IF_CLOSED if idempotent else _Repeat.NEVER
            repeat = _Repeat.ALWAYS if repeatable else repeat
            if self._breakers is None:
                return await self._send(method, params, relay, headers, repeat, deadline)
            with self._breakers.entered(tenant_id) as breaker:
                return await self._send_with_breaker(
                    breaker, method, params, relay, headers, repeat, deadline
                )
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
        """Return the headers of a call; a login that is missing is noted, or that there is one."""
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
        """Count a call in until ``_leave`` counts it out. Raises ServerBusy."""
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

        The subscription outlives connections, and the session. Raises as ``send``, and JsonRpcError
        when the server has no such resource.
        """
        deadline = self._clock() + self._config.call_timeout_s
        connection = await self._connection_state.acquire(deadline)
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
        """Wait until no call is in flight, at most ``timeout_s``.

        New calls are still served meanwhile.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    async def _send_with_breaker(self, breaker: CircuitBreaker, *request: Any) -> Any:
        """Send as ``_send``, unless the circuit is open. Raises ServerUnavailable as well."""
        admitted = breaker.enter()
        failure: str | None = ""
        is_lost = False
        try:
            answer = await self._send(*request)
            failure = None
        except (JsonRpcError, ResponseTooLarge):
            failure = None
            raise
        except AccessRefused:
            raise
        except ConnectionFailure as fault:
            failure, is_lost = fault.reason, True
            raise
        except (TimeoutError, ToolTimeout):
            failure = f"no answer within {self._config.call_timeout_s:g} s"
            raise
        finally:
            breaker.leave(admitted, failure=failure, is_lost=is_lost)
        return answer

    async def _send(
        self,
        method: str,
        params: Mapping[str, Any],
        relay: CallRelay | None,
        call_headers: CallHeaders | None,
        repeat: _Repeat,
        deadline: float,
    ) -> Any:
        """Send the request, and once more if ``repeat`` allows it.

        Raises ConnectionFailure when the last try got no answer, ToolTimeout when there was no
        connection in time, and TimeoutError later.
        """
        try:
            connection = await self._connection_state.acquire(deadline)
        except TimeoutError:
            raise self._not_connected_in_time() from None
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
                raise  # of this request alone
            except ConnectionFailure as fault:
                self._connection_state.probe_after(fault, connection)
                if not is_first or not _is_sent_again(fault, repeat, relay):
                    raise
                is_first = False
                connection = await self._connection_state.wait_for_decision(deadline)
            except TimeoutError:
                self._connection_state.probe_later(connection)
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

    def _not_connected_in_time(self) -> ToolTimeout:
        server_id, limit = self._config.server_id, self._config.call_timeout_s
        error = ToolTimeout(
            f"server {server_id} could not be connected to within {limit:g} s; try again later",
            details={"server_id": server_id, "timeout_s": limit},
        )
        error.nothing_ran = True
        return error

    def _too_large(self, error: ResponseTooLarge) -> ResultTooLarge:
        server_id = self._config.server_id
        details = {"server_id": server_id, "max_result_bytes": error.max_bytes}
        return ResultTooLarge(
            f"the answer from server {server_id} is over {error.limit}; ask for less at a time",
            details=without_none(details),
        )
