"""The raw server in a thread of its own, so that its work is not in the event loop of the test."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.raw_web import RawServer, running_raw


class _ServerThread(threading.Thread):
    """Serves until it is told to stop."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(name="raw server")
        self.server: RawServer | None = None
        self.started = threading.Event()
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self.join()

    async def _serve(self) -> None:
        async with running_raw(**self._options) as self.server:
            self.started.set()
            await self._stopping.wait()


@asynccontextmanager
async def running_raw_in_thread(**options: Any) -> AsyncIterator[RawServer]:
    """Serve in a thread; ``options`` are those of Options."""
    thread = _ServerThread(options)
    thread.start()
    try:
        await asyncio.to_thread(thread.started.wait, BOUND_S)
        assert thread.server is not None
        yield thread.server
    finally:
        thread.stop()
