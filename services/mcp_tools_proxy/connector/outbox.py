"""What waits to be sent over the link, in order and bounded in bytes. It outlives a link."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from mcp_tools_proxy.connector.faults import LinkFault

MAX_BYTES = 8 * 1024 * 1024
"""How much may wait; whoever has more to say waits itself."""

MAX_TRIES = 3
"""Over how many links a frame is begun: one that broke them all would break any, and wait for ever
with all that is behind it. It may be over a limit of the backend, say."""

Send = Callable[[bytes], Awaitable[None]]
"""Sends one frame over a link. Raises LinkFault."""

log = structlog.get_logger()


class Outbox:
    """Frames on their way out: ``put`` waits for room, ``drain`` gives them to a link."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self._filled, self._emptied, self._has_room = (asyncio.Event() for _ in range(3))
        self._tries = 0
        """Over how many links the first of the frames was begun."""
        self._begun_over: Send | None = None
        """The last of these links."""
        self._send: Send | None = None
        self._sending = asyncio.Lock()
        self._limit: asyncio.Timeout | None = None
        """Of the frame that is being sent: it expires when the link ends."""
        self.waiting_bytes = 0
        self._tell()

    def __repr__(self) -> str:
        return f"<Outbox {len(self._frames)} frames, {self.waiting_bytes} bytes>"

    async def room(self, within_s: float | None = None) -> bool:
        """Wait until there is room for one frame more, whatever its size, or the time is over."""
        if self._has_room.is_set():
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._has_room.is_set():
                    await self._has_room.wait()
        return self._has_room.is_set()

    async def empty(self) -> None:
        """Wait until everything was handed over."""
        await self._emptied.wait()

    async def put(self, frame: bytes) -> None:
        """Leave a frame to be sent; wait while there is no room.

        Where nothing waits it is sent here and now: that costs less than having it sent.
        """
        await self.room()
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        if self._send is None or self._sending.locked() or len(self._frames) > 1:
            self._tell()
            return
        self._emptied.clear()
        try:
            await self._send_first()
        except (LinkFault, TimeoutError):
            pass  # it waits for the next link
        finally:
            self._tell()

    async def drain(self, send: Send) -> None:
        """Send what there is and what comes, until cancelled or ``send`` raises LinkFault.

        A frame goes out of here only when it was sent: at worst it is sent once more, over the
        next link. One that was begun over ``MAX_TRIES`` links, and never sent, is given up.
        """
        self._send = send
        try:
            while True:
                await self._filled.wait()
                await self._send_first()
        finally:
            self._send = None
            if self._limit is not None:  # whoever left a frame, and sends it over this link
                self._limit.reschedule(asyncio.get_running_loop().time())

    async def _send_first(self) -> None:
        """Send the first frame. Raises LinkFault, TimeoutError when the link ends meanwhile."""
        async with self._sending:
            if self._send is None or not self._frames:  # somebody else has sent it
                return
            frame = self._frames[0]
            if self._begun_over is not self._send:
                self._begun_over = self._send
                self._tries += 1
            if self._tries <= MAX_TRIES:
                await self._send_within_link(self._send, frame)
            else:
                log.error("remote.frame_given_up", bytes=len(frame), tries=MAX_TRIES)
            if self._frames and self._frames[0] is frame:  # unless cleared meanwhile
                self._frames.popleft()
                self.waiting_bytes -= len(frame)
                self._tries, self._begun_over = 0, None
                self._tell()

    async def _send_within_link(self, send: Send, frame: bytes) -> None:
        try:
            async with asyncio.timeout(None) as self._limit:
                await send(frame)
        finally:
            self._limit = None

    def clear(self) -> None:
        """Forget what waits: nobody is there to read it any more."""
        self._frames.clear()
        self.waiting_bytes = 0
        self._tries, self._begun_over = 0, None
        self._tell()

    def _tell(self) -> None:
        _set(self._filled, bool(self._frames))
        _set(self._emptied, not self._frames)
        _set(self._has_room, self.waiting_bytes < self._max_bytes)


def _set(event: asyncio.Event, on: bool) -> None:
    if on:
        event.set()
    else:
        event.clear()
