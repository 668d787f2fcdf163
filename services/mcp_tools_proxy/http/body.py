"""Reads request bodies within their limits, and cancels work on a disconnect.

Starlette does not detect disconnects.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from mcp_tools_proxy.domain.errors import PayloadTooLarge
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.strict_json import parse_request

DISCARD_MAX_BYTES = 64 * 1024 * 1024
DISCARD_MAX_S = 5.0
"""Bytes and seconds of an oversized body that are still read: many clients read no response before
they have sent everything, and would see a broken connection instead of a 413.
"""

PACED_BYTES = 64 * 1024
"""Size of a large body, in bytes; parsing one of the largest takes up to 40 ms."""

TURNS_APART = 4
"""Event loop turns between large bodies: a small request needs about three, so it waits for one
large body at most.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """The size of a body in bytes, and the number of values in its JSON."""

    max_bytes: int
    max_items: int


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """Read a whole body. Raises PayloadTooLarge over ``max_bytes``, ClientDisconnect.

    Large bodies that complete at the same time are returned in different turns of the event loop.
    Parsing 64 bodies of 900 kB in one turn delayed other callers by a second.
    """
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= max_bytes:
        chunk, more = await _next_chunk(receive)
        chunks.append(chunk)
        size += len(chunk)
    if size > max_bytes:
        chunks.clear()
        if more:
            await discard(receive, size)
        raise PayloadTooLarge(
            f"the request body is over {max_bytes} bytes; send less at a time",
            details={"max_request_bytes": max_bytes},
        )
    if size > PACED_BYTES:
        await _large_bodies.wait_for_turn()
    return b"".join(chunks)


class _LargeBodies:
    """Complete large bodies; each waits for those before it."""

    def __init__(self) -> None:
        self._count = 0

    async def wait_for_turn(self) -> None:
        before = self._count
        self._count += 1
        try:
            for _ in range(before * TURNS_APART):
                await asyncio.sleep(0)
        finally:
            self._leave(TURNS_APART)

    def _leave(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._leave, turns - 1)
        else:
            self._count -= 1


_large_bodies = _LargeBodies()


async def parse_body(data: bytes, limits: BodyLimits) -> object:
    """Parse a body as strict JSON. Raises InvalidRequest.

    A large one takes up to 40 ms, so other tasks run before it is returned.
    """
    content = parse_request(data, max_items=limits.max_items)
    if len(data) > PACED_BYTES:
        await asyncio.sleep(0)
    return content


async def _next_chunk(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def discard(receive: Receive, size: int) -> None:
    """Read and drop the rest of a body, up to the limits above."""
    try:
        async with asyncio.timeout(DISCARD_MAX_S):
            more = True
            while more and size <= DISCARD_MAX_BYTES:
                chunk, more = await _next_chunk(receive)
                size += len(chunk)
    except TimeoutError:
        return


T = TypeVar("T")

WATCH_AFTER_S = 0.05
"""Minimum time in seconds before work is watched for a disconnect; the maximum is twice that.

Most work ends sooner; a watching task costs as much as a short call, and a timer per request a
twentieth.
"""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of ``work``; on a disconnect cancel it and raise ClientDisconnect.

    The body must have been read, so that the next message of ``receive`` is the disconnect.
    """
    watcher = _Watcher(receive)
    _rounds_here().add(watcher)
    try:
        result = await work
    except asyncio.CancelledError:
        watcher.raise_if_left()
        raise
    finally:
        watcher.end()
    watcher.raise_if_left()
    return result


class _Watcher:
    """Cancels the task that created it when the caller disconnects."""

    __slots__ = ("_has_left", "_receive", "_task", "_watching", "has_ended")

    def __init__(self, receive: Receive) -> None:
        self.has_ended = False
        self._has_left = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        self._watching = asyncio.ensure_future(disconnected(self._receive, self._leave))

    def end(self) -> None:
        self.has_ended = True
        if self._watching is not None:
            self._watching.cancel()

    def raise_if_left(self) -> None:
        """Raise ClientDisconnect if the caller has left, unless others cancelled the task too."""
        if self._has_left and self._task is not None and not self._task.uncancel():
            raise ClientDisconnect

    def _leave(self) -> None:
        self._has_left = True
        if self._task is not None:
            self._task.cancel()


class _Rounds:
    """Starts watching work for disconnects in rounds, one timer per event loop.

    New work is added to ``_new``. Every WATCH_AFTER_S, a round starts a watching task for
    unfinished work in ``_old``, and moves ``_new`` to ``_old``. So work that ends within one round
    is never watched. The timer stops when all work has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._new: list[_Watcher] = []
        self._old: list[_Watcher] = []
        self._is_running = False

    def add(self, watcher: _Watcher) -> None:
        self._new.append(watcher)
        if not self._is_running:
            self._is_running = True
            self.loop.call_later(WATCH_AFTER_S, self._next)

    def _next(self) -> None:
        for watcher in self._old:
            if not watcher.has_ended:
                watcher.watch()
        self._old = [it for it in self._new if not it.has_ended]
        self._new = []
        self._is_running = bool(self._old)
        if self._is_running:
            self.loop.call_later(WATCH_AFTER_S, self._next)


_of_thread = threading.local()


def _rounds_here() -> _Rounds:
    """Return the rounds of the running event loop, one per thread."""
    loop = asyncio.get_running_loop()
    rounds: _Rounds | None = getattr(_of_thread, "rounds", None)
    if rounds is None or rounds.loop is not loop:
        rounds = _of_thread.rounds = _Rounds(loop)
    return rounds


async def disconnected(receive: Receive, then: Callable[[], None]) -> None:
    """Wait until the caller disconnects, and call ``then``."""
    while (await receive())["type"] != "http.disconnect":
        pass
    then()
