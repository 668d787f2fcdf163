"""The state of one session's connection, shared between its owner task and its callers."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.domain.server import STILL_CONNECTING, ServerState, unavailable_text
from mcp_tools_proxy.downstream.connection import Connection, ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS

PING_S = 5.0
"""Time-out of the ping that probes a suspected connection."""

SOONEST_RETRY_S = 0.1


class ConnectionState:
    """Lets callers acquire the connection, or wait until the owner task has decided its fate.

    The fate is undecided while the owner task is about to connect or probes the connection.
    ``error`` is the reason for having no connection in the words for callers; operators may be
    shown more, such as an internal address. ``clock`` returns seconds; ``label`` is how
    errors name the server.
    """

    def __init__(
        self, server_id: str, clock: Callable[[], float], label: str | None = None
    ) -> None:
        self.connection: Connection | None = None
        self.error = STILL_CONNECTING
        self.error_for_operators: str | None = None
        self.probe_requested = asyncio.Event()
        """Set by callers, cleared by the owner task when it sends the ping."""
        self._server_id = server_id
        self._label = label or server_id
        self._clock = clock
        self._retry_at = 0.0
        self._decided = asyncio.Event()
        self._needs_login = False
        self._retry_now = asyncio.Event()
        self._reconnect_wanted = asyncio.Event()
        """Set from a request to reconnect until the next attempt begins, or one succeeds."""
        self.login_missed = asyncio.Event()
        """Set while the last call found no login, though the server is connected."""

    def note_login_missing(self) -> None:
        """Record that a call found no login: the connection has to be opened anew."""
        if self.connection is not None:
            self.login_missed.set()

    def note_login(self) -> None:
        """Begin the next attempt now, if a login was missing: a call has one."""
        self.login_missed.clear()
        if self._needs_login:
            self._needs_login = False
            self.mark_connecting()
            self._retry_now.set()

    def request_reconnect(self) -> None:
        """Close the connection and open it anew, or begin the next attempt now.

        An attempt that is under way counts as the wanted one if it succeeds, so requests in a row
        are one.
        """
        self._reconnect_wanted.set()
        self._retry_now.set()
        if self.connection is None:
            self.mark_connecting()

    def shown(self, state: ServerState) -> ServerState:
        """Return what operators are shown instead of ``state``: a ready one may be about to end."""
        is_ending = state is ServerState.READY and self._reconnect_wanted.is_set()
        return ServerState.RECONNECTING if is_ending else state

    # For the owner task

    def mark_connecting(self) -> None:
        """Mark an attempt to connect as under way or about to begin: callers wait for it."""
        self._decided.clear()

    def mark_connected(self, connection: Connection) -> None:
        """Publish ``connection`` to callers."""
        self.connection = connection
        self.probe_requested.clear()
        self.login_missed.clear()
        self._reconnect_wanted.clear()
        self._decided.set()

    def mark_lost(self, error: str, *, for_operators: str | None = None) -> None:
        """Withdraw the connection.

        Callers wait for the next one, until ``mark_down_until`` is called.
        """
        self.connection = None
        self.error = error
        self.error_for_operators = for_operators or error
        self._decided.clear()

    def mark_alive(self) -> None:
        """Record that the connection answered a probe."""
        self._decided.set()

    def mark_down_until(self, retry_at: float) -> None:
        """Fail calls at once until the next attempt at ``retry_at``, a time on the clock."""
        self._retry_at = retry_at
        self._decided.set()

    async def wait_retry(self, pause_s: float, *, needs_login: bool) -> None:
        """Wait until the next attempt, which is now if somebody asks to reconnect.

        Where a login was missing, at most until there is one.
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
        """Wait until somebody asks to reconnect; return that as the reason of the loss."""
        await self._reconnect_wanted.wait()
        return "an operator asked to reconnect"

    async def wait_until_dead(self, connection: Connection, timeout_s: float) -> str:
        """Ping ``connection`` whenever a probe is requested; return the reason once a ping fails.

        A ping may take PING_S, or ``timeout_s`` if that is less. A JSON-RPC error proves life, too:
        servers without ``ping`` answer with one.
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
                    self.mark_alive()
                    continue
                return f"no sign of life: {fault.reason}"
            self.mark_alive()

    # For callers

    @property
    def is_legacy(self) -> bool:
        """Whether the server is known to speak an era before 2026-07-28.

        Such a server sends requests to the client in the midst of a call.
        """
        return self.connection is not None and self.connection.era in HANDSHAKE_VERSIONS

    def offers(self, capability: str) -> bool:
        """Return whether the server declares a capability; True while not connected."""
        return self.connection is None or capability in self.connection.capabilities

    def check(self) -> bool:
        """Return whether a call would wait for the fate of the connection to be decided.

        Raises ServerUnavailable, as ``acquire`` would at once.
        """
        if self._needs_login or not self._decided.is_set():
            return True
        if self.connection is None:
            raise self.unavailable(self.error)
        return False

    async def acquire(self, deadline: float) -> Connection:
        """Return the connection, after waiting for its fate if that is undecided.

        Raises as ``wait_for_decision``.
        """
        if self.connection is not None and self._decided.is_set():
            return self.connection
        return await self.wait_for_decision(deadline)

    async def wait_for_decision(self, deadline: float) -> Connection:
        """Wait until the fate of the connection is decided, and return the connection.

        Raises ServerUnavailable, and TimeoutError at ``deadline`` on the clock.
        """
        async with asyncio.timeout(deadline - self._clock()):
            # the owner task may have cleared the event again before this task runs
            while not self._decided.is_set():
                await self._decided.wait()
        if self.connection is None:
            raise self.unavailable(self.error)
        return self.connection

    def probe_later(self, connection: Connection) -> None:
        """Request a probe of ``connection`` for which callers do not wait.

        For a request that took too long: most often only that request is slow.
        """
        if connection is self.connection:
            self.probe_requested.set()

    def probe_after(self, fault: ConnectionFailure, connection: Connection) -> None:
        """Probe as ``probe_now``, unless the fault itself is a sign of life."""
        if not fault.is_alive:
            self.probe_now(connection)

    def probe_now(self, connection: Connection) -> None:
        """Request a probe of ``connection`` for which new callers wait.

        For a request that was cut off: others would most likely be cut off, too. The probe takes a
        moment; without it a caller that retries at once would fail again.
        """
        if connection is self.connection:
            self._decided.clear()
            self.probe_requested.set()

    @property
    def without_login(self) -> ServerUnavailable:
        """The error of a call while nobody has signed in: when somebody will is not known."""
        return ServerUnavailable(
            unavailable_text(self._label, self.error),
            details={"server_id": self._server_id},
            reason=self.error_for_operators,
        )

    def unavailable(
        self, reason: str, *, may_be_done: bool = False, retry_after_s: float | None = None
    ) -> ServerUnavailable:
        """Build the error of a call that the server did not answer.

        ``retry_after_s`` is the wait that the server asked for. ``may_be_done`` means that the
        server may have executed a call that must not be repeated.
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
