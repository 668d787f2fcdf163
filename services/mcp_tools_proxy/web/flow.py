"""Whether a connection is read now, and how one ends whose client does not read."""

import asyncio
import socket
import struct

from uvicorn.protocols.http.flow_control import FlowControl


class HeldFlow(FlowControl):
    """uvicorn's flow control, with a hold: until ``release`` nobody else resumes reading."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.held = False

    def hold(self) -> None:
        """Read no more."""
        self.held = True
        self._transport.pause_reading()

    def release(self) -> None:
        """Read on, unless uvicorn paused meanwhile."""
        self.held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """Read on as soon as nothing is held."""
        if self.held:
            self.read_paused = False
        else:
            super().resume_reading()


def drop(transport: asyncio.Transport) -> None:
    """End a connection with what is unsent: the system would go on offering it for minutes."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


_NO_LINGER = struct.pack("ii", 1, 0)
