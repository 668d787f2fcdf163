"""Writes the head of a response together with its body."""

import asyncio

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

JOINED_BYTES = 64 * 1024
"""Longest body that is copied behind its head."""


class JoinedWrites:
    """Stands for the transport of one response to ``cycle``, which writes head and body apart.

    Two writes are two system calls and two packets, a tenth of a short call. A head waits only
    where it says a length, and so nothing can be done with it alone: that of a stream does not.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self._cycle: RequestResponseCycle | None = cycle
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write a head, or a part of a body with the head that waits for it."""
        cycle = self._cycle
        if cycle is not None and cycle.response_started:
            self._cycle = None  # they hold each other: only the garbage collector would free them
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
        """Close the connection, once what waits is written."""
        if self._head:
            self._transport.write(self._head)
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closing or closed."""
        return self._transport.is_closing()
