"""Requests to Redis with a timeout of a second and a pause after failures, and a check of Redis."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from mcp_tools_proxy.storage.redis_pool import eviction_problem
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


NOW_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
"""Sets ``now`` to the milliseconds of the clock of Redis."""

_PROBE_SCRIPT = f"""{NOW_SCRIPT}
redis.call('SET', KEYS[1], '', 'PX', 1000)
return now
"""
"""Writes a short-lived key to check that scripts and writes work."""


class RedisProbe:
    """Checks that a Redis keeps records: it takes writes, and never evicts keys.

    It writes ``key``. ``variable`` is the setting with the URL; ``advice`` ends the message about
    eviction.
    """

    def __init__(
        self, redis: Redis, requests: RedisRequests, *, key: str, variable: str, advice: str
    ) -> None:
        self.time_ms = 0
        """Time of Redis at the last check that found no problem."""
        self._redis = redis
        self._requests = requests
        self._key = key
        self._variable = variable
        self._advice = advice
        self._script = redis.register_script(_PROBE_SCRIPT)

    async def problem(self) -> str | None:
        """Return why Redis cannot be used now, or None, which ends a pause after a failure."""
        try:
            memory = await self._requests.for_upkeep(lambda: self._redis.info("memory"))
            problem = eviction_problem(memory, self._variable)
            if problem is not None:
                return f"{problem}{self._advice}"
            self.time_ms = int(await self._requests.for_upkeep(lambda: self._script([self._key])))
        except RedisRefused as error:
            return f"Redis refuses to keep anything: {error}"
        except RedisDown as error:
            return str(error)
        self._requests.works_again()
        return None


async def next_check(is_due: asyncio.Event, every_s: float) -> None:
    """Wait ``every_s`` seconds, or RETRY_S after a check became due."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(every_s):
            await is_due.wait()
            await asyncio.sleep(RETRY_S)
    is_due.clear()
