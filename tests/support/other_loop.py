import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

from tests.support.bounds import BOUND_S

T = TypeVar("T")
Result = TypeVar("Result")


class OtherLoop(Generic[T]):
    def __init__(self, opening: AbstractAsyncContextManager[T]) -> None:
        self._opening = opening
        self._opened: T | None = None
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(name="other loop", target=self._run)

    @property
    def opened(self) -> T:
        assert self._opened is not None
        return self._opened

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def start(self) -> None:
        self._thread.start()
        await asyncio.to_thread(self._started.wait, BOUND_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._hold())

    async def _hold(self) -> None:
        async with self._opening as self._opened:
            self._started.set()
            await self._stopping.wait()


@asynccontextmanager
async def in_another_loop(opening: AbstractAsyncContextManager[T]) -> AsyncIterator[OtherLoop[T]]:
    """Enter ``opening`` in a thread with a separate loop, and exit it there at the end."""
    other = OtherLoop(opening)
    await other.start()
    try:
        yield other
    finally:
        other.stop()
