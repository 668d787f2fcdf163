"""Sends the store's requests to Redis: each within a second, and none right after Redis failed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import RedisError, ResponseError

from mcp_tools_proxy.storage.redis_timeout import io_timeout
from mcp_tools_proxy.system.failure_reasons import redis_reason

T = TypeVar("T")
Send = Callable[[], Awaitable[T]]

CALL_SLOTS = 32
"""Calls that use Redis at once; the others wait for a slot, which is no failure of Redis."""

UPKEEP_SLOTS = 8
"""Connections by which leases are renewed whatever calls do: one tenant's 2,500 replays took all,
and another tenant's call lost its lease."""

MAX_CONNECTIONS = CALL_SLOTS + UPKEEP_SLOTS

WAIT_S = 1.0
"""Longest wait of one call for Redis."""

RETRY_S = 1.0
"""Seconds for which Redis is left alone after it failed."""

_FAILURES = (RedisError, OSError)  # TimeoutError is an OSError


class RedisDown(Exception):
    """Redis did not do what it was sent."""


class RedisRefused(RedisDown):
    """Redis answered with an error, so it has changed nothing."""


class RedisRequests:
    """Sends requests of calls, and those of upkeep, which no call delays.

    ``on_failure`` is called when a request of a call fails; ``clock`` returns seconds.
    """

    def __init__(self, on_failure: Callable[[], None], clock: Callable[[], float]) -> None:
        self._on_failure = on_failure
        self._clock = clock
        self._call_slots = asyncio.Semaphore(CALL_SLOTS)
        self._upkeep_slots = asyncio.Semaphore(UPKEEP_SLOTS)
        self._retry_at: float | None = None

    async def for_call(self, send: Send[T]) -> T:
        """Return what a request of a call returns.

        Raises RedisDown if Redis fails, or did a moment ago; RedisRefused for its error.
        """
        self._check_not_failing()
        try:
            async with self._call_slots:
                self._check_not_failing()  # 640 calls in a queue waited a second each, 32 at a time
                return await _in_time(send)
        except RedisRefused:
            self._on_failure()
            raise
        except RedisDown:
            self._retry_at = self._clock() + RETRY_S
            self._on_failure()
            raise

    async def for_upkeep(self, send: Send[T]) -> T:
        """Return what a request returns. Raises RedisDown."""
        async with self._upkeep_slots:
            return await _in_time(send)

    def works_again(self) -> None:
        """Forget that Redis failed: calls may use it at once."""
        self._retry_at = None

    def _check_not_failing(self) -> None:
        if self._retry_at is not None and self._clock() < self._retry_at:
            raise RedisDown("Redis did not answer a moment ago")


async def _in_time(send: Send[T]) -> T:
    try:
        async with io_timeout(WAIT_S):
            return await send()
    except ResponseError as error:
        raise RedisRefused(type(error).__name__) from error
    except _FAILURES as error:
        raise RedisDown(f"Redis: {redis_reason(error)}") from error
