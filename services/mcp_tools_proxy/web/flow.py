"""Whether a connection is read now, as uvicorn and its bounded protocol want it."""

import asyncio

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
