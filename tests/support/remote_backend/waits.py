import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.support.bounds import BOUND_S


@asynccontextmanager
async def bounded(what: str, bound_s: float | None = BOUND_S) -> AsyncIterator[None]:
    """Fail with this message if the block takes longer than ``bound_s``; None is unlimited."""
    limit = asyncio.timeout(bound_s)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise AssertionError(f"never: {what}") from None
        raise


class Changes:
    """Wakes waiters for a condition whenever something changed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait without a bound; changes of the state that ``holds`` reads must ``notify``."""
        while not holds():
            await self._next.wait()
