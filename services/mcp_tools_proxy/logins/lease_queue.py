"""Waits for a lease: within one process one at a time, so that few poll what replicas share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.logins.login_store import BUSY

POLL_S = 0.05


class LeaseQueue:
    """The leases that one store waits for, by the keys of their owners."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(
        self, key: bytes, attempt: Callable[[], Awaitable[bool]], *, wait_s: float
    ) -> AsyncIterator[None]:
        """Call ``attempt`` until it returns True, for ``wait_s``; keep others of this store out.

        Raises LoginsUnavailable if it never does.
        """
        lock = self._locks.get(key)
        if lock is None:
            self._locks[key] = lock = asyncio.Lock()
        ends = asyncio.get_running_loop().time() + wait_s
        try:
            async with asyncio.timeout(wait_s):
                await lock.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            await _until(attempt, ends)
            yield
        finally:
            lock.release()


async def _until(attempt: Callable[[], Awaitable[bool]], ends: float) -> None:
    while not await attempt():
        if asyncio.get_running_loop().time() >= ends:
            raise _busy()
        await asyncio.sleep(POLL_S)


def _busy() -> LoginsUnavailable:
    return LoginsUnavailable(BUSY, reason="another renewal of the login has not finished")
