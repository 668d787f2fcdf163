"""Circuit breaker around the shared store, i.e. Redis (T-10).

It limits each wait, opens on failure, and probes in the background until the store answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from limits.errors import StorageError

from mcp_tools_proxy.ratelimit.storage import CountingStorage, SharedStorage
from mcp_tools_proxy.storage.redis_timeout import io_timeout
from mcp_tools_proxy.system.failure_reasons import redis_reason
from mcp_tools_proxy.telemetry.metrics import Metrics

T = TypeVar("T")

PROBE_INTERVAL_S = 1.0
PROBE_TIMEOUT_S = 1.0
PROBE_KEY = "probe"

_FAILURES = (StorageError, OSError)  # TimeoutError is an OSError

log = structlog.get_logger()


class StoreDown(Exception):
    """The shared store is unavailable; count in memory instead."""


class SharedStore:
    """A counting store that replicas share, with its state.

    It counts as up until a call or the first probe fails, so that the service starts without it.
    ``sleep`` and ``probe_interval_s`` (seconds) pace the probe.
    """

    def __init__(
        self,
        opened: SharedStorage,
        *,
        metrics: Metrics,
        probe_interval_s: float = PROBE_INTERVAL_S,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.up = True
        self.problem: str | None = None
        self._storage = opened.storage
        self._name = opened.name
        self._disconnect = opened.disconnect
        self._metrics = metrics
        self._probe_interval_s = probe_interval_s
        self._sleep = sleep
        self._down = asyncio.Event()

    def __repr__(self) -> str:
        return f"<SharedStore {self._name} {'up' if self.up else 'down'}>"

    async def attempt(
        self, operation: Callable[[CountingStorage], Awaitable[T]], wait_s: float
    ) -> T:
        """Run ``operation`` on the store, waiting at most ``wait_s`` seconds for it.

        Raises StoreDown when the store is down (without waiting), fails, or answers too late; the
        last two mark it down.
        """
        if not self.up:
            raise StoreDown
        try:
            async with io_timeout(wait_s):
                return await operation(self._storage)
        except _FAILURES as error:
            self._failed(error)
            raise StoreDown from error

    async def connect(self) -> None:
        """Open the connection, or mark the store down; wait at most one second.

        A cold connection takes twice the round trips of a call. With a slow store that exceeded a
        call's wait, so it was counted in this process, and 11 calls passed a limit of 10.
        """
        if await self._answers():
            self._recovered()

    async def run(self) -> None:
        """Probe at the start and while the store is down; mark it up when it answers.

        Runs until cancelled. The probe writes, so that a read-only Redis does not count as up.
        """
        while True:
            if await self._answers():
                self._recovered()
                await self._down.wait()
                await self._disconnect()
            await self._sleep(self._probe_interval_s)

    async def close(self) -> None:
        """Drop the connections."""
        await self._disconnect()

    async def _answers(self) -> bool:
        try:
            async with io_timeout(PROBE_TIMEOUT_S):
                await self._storage.incr(PROBE_KEY, 1)
                # these load their Lua scripts, which would make a first call slower
                await self._storage.charge_unless_exhausted([])
                await self._storage.add_many([])
                await self._storage.read_many([(PROBE_KEY, 1)])
        except _FAILURES as error:
            if self.up:
                self._failed(error)
            else:  # the cause may have changed
                self.problem = f"Redis: {redis_reason(_cause_of(error))}"
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self._metrics.limit_store_failures.inc()
        if self.up:
            self.up = False
            self._down.set()
            self._metrics.limit_store_up.set(0)
            log.warning(
                "limits.store_down",
                store=self._name,
                error=type(_cause_of(error)).__name__,
                reason=redis_reason(_cause_of(error)),
            )
        self.problem = f"Redis: {redis_reason(_cause_of(error))}"

    def _recovered(self) -> None:
        self.problem = None
        if not self.up:
            self.up = True
            self._down.clear()
            self._metrics.limit_store_up.set(1)
            log.info("limits.store_up", store=self._name)


def _cause_of(error: Exception) -> BaseException:
    return error.storage_error if isinstance(error, StorageError) else error
