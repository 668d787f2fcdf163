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
    watchers: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:
            start = asyncio.get_running_loop().call_later(
                WATCH_AFTER_S,
                lambda: watchers.append(group.create_task(disconnected(receive, _raise))),
            )
            try:
                return await work
            finally:
                start.cancel()
                for watcher in watchers:
                    watcher.cancel()
    except* ClientDisconnect:
        pass
    raise ClientDisconnect


async def disconnected(receive: Receive, then: Callable[[], None]) -> None:
    """Wait until the caller disconnects, and call ``then``."""
    while (await receive())["type"] != "http.disconnect":
        pass
    then()


def _raise() -> None:
    raise ClientDisconnect
