"""Cancels the work of a caller who has disconnected: Starlette does not watch for that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")

WATCH_AFTER_S = 0.05
"""Seconds of work before its caller is watched: most work is done sooner, and a watcher costs as
much as a short call."""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of ``work``; on a disconnect cancel it and raise ClientDisconnect.

    The request's body has to be read before, so that the next message of ``receive`` is the
    disconnect.
    """
    watcher = _Watcher(receive)
    timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, watcher.watch)
    try:
        result = await work
    except asyncio.CancelledError:
        watcher.raise_if_left()
        raise
    finally:
        timer.cancel()
        watcher.end()
    watcher.raise_if_left()
    return result


class _Watcher:
    """Cancels the task that created it when the caller disconnects."""

    __slots__ = ("_has_left", "_receive", "_task", "_watching")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._has_left = False

    def watch(self) -> None:
        self._watching = asyncio.ensure_future(disconnected(self._receive, self._leave))

    def end(self) -> None:
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


async def disconnected(receive: Receive, then: Callable[[], None]) -> None:
    """Wait until the caller disconnects, and call ``then``."""
    while (await receive())["type"] != "http.disconnect":
        pass
    then()
