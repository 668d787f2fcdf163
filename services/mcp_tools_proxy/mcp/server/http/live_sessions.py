"""Sessions of the older eras with state in this process, such as an open stream.

An unused session consists of its id, which the client holds, and a small record. The stream of a
session carries messages that no client request has caused.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import sub
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.http.body import disconnected
from mcp_tools_proxy.mcp.server.handshake_session import (
    CANCELLED,
    HandshakeSession,
    cancelled,
    replica_of,
)
from mcp_tools_proxy.mcp.server.http.event_streams import EventStream
from mcp_tools_proxy.mcp.server.http.session_ids import SessionClaims, SessionName
from mcp_tools_proxy.mcp.server.http.session_records import SessionRecord, SessionRecords
from mcp_tools_proxy.mcp.server.list_changes import ListChangeMonitor, ListKind
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.mcp.server.subscriptions import SessionSubscriptions
from mcp_tools_proxy.policy.tenant_share import IdleSession, TenantCounts, select_session_to_evict

if TYPE_CHECKING:
    from mcp_tools_proxy.mcp.server.http.shared_sessions import Notice, SharedSessions


CHECK_S = 30.0
"""The longest interval between checks for unused sessions, in seconds.

Each check also publishes to other replicas which sessions are in use.
"""

MAX_CANCELLED_ID_CHARS = 256
"""Cancellations of requests with longer ids are not forwarded to other replicas."""


class LiveSession:
    """State of a session in this process: requests, a stream, and settings of its client."""

    __slots__ = ("_is_shared", "caller", "handshake", "is_counted", "name", "record", "stream")

    def __init__(
        self,
        server: GatewayMcpServer,
        claims: SessionClaims,
        record: SessionRecord,
        caller: Caller,
        *,
        is_shared: bool,
    ) -> None:
        self.name = claims.name
        self.handshake = HandshakeSession(
            server, claims.declared, self._send, name=claims.name.nonce.hex()
        )
        self.handshake.client_name = record.client_name
        self.record = record
        self.caller = caller
        self.stream: SessionStream | None = None
        self._is_shared = is_shared
        self.is_counted = False
        """Whether ``LiveSessions`` counts it as one with state."""

    @property
    def is_held(self) -> bool:
        """Whether state is kept while no request is being served.

        If replicas share sessions, the client's settings are in Redis.
        """
        return self.stream is not None or (self.handshake.holds_state and not self._is_shared)

    def end(self) -> None:
        """Cancel the requests, end the stream, and discard the client's settings."""
        self.handshake.end()
        if self.stream is not None:
            self.stream.close()

    async def serve_stream(
        self,
        lists: ListChangeMonitor,
        options: ListOptions,
        receive: Receive,
        send: Send,
        *,
        seen: str | None,
        primed: bool,
        is_alone: bool,
    ) -> None:
        """Serve the session's stream, see ``SessionStream``; there must be none yet."""
        self.stream = SessionStream(send, lists, self.caller, options, is_alone=is_alone)
        try:
            await self.stream.serve(
                self.handshake.subscriptions,
                receive,
                seen=seen,
                primed=primed,
                restore=self._restore,
            )
        finally:
            self.stream = None

    async def _restore(self) -> None:
        if self._is_shared:
            await self.handshake.follow(self.record.uris, self.caller, notify=True)

    async def _send(self, message: Mapping[str, object]) -> None:
        if self.stream is not None:
            await self.stream.send(message)


class LiveSessions:
    """Sessions with state in this process: at most ``max_held``, not counting their requests.

    An evicted session ends as a whole, since a client that lost only its subscriptions would wait
    for updates forever. ``others`` counts the sessions of legacy HTTP+SSE, which share the limit.
    """

    def __init__(
        self,
        server: GatewayMcpServer,
        records: SessionRecords,
        *,
        shared: "SharedSessions | None",
        max_held: int,
        idle_s: float,
        others: TenantCounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._records = records
        self._shared = shared
        self._max_held = max_held
        self._idle_s = idle_s
        self._others = others
        self._clock = clock
        self._live: dict[SessionName, LiveSession] = {}
        self._held = TenantCounts()
        """Sessions with state, or with reserved space for it."""

    def __len__(self) -> int:
        """Number of sessions with state, including those of legacy HTTP+SSE."""
        return self._held.total + self._others.total

    @contextmanager
    def use(
        self, claims: SessionClaims, record: SessionRecord, caller: Caller
    ) -> Iterator[LiveSession]:
        """Yield the session for a request of its client."""
        live = self._live.get(claims.name)
        if live is None:
            is_shared = self._shared is not None
            live = LiveSession(self._server, claims, record, caller, is_shared=is_shared)
            self._live[claims.name] = live
        live.record = record
        if self._shared is not None:
            live.handshake.log_level = record.log_level
            live.handshake.subscriptions.known_uris = record.uris
        record.users += 1
        try:
            yield live
        finally:
            self._records.leave(claims.name, record)
            # another request of the session may have taken its space, and not used it yet
            takes_space = live.is_counted and record.users > 0
            self._count(live, is_held=live.is_held or takes_space)
            if not record.users and not live.is_held and self._live.get(claims.name) is live:
                del self._live[claims.name]
                live.handshake.subscriptions.cancel_all()

    def make_space(self, caller: Caller) -> None:
        """Evict an unused session with state if ``caller`` needs its place.

        Raises CapacityExceeded if no session can be evicted. Callers must use the place before they
        await anything, or another caller could take it.
        """
        while self._held.total + self._others.total >= self._max_held:
            unused = [
                IdleSession(name, live.caller.tenant_id, live.record.used + self._idle_s)
                for name, live in self._live.items()
                if not live.record.users
            ]
            tenants = self._held.by_tenant + self._others.by_tenant
            name = select_session_to_evict(unused, tenants, caller.tenant_id, limit=self._max_held)
            self._end_here(name)

    def make_space_for(self, live: LiveSession, *, opens_stream: bool = False) -> None:
        """Reserve space for the session's state, if it needs some. Raises CapacityExceeded."""
        if not live.is_counted and (opens_stream or self._shared is None):
            self.make_space(live.caller)
            self._count(live, is_held=True)

    def _count(self, live: LiveSession, *, is_held: bool) -> None:
        """Count a session with state, unless it has ended."""
        is_held = is_held and self._live.get(live.name) is live
        if is_held and not live.is_counted:
            self._held.add(live.caller.tenant_id)
        elif live.is_counted and not is_held:
            self._held.remove(live.caller.tenant_id)
        live.is_counted = is_held

    async def receive(self, live: LiveSession, message: Mapping[str, Any]) -> None:
        """Deliver a client's notification or response here or to the replica that waits for it."""
        if live.handshake.receive(message) or self._shared is None:
            return
        match message:
            case {"method": method, "params": {"requestId": int() | str() as id_}} if (
                method == CANCELLED and len(str(id_)) <= MAX_CANCELLED_ID_CHARS
            ):
                await self._shared.send(live.name, cancelled(id_))
            case {"id": str(id_)} if replica := replica_of(id_):
                await self._shared.send(live.name, message, replica)

    async def share(self, live: LiveSession, message: Mapping[str, Any]) -> None:
        """Publish the setting that a successful request has changed."""
        if self._shared is None:
            return
        name, record = live.name, live.record
        too_many: Sequence[SessionName] = ()
        match message:
            case {"method": "logging/setLevel"}:
                record.log_level = live.handshake.log_level
                too_many = await self._shared.set_log_level(name, record.log_level)
            case {"method": "resources/subscribe", "params": {"uri": str(uri)}}:
                record.uris |= {uri}
                too_many = await self._shared.subscribe(name, uri)
                # another replica's update can have undone the subscription
                if live.stream is not None:
                    await live.handshake.follow(record.uris, live.caller)
            case {"method": "resources/unsubscribe", "params": {"uri": str(uri)}}:
                record.uris -= {uri}
                await self._shared.unsubscribe(name, uri)
        for unused in too_many:
            await self.end(unused)

    async def end(self, name: SessionName) -> None:
        """End a session at all replicas; its client has to begin a new one."""
        self._end_here(name)
        if self._shared is not None:
            await self._shared.end(name)

    async def run(self) -> None:
        """End idle sessions with state, until cancelled.

        With Redis, also publish which sessions are in use here, and apply the notices of other
        replicas.
        """
        shared = self._shared
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._check_all(shared, tasks))
                if shared is not None:
                    async for notice in shared.notices():
                        await self._receive_notice(notice, shared, tasks)
        finally:
            if shared is not None:
                await shared.close()

    async def _check_all(self, shared: "SharedSessions | None", tasks: asyncio.TaskGroup) -> None:
        """Periodically end unused sessions, and publish which are in use.

        Their shared state is read too, since a notice can be lost.
        """
        while True:
            since = self._clock()
            await asyncio.sleep(min(self._idle_s / 4, CHECK_S))
            for name, live in tuple(self._live.items()):
                if self._records.is_unused(live.record):
                    self._end_here(name)
            if shared is not None:
                await self._reload(self._records.used_since(since), shared, tasks)

    async def _receive_notice(
        self, notice: "Notice", shared: "SharedSessions", tasks: asyncio.TaskGroup
    ) -> None:
        live = self._live.get(notice.name)
        if notice.message is None:
            if self._records.is_known(notice.name):
                await self._reload([notice.name], shared, tasks)
        elif live is not None:
            live.handshake.receive(notice.message)

    async def _reload(
        self, names: Sequence[SessionName], shared: "SharedSessions", tasks: asyncio.TaskGroup
    ) -> None:
        for name, state in zip(names, await shared.load(names) or (), strict=False):
            record = self._records.update(name, state)
            live = self._live.get(name)
            if live is None:
                continue
            if record is None:
                self._end_here(name)
            elif live.stream is not None:
                tasks.create_task(live.handshake.follow(record.uris, live.caller))

    def _end_here(self, name: SessionName) -> None:
        self._records.end(name)
        live = self._live.pop(name, None)
        if live is not None:
            live.end()
            self._count(live, is_held=False)


FIRST_STREAM_S = 10.0
"""Seconds after the handshake; a stream opened later counts as reopened."""

REPEATED_AFTER_S = (2.0, 10.0, 60.0, 300.0)
"""When a list change is notified again, in seconds after it, if replicas share sessions.

Replicas update one after the other: a client that is notified by one replica and lists at another
can get the old list. A roll-out or a ConfigMap takes minutes to reach all replicas.
"""

_CHANGED = {kind.changed_method for kind in ListKind}


class SessionStream:
    """An open stream with list changes and resource updates.

    A client that loses its stream and opens another one, on any replica, can have missed a list
    change. An event's id is a digest of the lists at its time, so a client that sends the id of its
    last event is notified again only if they differ now. Unless ``is_alone`` excludes other
    replicas, a change is notified again at REPEATED_AFTER_S.
    """

    def __init__(
        self,
        send: Send,
        lists: ListChangeMonitor,
        caller: Caller,
        options: ListOptions,
        *,
        is_alone: bool,
    ) -> None:
        self._events = EventStream(send)
        self._lists = lists
        self._caller = caller
        self._options = options
        self._is_alone = is_alone
        self._closed = asyncio.Event()
        self._changed = asyncio.Event()
        self._to_repeat: set[str] = set()
        """Changes that other replicas may not have applied yet."""

    async def serve(
        self,
        subscriptions: SessionSubscriptions,
        receive: Receive,
        *,
        seen: str | None,
        primed: bool,
        restore: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Serve until the client leaves or ``close`` is called; ``restore`` renews its
        subscriptions.

        ``seen`` is the digest of the lists that the client knows; with None it is notified of a
        change of every list. ``primed`` clients receive an event id at once; older ones would read
        it as a message.
        """
        versions = await self._lists.snapshot_or_empty(self._caller, self._options)
        digest = versions.digest.hex()
        await self._events.begin(digest if primed else None)
        subscriptions.subscribe_to_lists(self._caller, versions)
        try:
            if seen != digest:
                for kind in ListKind:
                    await self.send({"jsonrpc": "2.0", "method": kind.changed_method})
            with self._events.pings():
                async with asyncio.TaskGroup() as tasks:
                    watching = tasks.create_task(disconnected(receive, self.close))
                    restoring = tasks.create_task(restore())
                    repeating = tasks.create_task(self._repeat_changes())
                    await self._closed.wait()
                    watching.cancel()
                    restoring.cancel()
                    repeating.cancel()
        finally:
            subscriptions.unsubscribe_from_lists()
        await self._events.end()

    async def send(self, message: Mapping[str, object]) -> None:
        """Send a message; a list change has an event id."""
        method = str(message["method"])
        if method in _CHANGED:
            self._to_repeat.add(method)
            self._changed.set()
            await self._notify_change(method)
        else:
            await self._events.notify(message)

    def close(self) -> None:
        """End the stream."""
        self._closed.set()

    async def _notify_change(self, method: str) -> None:
        digest = (await self._lists.snapshot_or_empty(self._caller, self._options)).digest
        await self._events.notify({"jsonrpc": "2.0", "method": method}, id_=digest.hex())

    async def _repeat_changes(self) -> None:
        """Notify each change again at REPEATED_AFTER_S after the last change."""
        while not self._is_alone:
            await self._changed.wait()
            self._changed.clear()
            if await self._repeat_until_next_change():
                self._to_repeat.clear()

    async def _repeat_until_next_change(self) -> bool:
        for pause_s in map(sub, REPEATED_AFTER_S, (0.0, *REPEATED_AFTER_S)):
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
                    return False
            for method in sorted(self._to_repeat):
                await self._notify_change(method)
        return True
