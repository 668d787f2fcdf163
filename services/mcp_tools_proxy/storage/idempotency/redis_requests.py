"""Requests to Redis with a timeout of a second and a pause after failures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import RedisError, ResponseError

from mcp_tools_proxy.storage.redis_timeout import io_timeout
from mcp_tools_proxy.system.failure_reasons import redis_reason

T = TypeVar("T")
Send = Callable[[], Awaitable[T]]

CALL_SLOTS = 32
"""Concurrent calls that use Redis; waiting for a slot does not count as a failure of Redis."""

UPKEEP_SLOTS = 8
"""Connections reserved to renew leases. Without them, 2,500 replays of one tenant used all, and a
call of another tenant lost its lease.
"""

MAX_CONNECTIONS = CALL_SLOTS + UPKEEP_SLOTS

WAIT_S = 1.0
"""Maximum wait of one call for Redis in seconds."""

RETRY_S = 1.0
"""Seconds without requests of calls after a failure of Redis."""

_FAILURES = (RedisError, OSError)  # includes TimeoutError, a subclass of OSError


class RedisDown(Exception):
    """Redis did not execute a request."""


class RedisRefused(RedisDown):
    """Redis returned an error, so nothing was changed."""


class RedisRequests:
    """Sends requests of calls and of upkeep, with separate slots.

    ``on_failure`` is called when a request of a call fails; ``clock`` returns seconds.
    """

    def __init__(self, on_failure: Callable[[], None], clock: Callable[[], float]) -> None:
        self._on_failure = on_failure
        self._clock = clock
        self._call_slots = asyncio.Semaphore(CALL_SLOTS)
        self._upkeep_slots = asyncio.Semaphore(UPKEEP_SLOTS)
        self._retry_at: float | None = None

    async def for_call(self, send: Send[T]) -> T:
        """Return the result of a call's request.

        Raises RedisDown if Redis fails or failed within RETRY_S; RedisRefused if it returns an
        error.
        """
        self._check_not_failing()
        try:
            async with self._call_slots:
                self._check_not_failing()  # 640 queued calls waited a second each, 32 at a time
                return await _in_time(send)
        except RedisRefused:
            self._on_failure()
            raise
        except RedisDown:
            self._retry_at = self._clock() + RETRY_S
            self._on_failure()
            raise

    async def for_upkeep(self, send: Send[T]) -> T:
        """Return the result of a request for upkeep. Raises RedisDown."""
        async with self._upkeep_slots:
            return await _in_time(send)

    def works_again(self) -> None:
        """End the pause after a failure."""
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
