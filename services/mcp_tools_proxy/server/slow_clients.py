"""Limits for clients that send requests or read responses slowly: pauses, then closes."""

import asyncio
import select
import socket
import struct
from collections.abc import Callable

import structlog
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_SENDS_NO_MORE = getattr(select, "POLLRDHUP", 0)
"""Poll event of a client that closed its side; without it (not Linux), only resets are detected."""


class PausableFlow(FlowControl):
    """uvicorn's flow control with a hold: until ``release``, uvicorn cannot resume reading.

    asyncio does not report a client's disconnect while reading is paused. Therefore the socket is
    polled every ``poll_s`` seconds; ``on_disconnect`` is called once.
    """

    def __init__(
        self, transport: asyncio.Transport, *, on_disconnect: Callable[[], None], poll_s: float
    ) -> None:
        super().__init__(transport)
        self._on_disconnect = on_disconnect
        self._poll_s = poll_s
        self._poll_timer: asyncio.TimerHandle | None = None
        self.held = False

    def pause_reading(self) -> None:
        """Pause reading until ``resume_reading``."""
        super().pause_reading()
        self._poll_later()

    def hold(self) -> None:
        """Pause reading until ``release``."""
        self.held = True
        self._transport.pause_reading()
        self._poll_later()

    def release(self) -> None:
        """Resume reading unless uvicorn has also paused it."""
        self.held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """Resume reading now, or on ``release`` if held."""
        if self.held:
            self.read_paused = False
        elif self.read_paused:  # rarely true, although uvicorn calls this after each response
            super().resume_reading()

    def stop_polling(self) -> None:
        """Stop polling when the connection is closed."""
        if self._poll_timer is not None:
            self._poll_timer.cancel()

    def _poll_later(self) -> None:
        if self._poll_timer is None:
            loop = asyncio.get_running_loop()
            self._poll_timer = loop.call_later(self._poll_s, self._poll)

    def _poll(self) -> None:
        self._poll_timer = None
        if self._transport.is_closing() or not (self.held or self.read_paused):
            return
        if self._is_client_disconnected():
            self._on_disconnect()
        else:
            self._poll_later()

    def _is_client_disconnected(self) -> bool:
        state = select.poll()
        state.register(self._transport.get_extra_info("socket").fileno(), _SENDS_NO_MORE)
        return bool(state.poll(0))


JOINED_BYTES = 64 * 1024
"""Maximum body size copied to join it with its head."""


class JoinedWrites:
    """Transport wrapper for the response to ``cycle`` that joins its head and body into one write.

    Two writes are two system calls and two packets, a tenth of a short call. Only a head with a
    content length waits for its body; the head of a stream is written immediately.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self._cycle: RequestResponseCycle | None = cycle
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write a head, or a part of a body with its pending head."""
        cycle = self._cycle
        if cycle is not None and cycle.response_started:
            self._cycle = None  # breaks a reference cycle, which delays freeing
            if cycle.chunked_encoding is False and cycle.scope["method"] != "HEAD":
                self._head = data
                return
        head, self._head = self._head, b""
        if len(data) <= JOINED_BYTES:
            self._transport.write(head + data)
        else:
            self._transport.write(head)
            self._transport.write(data)

    def close(self) -> None:
        """Write the pending head, and close the connection."""
        if self._head:
            self._transport.write(self._head)
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closing or closed."""
        return self._transport.is_closing()


class ArrivalTimer:
    """Calls ``on_late`` unless it is stopped within ``timeout_s`` after its start.

    It is started and stopped for each request. It keeps one timer of the event loop and compares
    the clock when that fires, because a timer per request would cost 2 us.
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
        """Start the timer; no effect while started."""
        if self._due_at is None:
            self._due_at = self._loop.time() + self._timeout_s
            if self._timer is None:
                self._timer = self._loop.call_at(self._due_at, self._check)

    def extend(self, timeout_s: float) -> None:
        """Set the deadline to ``timeout_s`` from now, if started."""
        if self._due_at is not None:
            self._due_at = self._loop.time() + timeout_s

    def shorten(self, timeout_s: float) -> None:
        """Limit the deadline to ``timeout_s`` from now, if started."""
        due_at = self._loop.time() + timeout_s
        if self._due_at is None or self._due_at <= due_at:
            return
        self._due_at = due_at
        if self._timer is not None:
            self._timer.cancel()  # an upload's timer can be due later
        self._timer = self._loop.call_at(due_at, self._check)

    def stop(self) -> None:
        """Stop the timer until the next start."""
        self._due_at = None

    def close(self) -> None:
        """Stop permanently."""
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
        """Start watching; no effect while watching or without unread data."""
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
    """Reset a connection and discard unsent data; the system would resend it for minutes."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
