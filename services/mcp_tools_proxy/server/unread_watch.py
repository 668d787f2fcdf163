"""Closes a connection whose client does not read the data that waits for it."""

import asyncio
import socket
import struct

import structlog

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
