"""Whether a connection is read now, as uvicorn and its bounded protocol want it."""

import asyncio
import select
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

_SENDS_NO_MORE = getattr(select, "POLLRDHUP", 0)
"""Asks whether the client closed its side; elsewhere than on Linux only a reset is seen."""


class PausableFlow(FlowControl):
    """uvicorn's flow control, with a hold: until ``release`` nobody else resumes reading.

    While nothing is read nothing says that the client has gone, so it is looked for every
    ``poll_s``; ``on_disconnect`` is called once.
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
        """Read no more until ``resume_reading``."""
        super().pause_reading()
        self._poll_later()

    def hold(self) -> None:
        """Read no more."""
        self.held = True
        self._transport.pause_reading()
        self._poll_later()

    def release(self) -> None:
        """Read on, unless uvicorn paused meanwhile."""
        self.held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """Read on as soon as nothing is held."""
        if self.held:
            self.read_paused = False
        elif self.read_paused:  # seldom, and asked after each answer
            super().resume_reading()

    def stop_polling(self) -> None:
        """Look for the client no more: the connection is gone."""
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
