"""The sessions of tenants or users with one server, opened by calls and ended when unused."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import structlog

from mcp_tools_proxy.domain.caller import Caller, StandIn
from mcp_tools_proxy.domain.caller_template import CallerPart
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import ServerBusy
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import Isolation, ServerConfig, SessionCounts
from mcp_tools_proxy.downstream.connection import Connection, Dial
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.downstream.resource_subscriptions import ResourceSubscriptions
from mcp_tools_proxy.policy.tenant_share import IdleSession, select_session_to_evict, tenant_share


class IsolatedSession(ReconnectingSession):
    """A session that connects at its first use, and after a loss at the next one.

    It shares the offer, limits, metrics and clock of ``discovery``. ``on_idle`` is called at the
    end of the last use.
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
        """Whether the server is known to send client requests during calls.

        The discovery's server counts before the first connection.
        """
        known = self if self.connection_state.connection is not None else self._discovery
        return known.connection_state.is_legacy

    @property
    def is_busy(self) -> bool:
        """Whether a call is in flight or suspended, or a resource is subscribed."""
        return bool(self._uses or self.sender.in_flight or self.subscriptions.uris)

    def begin_use(self) -> None:
        """Count a use until ``end_use``; the first one connects."""
        self._uses += 1
        self._unused.clear()
        self._wanted.set()

    def end_use(self) -> None:
        """End the count of a use."""
        self._uses -= 1
        if not self._uses:
            self._unused.set()
        self.check_idle()

    def check_idle(self) -> None:
        """Report the session as idle if nothing uses it."""
        if self.is_busy:
            return
        self.idle_since = self.clock()
        self._wanted.clear()
        self._on_idle()

    def adopt_tools(self) -> None:
        """Pass the server's known tools to the connection."""
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
        """Wait for the next use: an unused connection is not reopened."""
        await self._wanted.wait()

    @property
    def _was_started(self) -> bool:
        return super()._was_started or self._discovery.status.connect_s is not None

    @property
    def _waits_for_place(self) -> bool:
        return False

    async def _discover(self, connection: Connection, timeout_s: float) -> Snapshot:
        """Return the discovery's snapshot, and pass its tools to the connection."""
        snapshot = self._discovery.snapshot or Snapshot()
        connection.adopt_tools(snapshot.tools)
        return snapshot

    async def _accept_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the snapshot; the discovery reports changes."""
        self.snapshot = snapshot

    async def _refresh_loop(self, connection: Connection) -> None:
        await asyncio.Event().wait()

    def _update_metrics(self) -> None:
        """Leave the status metrics to the discovery."""


async def _nothing() -> None:
    """Ignore a change."""


SWEEP_S = 5.0

MAX_SESSIONS_OF_USER = 4
"""Maximum number of sessions of one user: each set of claims in the user's JWTs has its own."""


class Key(NamedTuple):
    """Owner of a session. A tuple, since ``a/b``, ``c`` and ``a``, ``b/c`` are equal when joined.

    ``user_id`` is empty if users share a session. ``jwt_claims`` are set if the JWT is exchanged
    for the session's token. An operator who stands in for a user has a separate session, as a
    session can hold the user's state.
    """

    tenant_id: str
    user_id: str
    jwt_claims: str
    is_stand_in: bool


_CLOSED = "its session is closed"

log = structlog.get_logger()


class _Waiting:
    def __init__(self, key: Key) -> None:
        self.key = key
        self.session: asyncio.Future[IsolatedSession] = asyncio.get_running_loop().create_future()


class IsolatedSessions:
    """The sessions with one server, one for each tenant or user, at most ``session_limit``.

    A call takes a lease of its caller's session. If the session is open, the lease counts a use.
    Otherwise the call waits for a place. ``_assign`` runs at once, when a session becomes idle or
    has closed, and every SWEEP_S. While places are free, it opens a session for each waiting call,
    first for the tenants with the fewest sessions; otherwise it ends an idle session. A closing
    session keeps its place, so the limit also holds for server processes. A leased session is not
    ended; an unused one ends after ``session_idle_s``.

    ``run`` owns the sessions. Subscriptions of ``before``, the sessions of the server's earlier
    entry, are kept, unless the isolation changed.
    """

    def __init__(
        self, discovery: ReconnectingSession, dial: Dial, before: "IsolatedSessions | None" = None
    ) -> None:
        self._discovery = discovery
        self._config = discovery.config
        self._limit = self._config.session_limit
        self._dial = dial
        self._of_users = CallerPart.USER_ID in self._config.isolation.separates
        self._most_of_tenant = tenant_share(self._limit) if self._of_users else 1
        """Maximum for one tenant, which leaves places for others."""
        self._open: dict[Key, IsolatedSession] = {}
        self._closing: set[IsolatedSession] = set()
        self._waiting: list[_Waiting] = []
        self._running: dict[IsolatedSession, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._ended = False
        discovery.lease = self.lease
        discovery.on_tools = self._adopt_tools
        if before is not None:
            for key, subscriptions in before.subscribed(self._config):
                if len(self._open) < self._limit:
                    self._add(key, subscriptions)
        self._count()

    def __repr__(self) -> str:
        counts = self.counts
        return f"<IsolatedSessions {self._config.server_id} {counts.open}/{counts.max}>"

    @property
    def counts(self) -> SessionCounts:
        """Number of sessions, and their limit."""
        return SessionCounts(
            open=len(self._open),
            busy=sum(session.is_busy for session in self._open.values()),
            max=self._limit,
        )

    @asynccontextmanager
    async def lease(
        self, caller: Caller, waited_s: float
    ) -> AsyncIterator[tuple[ReconnectingSession, float]]:
        """Keep the session of a caller open while the context is entered; see Lease."""
        key = self._key_of(caller)
        await self._discovery.caller_values.offer(self._config, caller)
        session = self._open.get(key)
        if session is None:
            started = self._discovery.clock()
            session = await self._wait_for_place(key, waited_s)
            waited_s += self._discovery.clock() - started
        else:
            session.begin_use()
        try:
            yield session, waited_s
        finally:
            session.end_use()

    def _key_of(self, caller: Caller) -> Key:
        user = caller if caller.stand_in is None else replace(caller, stand_in=None)
        return Key(
            CallerPart.TENANT_ID.of(user),
            CallerPart.USER_ID.of(user) if self._of_users else "",
            caller.jwt_claims if self._config.exchanges_jwt else "",
            caller.stand_in is not None,
        )

    async def run(self) -> None:
        """Run the sessions, and end those idle for too long, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks, self._ended = tasks, False
                for session in self._open.values():
                    self._start(session)
                try:
                    while True:
                        await asyncio.sleep(min(SWEEP_S, self._config.session_idle_s))
                        self._sweep()
                finally:
                    self._tasks, self._ended = None, True
                    self._closing.update(self._open.values())
                    self._open.clear()
        finally:
            self._fail_waiting()

    def check_circuit(self, caller: Caller) -> None:
        """Raise ServerUnavailable, or IdentityRequired, if a caller's call would be refused."""
        session = self._open.get(self._key_of(caller))
        if session is not None:
            session.check_circuit(caller.tenant_id)

    def reconnect(self) -> None:
        """Close the connections of all sessions; those in use are reopened."""
        for session in self._open.values():
            session.connection_state.request_reconnect()

    def subscribed(self, config: ServerConfig) -> Iterator[tuple[Key, ResourceSubscriptions]]:
        """Yield each session's subscriptions, unless ``config`` separates callers differently."""
        if _separation(config) != _separation(self._config):
            return
        for key, session in self._open.items():
            if session.subscriptions.uris:
                yield key, session.subscriptions

    async def drain(self, timeout_s: float) -> None:
        """Wait until no call uses a session, at most ``timeout_s``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for session in tuple(self._open.values()):
                    await session.drain(timeout_s)

    async def _wait_for_place(self, key: Key, waited_s: float) -> IsolatedSession:
        """Return a session for ``key`` with a use counted, after waiting for a place.

        The wait counts as a call in flight. Raises ServerBusy, ServerUnavailable.
        """
        if self._ended:
            raise self._discovery.connection_state.unavailable(_CLOSED)
        waiting = _Waiting(key)
        self._waiting.append(waiting)
        self._assign()
        try:
            if not waiting.session.done():
                await self._wait(waiting, self._config.call_timeout_s - waited_s)
        except BaseException:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting.session.exception() is None:
                waiting.session.result().end_use()  # the session arrived as the call was cancelled
            raise
        return waiting.session.result()

    async def _wait(self, waiting: _Waiting, timeout_s: float) -> None:
        tenant_id, limit = waiting.key.tenant_id, self._discovery.call_limit
        limit.enter(tenant_id)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait([waiting.session])
        except TimeoutError:
            raise self._busy() from None
        finally:
            limit.leave(tenant_id)

    def _assign(self) -> None:
        """Assign free places to waiting calls; end idle sessions for the others.

        The tenants with the fewest sessions come first, then the order of arrival. The place of
        each closing session is reserved for one call, which ends no other session.
        """
        of_tenant = Counter(key.tenant_id for key in self._open)
        promised = len(self._closing)
        for waiting in sorted(self._waiting, key=lambda it: of_tenant[it.key.tenant_id]):
            session = self._open.get(waiting.key)
            if session is None and not self._is_at_share(waiting.key):
                if len(self._open) + len(self._closing) < self._limit:
                    session = self._add(waiting.key, None)
                elif promised:
                    promised -= 1
                else:
                    self._evict(waiting.key.tenant_id)
            if session is not None:
                session.begin_use()
                waiting.session.set_result(session)
        self._waiting = [it for it in self._waiting if not it.session.done()]

    def _is_at_share(self, newcomer: Key) -> bool:
        """Return whether a caller has to wait because all sessions of its user or tenant are busy.

        At the maximum, the user's or tenant's session idle for longest is ended. So each new user
        of a tenant gets a place, and no other tenant loses one. Sessions of stand-ins count
        separately: while places are free they end no session of a user.
        """
        of_tenant = [
            it
            for it in self._open
            if (it.tenant_id, it.is_stand_in) == (newcomer.tenant_id, newcomer.is_stand_in)
        ]
        of_user = [it for it in of_tenant if it.user_id == newcomer.user_id]
        for own, most in ((of_user, MAX_SESSIONS_OF_USER), (of_tenant, self._most_of_tenant)):
            if len(own) < most:
                continue
            idle = [it for it in own if not self._open[it].is_busy]
            if not idle:
                return True
            self._end(min(idle, key=lambda key: self._open[key].idle_since), "evicted")
            return False
        return False

    def _evict(self, newcomer: str) -> None:
        """End an idle session for tenant ``newcomer``, if fairness allows it."""
        tenants = Counter(key.tenant_id for key in self._open)
        idle = [
            IdleSession(session=key, tenant_id=key.tenant_id, ends_at=self._open[key].idle_since)
            for key in self._idle()
        ]
        with suppress(CapacityExceeded):
            evicted = select_session_to_evict(idle, tenants, newcomer, limit=self._limit)
            self._end(evicted, "evicted")

    def _idle(self) -> list[Key]:
        return [key for key, session in self._open.items() if not session.is_busy]

    def _add(self, key: Key, subscriptions: ResourceSubscriptions | None) -> IsolatedSession:
        caller = Caller(
            tenant_id=key.tenant_id,
            user_id=key.user_id,
            jwt_claims=key.jwt_claims,
            stand_in=StandIn(reads_documents=False) if key.is_stand_in else None,
        )
        session = IsolatedSession(
            self._discovery,
            self._dial,
            caller,
            on_idle=self._when_idle,
            subscriptions=subscriptions,
        )
        self._open[key] = session
        self._start(session)
        self._count()
        return session

    def _start(self, session: IsolatedSession) -> None:
        if self._tasks is not None:
            self._running[session] = self._tasks.create_task(self._keep(session))

    async def _keep(self, session: IsolatedSession) -> None:
        try:
            await session.run()
        except asyncio.CancelledError:
            if session in self._closing:
                raise
            log.exception("server.crashed", server_id=self._config.server_id)
        except Exception:
            log.exception("server.crashed", server_id=self._config.server_id)
        finally:
            self._closed(session)

    def _closed(self, session: IsolatedSession) -> None:
        del self._running[session]
        if session in self._closing:
            self._closing.remove(session)
        else:
            self._open = {key: it for key, it in self._open.items() if it is not session}
            self._discovery.metrics.session_ended("crashed")
            self._count()
        if not self._ended:
            self._assign()

    def _end(self, key: Key, reason: str) -> None:
        session = self._open.pop(key)
        if (task := self._running.get(session)) is not None:
            self._closing.add(session)
            task.cancel()
        self._discovery.metrics.session_ended(reason)
        self._count()

    def _sweep(self) -> None:
        """End sessions that are idle for too long: one task, not a timer for each."""
        now = self._discovery.clock()
        for key in self._idle():
            if now - self._open[key].idle_since >= self._config.session_idle_s:
                self._end(key, "idle")
        self._assign()

    def _when_idle(self) -> None:
        if self._waiting and not self._ended:
            self._assign()

    def _fail_waiting(self) -> None:
        error = self._discovery.connection_state.unavailable(_CLOSED)
        for waiting in self._waiting:
            waiting.session.set_exception(error)
        self._waiting.clear()

    def _adopt_tools(self) -> None:
        for session in self._open.values():
            session.adopt_tools()

    def _count(self) -> None:
        self._discovery.metrics.set_sessions(len(self._open))

    def _busy(self) -> ServerBusy:
        server_id, limit = self._config.server_id, self._limit
        return ServerBusy(
            f"server {server_id} has reached its limit of {limit} sessions, and none is free for "
            "you; try again when some calls have finished",
            details={"server_id": server_id, "max_sessions": limit},
        )


def _separation(config: ServerConfig) -> tuple[Isolation, bool]:
    return config.isolation, config.exchanges_jwt
