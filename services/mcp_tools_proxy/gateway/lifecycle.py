"""The process's phase, calls in flight, and the startup wait for servers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from mcp_tools_proxy.domain.errors import ShuttingDown


class StartupWait:
    """Ends when each server was tried once, or ``wait_s`` seconds after ``begin``.

    Does not wait for servers added by a reload. ``clock`` is monotonic, in seconds.
    """

    def __init__(self, wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait_s = wait_s
        self._clock = clock
        self._until = 0.0
        self._all_tried: Callable[[], bool] = lambda: True

    def begin(self, all_tried: Callable[[], bool]) -> None:
        """Start the wait; ``all_tried`` returns whether each server was tried once."""
        self._until = self._clock() + self._wait_s
        self._all_tried = all_tried

    def is_over(self) -> bool:
        """Return whether the wait is over; it never starts again."""
        if self._all_tried() or self._clock() >= self._until:
            self._all_tried = _always
            return True
        return False


def _always() -> bool:
    return True


T = TypeVar("T")


class Phase(Enum):
    """The phases of the process, in order."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Lifecycle:
    """The process's phase and its calls in flight.

    While stopping, new calls are refused with SHUTTING_DOWN; calls in flight continue until
    ``cancel_in_flight`` ends them with the same code.
    """

    def __init__(self) -> None:
        self._phase = Phase.STARTING
        self._draining = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._running: set[asyncio.Task[object]] = set()
        self._cancelled: set[asyncio.Task[object]] = set()

    def __repr__(self) -> str:
        return f"<Lifecycle {self.phase.value}, {self.in_flight} in flight>"

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        if phase is Phase.STOPPING:
            self.drain()

    def drain(self) -> None:
        """End streams, and close each connection after its next response.

        In the phase SERVING, calls are still answered: another process takes new connections.
        """
        self._draining.set()

    @property
    def is_draining(self) -> bool:
        """Whether connections are closed after their next response."""
        return self._draining.is_set()

    async def draining(self) -> None:
        """Wait until streams have to end."""
        await self._draining.wait()

    async def idle(self) -> None:
        """Wait until no call is in flight."""
        await self._idle.wait()

    @property
    def in_flight(self) -> int:
        """The number of calls in flight."""
        return len(self._running)

    async def track(self, work: Awaitable[T]) -> T:
        """Await ``work`` as a call in flight. Raises ShuttingDown after ``cancel_in_flight``."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call runs in a task")  # pragma: no cover - asyncio runs it in one
        self._running.add(task)
        self._idle.clear()
        try:
            return await work
        except asyncio.CancelledError:
            if task not in self._cancelled:
                raise
            task.uncancel()
            raise ShuttingDown("this replica stopped before the call was done") from None
        finally:
            self._running.discard(task)
            self._cancelled.discard(task)
            if not self._running:
                self._idle.set()

    def check_serving(self) -> None:
        """Raise ShuttingDown if the process is stopping."""
        if self.phase is Phase.STOPPING:
            raise ShuttingDown("this replica is stopping; send the call again")

    def cancel_in_flight(self) -> None:
        """End all calls in flight with SHUTTING_DOWN."""
        for task in self._running - self._cancelled:
            self._cancelled.add(task)
            task.cancel()
