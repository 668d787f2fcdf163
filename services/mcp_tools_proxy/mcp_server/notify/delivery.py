"""Telling clients of changes without waiting for them: each is told in a task of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import structlog

SEND_TIMEOUT_S = 5.0
"""How long a client may take to be told; one that does not read must not pile up work."""

T = TypeVar("T")

log = structlog.get_logger()


class Recipient(Generic[T]):
    """Somebody who is told what is due, all at once, and then what became due meanwhile."""

    def __init__(self, tell: Callable[[frozenset[T]], Awaitable[None]]) -> None:
        self._tell = tell
        self._due: set[T] = set()
        self._telling = False

    def add(self, due: Iterable[T]) -> bool:
        """Make more due. Tell whether ``tell`` has to be run for it."""
        self._due.update(due)
        if self._telling or not self._due:
            return False
        self._telling = True
        return True

    async def tell(self) -> None:
        """Tell what is due until nothing is. A recipient that cannot be told is let go."""
        try:
            while self._due:
                due, self._due = frozenset(self._due), set()
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self._tell(due)
        except Exception as error:  # noqa: BLE001 - whoever cannot be told is gone, or does not read
            log.debug("facade.not_told", error=type(error).__name__)
        finally:
            self._telling = False


class Delivery:
    """Runs the tasks that tell; what is due while ``run`` does not run is told to nobody."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    def soon(self, recipient: Recipient[T], due: Iterable[T]) -> None:
        """Have a recipient told of ``due``."""
        if self._tasks is not None and recipient.add(due):
            self._tasks.create_task(recipient.tell())

    async def run(self) -> None:
        """Hold the tasks until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None
