"""Accepts connections and passes each to the worker that has the fewest.

Workers that accept from one socket by themselves are not balanced: of 64 connections opened at
once, one of two workers got between 0 and 64.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence

import structlog

from mcp_tools_proxy.server.listener import drain_listener

BACKLOG = 2048
"""Connections that the system keeps until they are accepted, as in uvicorn."""

ACCEPTS_PER_TURN = 64

PAUSE_S = 0.5
"""Pause after a failure to accept, such as too many open files."""

LATE_S = 0.5
"""Seconds after which a worker that takes no connections gets no more, unless all are late.

With 0.05, one of two workers on busy CPUs got more than 38 of 64 connections.
"""

_SIGN = b"c"
"""Sent with the descriptor of a connection; one byte is required."""

log = structlog.get_logger()


def _now() -> float:
    return asyncio.get_running_loop().time()


class ConnectionPipe:
    """Passes connections to one worker; both ends are non-blocking."""

    def __init__(self) -> None:
        self._end, self.worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.setblocking(False)
        self.worker_end.setblocking(False)
        self._passed = self._taken = self._open = 0
        self._waiting_since: float | None = None
        """When the oldest connection was passed that is not taken, if there is one."""

    @property
    def connections(self) -> int:
        """Connections of the worker, including those it has not taken."""
        return self._open + self._passed - self._taken

    def report(self, taken: int, open_now: int) -> None:
        """Store the number of connections that the worker has taken, and of those still open."""
        if taken != self._taken:
            self._waiting_since = None if taken == self._passed else _now()
        self._taken, self._open = taken, open_now

    @property
    def is_late(self) -> bool:
        """Whether the worker is busy with something else: it takes no connections."""
        return self._waiting_since is not None and _now() > self._waiting_since + LATE_S

    def send(self, connection: socket.socket) -> None:
        """Pass a connection; the caller closes its copy. Raises OSError if the worker hangs."""
        socket.send_fds(self._end, [_SIGN], [connection.fileno()])
        self._passed += 1
        if self._waiting_since is None:
            self._waiting_since = _now()

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def received(end: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections that have arrived at a worker's end."""
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(end, len(_SIGN), 1)
        except BlockingIOError:
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection


class Acceptor:
    """Accepts from ``listener`` while there are workers; ``pipes`` returns those that take more.

    Without workers, connections wait in the system's queue.
    """

    def __init__(
        self, listener: socket.socket, pipes: Callable[[], Sequence[ConnectionPipe]]
    ) -> None:
        self._listener = listener
        self._pipes = pipes
        self._is_listening = self._is_reading = self._is_closed = False

    def update(self) -> None:
        """Accept connections if there are workers, otherwise leave them to the system."""
        if self._is_closed:
            return
        wanted = bool(self._pipes())
        if wanted and not self._is_listening:
            self._listener.setblocking(False)
            self._listener.listen(BACKLOG)
            self._is_listening = True
        if wanted != self._is_reading:
            self._is_reading = wanted
            loop = asyncio.get_running_loop()
            if wanted:
                loop.add_reader(self._listener, self._accept)
            else:
                loop.remove_reader(self._listener)

    async def close(self) -> None:
        """Pass on the connections that are already established, and close the listener."""
        if self._is_closed:
            return
        if self._is_reading:
            await drain_listener(self._listener)
        self._is_closed = True
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.ECONNABORTED, errno.EPROTO, errno.EINTR):
                    self._pause(error)
                return
            with connection:
                self._pass_on(connection)

    def _pass_on(self, connection: socket.socket) -> None:
        """Give a connection to the worker with the fewest of those that are not late."""
        for pipe in sorted(self._pipes(), key=lambda it: (it.is_late, it.connections)):
            try:
                pipe.send(connection)
            except OSError:
                continue
            return
        log.warning("connections.refused", problem="no worker takes them")

    def _pause(self, error: OSError) -> None:
        log.warning("connections.refused", problem=error.strerror or str(error))
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._is_reading = False
        loop.call_later(PAUSE_S, self.update)
