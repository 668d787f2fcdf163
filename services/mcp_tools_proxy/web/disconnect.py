"""Cancels the work of a caller who has disconnected: Starlette does not watch for that."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")

WATCH_AFTER_S = 0.05
"""Seconds of work before its caller is watched, and at most twice as many: most work is done
sooner, a task that watches costs as much as a short call, and a timer of its own a twentieth."""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of ``work``; on a disconnect cancel it and raise ClientDisconnect.

    The request's body has to be read before, so that the next message of ``receive`` is the
    disconnect.
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
    """Begins to watch, once in WATCH_AFTER_S, for the work that was there a round ago already."""

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
    """Return the rounds of the running event loop; a thread runs one at a time."""
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
