"""The storage in Redis by which replicas share budgets."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from limits.aio.storage import RedisStorage
from limits.errors import StorageError
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from mcp_tools_proxy.ratelimit.budget_counter import CountingStorage
from mcp_tools_proxy.ratelimit.budget_limits import Budget
from mcp_tools_proxy.ratelimit.memory_storage import MemoryStorage
from mcp_tools_proxy.redis_client.connection_pool import KEY_PREFIX, open_pool
from mcp_tools_proxy.wire.text import quote

MAX_CONNECTIONS = 80
"""More than ``failover.MAX_CONCURRENT_CALLS``: each call uses one connection, the probe another."""

_COUNT_OF = """
local function count_of(key)
  local value = redis.pcall('GET', key)
  if value == false then
    return 0
  elseif type(value) == 'string' and #value < 19 and redis.call('PTTL', key) >= 0
      and (value == '0' or string.match(value, '^-?[1-9]%d*$')) then
    return tonumber(value)
  elseif type(redis.pcall('DEL', key)) == 'number' then
    return 'deleted'
  end
  return 'unusable'
end
"""
"""Reads a counter, and deletes a foreign value: of another type, no integer, or without expiry."""

_READ_COUNTS = f"""{_COUNT_OF}
local counts = {{}}
for i, key in ipairs(KEYS) do
  counts[i] = count_of(key)
end
return counts
"""

_CHARGE = """
local function charge(key, amount, window)
  local sum = redis.call('INCRBY', key, amount)
  if sum == amount then
    redis.call('EXPIRE', key, window)
  end
  return sum
end
"""
"""Adds to a counter, whose window begins with its first charge."""

_CHARGE_CALL = f"""{_COUNT_OF}{_CHARGE}
local counts, refused = {{}}, 0
for i, key in ipairs(KEYS) do
  counts[i] = count_of(key)
  if counts[i] == 'unusable' or (tonumber(counts[i]) or 0) >= tonumber(ARGV[2 * i]) then
    refused = 1
  end
end
if refused == 0 then
  for i, key in ipairs(KEYS) do
    if ARGV[2 * i + 1] == 'calls' then
      charge(key, 1, ARGV[1])
    end
  end
end
return {{refused, counts}}
"""
"""Charges a call to all budgets of calls, or to none if one of KEYS is exhausted or unusable.

ARGV: the window in seconds, then of each key its limit and unit.
"""

_CHARGE_MANY = f"""{_CHARGE}
local sums = {{}}
for i, key in ipairs(KEYS) do
  local done, sum = pcall(charge, key, tonumber(ARGV[2 * i - 1]), ARGV[2 * i])
  sums[i] = done and sum or 'failed'
end
return sums
"""
"""Charges each of KEYS. ARGV: of each key the amount, and the window in seconds."""

_READ_LEFT = """
local left = {}
for i, key in ipairs(KEYS) do
  left[i] = redis.call('PTTL', key)
  if left[i] > tonumber(ARGV[1]) then
    redis.call('PEXPIRE', key, ARGV[1])
    left[i] = tonumber(ARGV[1])
  end
end
return left
"""
"""Reads the milliseconds that keys have left, and limits them to ARGV[1]."""

_UNFIT_VALUE = ("WRONGTYPE", "not an integer", "would overflow")
"""Parts of Redis' error texts for a value that it cannot add to."""

_DELETED = frozenset({b"deleted", "deleted"})
"""What the scripts give for a foreign value that they have deleted."""

log = structlog.get_logger()


class SharedRedisStorage(RedisStorage, CountingStorage):
    """The ``limits`` storage in Redis, which also charges several counters in one round trip.

    A foreign value at one of our keys is deleted when the key is next read. Until then that key,
    and no other, is counted in this process.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__(
            "async+redis://",  # the pool has the address; limits would require a port in it
            wrap_exceptions=True,
            implementation="redispy",
            key_prefix=KEY_PREFIX,
            connection_pool=pool,  # type: ignore[arg-type]  # documented, but typed as a scalar
        )
        self._client = Redis(connection_pool=pool)
        self._read_counts = self._client.register_script(_READ_COUNTS)
        self._read_left = self._client.register_script(_READ_LEFT)
        self._charge_call = self._client.register_script(_CHARGE_CALL)
        self._charge_many = self._client.register_script(_CHARGE_MANY)
        self._local = MemoryStorage()

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a key's window and return the sum; raises StorageError when Redis fails."""
        try:
            return await super().incr(key, expiry, amount)
        except StorageError as error:
            if not any(reply in str(error.storage_error) for reply in _UNFIT_VALUE):
                raise
        count = await self._local.incr(key, expiry, amount)
        if count == amount:
            log.warning("limits.key_unusable", key=quote(key))
        return count

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Charge one call in one round trip, see CountingStorage; foreign values step by step."""
        window_s = budgets[0].window_s if budgets else 1
        limits = [word for budget in budgets for word in (budget.limit, budget.unit)]
        try:
            refused, counts = await self._charge_call(
                [self.bridge.prefixed_key(budget.key) for budget in budgets], [window_s, *limits]
            )
        except RedisError as error:
            raise StorageError(error) from error
        if not all(isinstance(count, int) for count in counts):
            for budget, count in zip(budgets, counts, strict=True):
                if count in _DELETED:
                    log.warning("limits.key_deleted", key=quote(budget.key))
            if refused:
                return await super().charge_unless_exhausted(budgets)
        if not refused:
            return []
        return [b for b, count in zip(budgets, counts, strict=True) if count >= b.limit]

    async def get_many(self, keys: Sequence[str]) -> list[int]:
        """Return the counts of several keys; raises StorageError when Redis fails."""
        try:
            found = await self._read_counts([self.bridge.prefixed_key(key) for key in keys])
        except RedisError as error:
            raise StorageError(error) from error
        return [
            count if isinstance(count, int) else await self._count_of_foreign(key, count)
            for key, count in zip(keys, found, strict=True)
        ]

    async def _count_of_foreign(self, key: str, what: bytes | str) -> int:
        if what in _DELETED:
            log.warning("limits.key_deleted", key=quote(key))
            return 0
        return await self._local.get(key)

    async def seconds_left(self, keys: Sequence[str], window_s: int) -> list[float]:
        """Return the seconds until each key's window ends, by the clock of Redis alone."""
        try:
            found: list[int] = await self._read_left(
                [self.bridge.prefixed_key(key) for key in keys], [window_s * 1000]
            )
        except RedisError as error:
            raise StorageError(error) from error
        local = await self._local.seconds_left(keys, window_s)
        return [
            left_ms / 1000 if left_ms > 0 else other
            for left_ms, other in zip(found, local, strict=True)
        ]

    async def add_many(self, charges: Sequence[tuple[str, int, int]]) -> list[int]:
        """Charge several keys in one round trip; failed charges are retried one by one."""
        keys = [self.bridge.prefixed_key(key) for key, _, _ in charges]
        arguments = [word for _, window_s, amount in charges for word in (amount, window_s)]
        try:
            sums = await self._charge_many(keys, arguments)
        except RedisError as error:
            raise StorageError(error) from error
        return [
            count if isinstance(count, int) else await self.incr(*charge)
            for charge, count in zip(charges, sums, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStorage:
    """A storage, and its name for log lines (no user, no password).

    ``connect`` opens a number of connections before their use, ``disconnect`` drops the idle ones.
    """

    storage: CountingStorage
    name: str
    connect: Callable[[int], Awaitable[None]]
    disconnect: Callable[[], Awaitable[None]]


def open_redis(url: str) -> OpenStorage:
    """Build a storage in the Redis at ``url``; it connects when first used.

    Raises ValueError for the URL, see ``open_pool``. Failures of Redis are raised as
    ``limits.errors.StorageError``.
    """
    opened = open_pool(url, max_connections=MAX_CONNECTIONS)
    pool = opened.connections

    async def connect(count: int) -> None:
        connections: list[AbstractConnection] = []

        async def open_one() -> None:
            connections.append(await pool.get_connection())  # type: ignore[no-untyped-call]

        try:  # all are opened before any is released; calls open those that failed
            await asyncio.gather(*(open_one() for _ in range(count)), return_exceptions=True)
        finally:
            for connection in connections:
                await pool.release(connection)

    async def disconnect() -> None:
        with contextlib.suppress(RedisError):  # a broken connection may fail to close
            await pool.disconnect(inuse_connections=False)

    return OpenStorage(
        storage=SharedRedisStorage(pool), name=opened.name, connect=connect, disconnect=disconnect
    )
