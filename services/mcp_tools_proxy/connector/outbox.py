"""What waits to be sent over the link, in order and bounded in bytes. It outlives a link."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

MAX_BYTES = 8 * 1024 * 1024
"""How much may wait; whoever has more to say waits itself."""

MAX_TRIES = 3
"""Over how many links a frame is begun: one that broke them all would break any, and wait for ever
with all that is behind it. It may be over a limit of the backend, say."""

log = structlog.get_logger()


class Outbox:
    """Frames on their way out: ``put`` waits for room, ``drain`` gives them to a link."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self._filled, self._emptied, self._has_capacity = (asyncio.Event() for _ in range(3))
        self._turn = asyncio.Lock()
        """Whose turn it is when there is room: to wake all of a thousand each time takes long."""
        self._tries = 0
        """How often the first of the frames was begun."""
        self.waiting_bytes = 0
        self._update_events()

    def __repr__(self) -> str:
        return f"<Outbox {len(self._frames)} frames, {self.waiting_bytes} bytes>"

    async def wait_for_capacity(self, within_s: float | None = None) -> bool:
        """Wait in turn for room for one frame more, whatever its size; tell whether there is some.

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
        """Wait until everything was handed over."""
        await self._emptied.wait()

    async def put(self, frame: bytes) -> None:
        """Leave a frame to be sent; wait while there is no room."""
        await self.wait_for_capacity()
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        self._update_events()

    async def drain(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what there is and what comes, until cancelled or ``send`` raises.

        A frame goes out of here only when it was sent: at worst it is sent once more, over the
        next link. One that was begun ``MAX_TRIES`` times, and never sent, is given up.
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
        """Forget what waits: nobody is there to read it any more."""
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
