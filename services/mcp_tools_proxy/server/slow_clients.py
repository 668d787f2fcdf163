"""Closes connections of clients that are slow to send a request or to read a response."""

import asyncio
import socket
import struct
from collections.abc import Callable

import structlog


class ArrivalTimer:
    """Calls ``on_late`` unless it is stopped within ``timeout_s`` after its start.

    It is started and stopped for every request. So it keeps one timer of the event loop, and
    compares the clock when that fires: a timer for each request would cost 2 us.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeout_s: float, on_late: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._on_late = on_late
        self._due_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to wait; no effect while started."""
        if self._due_at is None:
            self._due_at = self._loop.time() + self._timeout_s
            if self._timer is None:
                self._timer = self._loop.call_at(self._due_at, self._check)

    def extend(self, timeout_s: float) -> None:
        """Wait ``timeout_s`` from now on, if started."""
        if self._due_at is not None:
            self._due_at = self._loop.time() + timeout_s

    def shorten(self, timeout_s: float) -> None:
        """Wait at most ``timeout_s`` from now on, if started."""
        due_at = self._loop.time() + timeout_s
        if self._due_at is None or self._due_at <= due_at:
            return
        self._due_at = due_at
        if self._timer is not None:
            self._timer.cancel()  # it may be due later: an upload has a longer time
        self._timer = self._loop.call_at(due_at, self._check)

    def stop(self) -> None:
        """Stop waiting until the next start."""
        self._due_at = None

    def close(self) -> None:
        """Stop for good."""
        self._due_at = None
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self._timer = None
        if self._due_at is None:
            return
        if self._loop.time() < self._due_at:
            self._timer = self._loop.call_at(self._due_at, self._check)
        else:
            self._due_at = None
            self._on_late()


_NO_LINGER = struct.pack("ii", 1, 0)

log = structlog.get_logger()


class UnreadWatch:
    """Drops a ``transport`` whose client reads nothing for ``timeout_s`` s after ``start``."""

    def __init__(self, transport: asyncio.Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to watch; no effect while watching, or without unread data."""
        waiting_bytes = self._transport.get_write_buffer_size()
        if self._timer is None and waiting_bytes:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._timeout_s, self._check, waiting_bytes)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, waiting_bytes: int) -> None:
        self._timer = None
        if self._transport.get_write_buffer_size() < waiting_bytes:
            self.start()
        else:
            log.warning("request.dropped", reason="its answer is not read")
            _drop(self._transport)


def _drop(transport: asyncio.Transport) -> None:
    """Reset a connection and discard unsent data: the system would resend it for minutes."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
