"""A signal from many tasks to one: something changed, and the sender waits until it was handled."""

import asyncio
from collections.abc import AsyncGenerator


class ChangeSignal:
    """Carries changes from any number of tasks to one handler, which handles them in batches.

    A batch is all that was reported until the handler takes it. What is reported meanwhile is in
    the next batch.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._handled = asyncio.Event()
        """Set when what was reported until now is handled; each batch has an event of its own."""

    async def report(self) -> None:
        """Report a change, and wait until it was handled: for ever if nothing iterates."""
        self._changed.set()
        await self._handled.wait()

    async def batches(self) -> AsyncGenerator[None, None]:
        """Yield for each batch of changes, which is handled when the next one is requested."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            handled, self._handled = self._handled, asyncio.Event()
            try:
                yield
            finally:
                handled.set()
