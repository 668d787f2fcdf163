"""Delivers change notifications without waiting for slow clients: a task of its own for each.

A registry change may concern a thousand clients. One that does not read its stream must neither
hold up the others nor pile up work. It is not given up either: a client that reads again after a
minute gets what is pending then, else its lists would stay stale until the next change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")

log = structlog.get_logger()


class Subscriber(Generic[T]):
    """A notification target with coalescing: ``send`` gets all pending items as one batch.

    Items that are added while a batch is being sent form the next one.
    """

    def __init__(self, send: Callable[[frozenset[T]], Awaitable[None]]) -> None:
        self._send = send
        self._pending: set[T] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, items: Iterable[T], tasks: asyncio.TaskGroup) -> None:
        """Add pending items, which a task of ``tasks`` sends."""
        self._pending.update(items)
        if self._pending and (self._task is None or self._task.done()):
            self._task = tasks.create_task(self._send_pending())

    def close(self) -> None:
        """Drop what is pending: the client has left."""
        if self._task is not None:
            self._task.cancel()

    async def _send_pending(self) -> None:
        """Send batches until no item is pending, however long the client takes.

        Sending fails when the client's session or stream ends; that is logged.
        """
        try:
            while self._pending:
                batch, self._pending = frozenset(self._pending), set()
                await self._send(batch)
        except Exception as error:  # noqa: BLE001 - the client has left
            log.debug("facade.not_told", error=type(error).__name__)


class Delivery:
    """Owns the sending tasks. Items that are enqueued while ``run`` does not run are dropped."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    def enqueue(self, subscriber: Subscriber[T], items: Iterable[T]) -> None:
        """Add ``items`` to those pending for ``subscriber``, and send them in the background."""
        if self._tasks is not None:
            subscriber.add(items, self._tasks)

    async def run(self) -> None:
        """Keep the task group open until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None
