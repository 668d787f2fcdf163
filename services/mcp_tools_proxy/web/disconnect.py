"""Cancels the work of a caller who has gone away: the framework does not watch for it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")

WATCH_AFTER_S = 0.05
"""How long work may take before its caller is watched: most is done sooner, and watching costs as
much as a short call does."""


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Give what ``work`` gives. Raises ClientDisconnect, with the work cancelled, if it must.

    The request's body has to be read before: what ``receive`` gives next is the disconnect.
    """
    watchers: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:
            start = asyncio.get_running_loop().call_later(
                WATCH_AFTER_S, lambda: watchers.append(group.create_task(_disconnected(receive)))
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


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnect
