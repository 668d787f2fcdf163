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
    ``look_s``; ``on_gone`` is called once.
    """

    def __init__(
        self, transport: asyncio.Transport, *, on_gone: Callable[[], None], look_s: float
    ) -> None:
        super().__init__(transport)
        self._on_gone = on_gone
        self._look_s = look_s
        self._looking: asyncio.TimerHandle | None = None
        self.held = False

    def pause_reading(self) -> None:
        """Read no more until ``resume_reading``."""
        super().pause_reading()
        self._look_later()

    def hold(self) -> None:
        """Read no more."""
        self.held = True
        self._transport.pause_reading()
        self._look_later()

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

    def stop_looking(self) -> None:
        """Look for the client no more: the connection is gone."""
        if self._looking is not None:
            self._looking.cancel()

    def _look_later(self) -> None:
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(self._look_s, self._look)

    def _look(self) -> None:
        self._looking = None
        if self._transport.is_closing() or not (self.held or self.read_paused):
            return
        if self._is_client_gone():
            self._on_gone()
        else:
            self._look_later()

    def _is_client_gone(self) -> bool:
        state = select.poll()
        state.register(self._transport.get_extra_info("socket").fileno(), _SENDS_NO_MORE)
        return bool(state.poll(0))
