"""The frames that wait to be sent, in order and bounded in bytes. The outbox outlives a link."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

MAX_BYTES = 8 * 1024 * 1024
"""Bytes that may wait; beyond it senders wait."""

MAX_TRIES = 3
"""Links over which sending one frame is tried.

A frame that breaks every link (it is over a limit of the backend, say) would otherwise block all
frames behind it for ever.
"""

log = structlog.get_logger()


class Outbox:
    """A queue of frames: ``put`` waits for capacity, ``drain`` sends them over a link."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self._filled, self._emptied, self._has_capacity = (asyncio.Event() for _ in range(3))
        self._turn = asyncio.Lock()
        """Wakes waiting senders one at a time: waking a thousand for each frame takes long."""
        self._tries = 0
        """How often sending the first frame was tried."""
        self.waiting_bytes = 0
        self._update_events()

    def __repr__(self) -> str:
        return f"<Outbox {len(self._frames)} frames, {self.waiting_bytes} bytes>"

    async def wait_for_capacity(self, within_s: float | None = None) -> bool:
        """Wait in turn for capacity for one more frame of any size; return whether there is some.

        ``within_s`` bounds the wait, in seconds.
        """
        if self._has_capacity.is_set() and not self._turn.locked():
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._turn:
                await self._has_capacity.wait()
                return True
        return False

    async def empty(self) -> None:
        """Wait until every frame was sent."""
        await self._emptied.wait()

    async def put(self, frame: bytes) -> None:
        """Add a frame; wait while the outbox is full."""
        await self.wait_for_capacity()
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        self._update_events()

    async def drain(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send frames as they come, until cancelled or ``send`` raises.

        A frame is removed only when it was sent: at worst the next link sends it once more. A frame
        that was tried ``MAX_TRIES`` times is logged and dropped.
        """
        while True:
            await self._filled.wait()
            frame = self._frames[0]
            if self._tries < MAX_TRIES:
                self._tries += 1
                await send(frame)
            else:
                log.error("remote.frame_given_up", bytes=len(frame), tries=self._tries)
            if self._frames and self._frames[0] is frame:  # unless cleared meanwhile
                self._frames.popleft()
                self._tries = 0
                self.waiting_bytes -= len(frame)
                self._update_events()

    def clear(self) -> None:
        """Drop all frames: their sessions have ended."""
        self._frames.clear()
        self._tries = 0
        self.waiting_bytes = 0
        self._update_events()

    def _update_events(self) -> None:
        _set(self._filled, bool(self._frames))
        _set(self._emptied, not self._frames)
        _set(self._has_capacity, self.waiting_bytes < self._max_bytes)


def _set(event: asyncio.Event, on: bool) -> None:
    if on:
        event.set()
    else:
        event.clear()
