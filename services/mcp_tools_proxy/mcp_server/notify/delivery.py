"""Delivers change notifications without waiting for slow clients: a task of its own for each.

A registry change may concern a thousand clients. One that does not read its stream must neither
hold up the others nor pile up work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import structlog

SEND_TIMEOUT_S = 5.0
"""Seconds that a client may take to receive one batch; then its batch is dropped."""

T = TypeVar("T")

log = structlog.get_logger()


class Subscriber(Generic[T]):
    """A notification target with coalescing: ``send`` gets all pending items as one batch.

    Items that are added while a batch is being sent form the next one.
    """

    def __init__(self, send: Callable[[frozenset[T]], Awaitable[None]]) -> None:
        self._send = send
        self._pending: set[T] = set()
        self._is_sending = False

    def add(self, items: Iterable[T]) -> bool:
        """Add pending items. Return True if the caller has to start ``send_pending`` for them."""
        self._pending.update(items)
        if self._is_sending or not self._pending:
            return False
        self._is_sending = True
        return True

    async def send_pending(self) -> None:
        """Send batches until no item is pending. A failed or late batch is logged and dropped."""
        try:
            while self._pending:
                batch, self._pending = frozenset(self._pending), set()
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self._send(batch)
        except Exception as error:  # noqa: BLE001 - the client has left, or does not read
            log.debug("facade.not_told", error=type(error).__name__)
        finally:
            self._is_sending = False


class Delivery:
    """Owns the sending tasks. Items that are enqueued while ``run`` does not run are dropped."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    def enqueue(self, subscriber: Subscriber[T], items: Iterable[T]) -> None:
        """Add ``items`` to those pending for ``subscriber``, and send them in the background."""
        if self._tasks is not None and subscriber.add(items):
            self._tasks.create_task(subscriber.send_pending())

    async def run(self) -> None:
        """Keep the task group open until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None
