"""The link of a session as it is now: its owner task sets it, callers take it or wait for it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.downstream.connection import (
    Connection,
    ConnectionFailure,
    JsonRpcError,
    ResponseTooLarge,
)

PING_S = 5.0
"""How long a suspect link may take to give a sign of life."""

SOONEST_RETRY_S = 0.1


class ConnectionState:
    """Where the owner task and the callers of a session meet; ``clock`` gives seconds.

    It is *open* while the owner task is about to connect or looks whether the link still lives:
    callers that need to know wait for the outcome. ``error`` is why there is no link, as
    callers are told; operators may be told more.
    """

    def __init__(self, server_id: str, clock: Callable[[], float]) -> None:
        self.connection: Connection | None = None
        self.error = self.error_for_operators = "it was not connected yet"
        self.probe_requested = asyncio.Event()
        """Set by callers, cleared by the owner task when it looks into it."""
        self._server_id = server_id
        self._clock = clock
        self._retry_at = 0.0
        self._decided = asyncio.Event()

    # For the owner task

    def connecting(self) -> None:
        """An attempt to connect is under way, or is about to be: callers wait for it."""
        self._decided.clear()

    def connected(self, connection: Connection) -> None:
        """Callers may use ``connection``."""
        self.connection = connection
        self.probe_requested.clear()
        self._decided.set()

    def lost(self, error: str, *, for_operators: str | None = None) -> None:
        """There is no link; callers wait for the next one until it is given up."""
        self.connection = None
        self.error = error
        self.error_for_operators = for_operators or error
        self._decided.clear()

    def mark_alive(self) -> None:
        """The link gave a sign of life."""
        self._decided.set()

    def unavailable_until(self, retry_at: float) -> None:
        """No attempt is made before ``retry_at`` on the clock: callers fail at once."""
        self._retry_at = retry_at
        self._decided.set()

    async def wait_until_dead(self, connection: Connection, timeout_s: float) -> str:
        """Ask for a sign of life whenever ``connection`` is suspected; say so when there is none.

        It has PING_S for it, or ``timeout_s`` if that is less. An error is a sign of life, too.
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
                return f"no sign of life: {fault.reason}"
            self.mark_alive()

    # For callers

    @property
    def is_legacy(self) -> bool:
        """Whether it is known to be a server that asks in the midst of calls: of 2025-11-25."""
        return self.connection is not None and self.connection.era in HANDSHAKE_PROTOCOL_VERSIONS

    def offers(self, capability: str) -> bool:
        """Tell whether the server declares a capability; one that is not connected might."""
        return self.connection is None or capability in self.connection.capabilities

    async def acquire(self, deadline: float) -> Connection:
        """Give the link; wait while it is open whether there is one.

        Raises as ``wait_for_decision``.
        """
        if self.connection is not None and self._decided.is_set():
            return self.connection
        return await self.wait_for_decision(deadline)

    async def wait_for_decision(self, deadline: float) -> Connection:
        """Wait for what is open to be decided. Raises ServerUnavailable, TimeoutError."""
        async with asyncio.timeout(deadline - self._clock()):
            while not self._decided.is_set():  # it may be open again before who waits is heard
                await self._decided.wait()
        if self.connection is None:
            raise self.unavailable(self.error)
        return self.connection

    def probe_later(self, connection: Connection) -> None:
        """Have the owner task look whether ``connection`` still lives; callers do not wait for it.

        For a request that took too long: most often it is only the request that is slow.
        """
        if connection is self.connection:
            self.probe_requested.set()

    def probe_now(self, connection: Connection) -> None:
        """Have the owner task look whether ``connection`` still lives; new callers wait for the
        answer.

        For a request that was cut off: others would most likely be, too. Asking takes a moment, and
        without it a caller who tries at once again would fail at once again.
        """
        if connection is self.connection:
            self._decided.clear()
            self.probe_requested.set()

    def unavailable(self, reason: str, *, may_be_done: bool = False) -> ServerUnavailable:
        """Make the error of a call that the server did not answer.

        ``may_be_done`` says that the server may have done what must not be done twice.
        """
        what = f"server {self._server_id} is unavailable: {reason}"
        details = {"server_id": self._server_id}
        if may_be_done:
            return ServerUnavailable(what, details=details).after_sending()
        wait_s = round(max(SOONEST_RETRY_S, self._retry_at - self._clock()), 1)
        return ServerUnavailable(
            f"{what}; try again later",
            details=details,
            retry_after_s=None if self.connection else wait_s,
        )
