"""The storage in Redis for budgets that replicas share."""

import contextlib
from collections.abc import Sequence

import structlog
from limits.aio.storage import RedisStorage
from limits.errors import StorageError
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError

from mcp_tools_proxy.ratelimit.budget_rules import Budget
from mcp_tools_proxy.ratelimit.redis_pipeline import Script, ScriptPipeline
from mcp_tools_proxy.ratelimit.storage import (
    Attempt,
    CounterReading,
    CountingStorage,
    MemoryStorage,
    SharedStorage,
    spent_of,
)
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX, open_pool
from mcp_tools_proxy.wire.text import quote

MAX_CONNECTIONS = 80
"""For the probe, and for calls that find a foreign value at one of our keys."""

_READ = """
local function read(key, window_s)
  local value = redis.pcall('GET', key)
  if value == false then
    return '0', 0
  elseif type(value) == 'string' and #value < 19
      and (value == '0' or string.match(value, '^-?[1-9]%d*$')) then
    local left = redis.call('PTTL', key)
    if left > window_s * 1000 then
      left = window_s * 1000
      redis.call('PEXPIRE', key, left)
    end
    if left >= 0 then
      return value, left
    end
  end
  return type(redis.pcall('DEL', key)) == 'number' and 'deleted' or 'unusable', 0
end
"""
"""Reads a counter and the milliseconds of its window, which it cuts to its length.

Deletes a foreign value: of another type, not an integer, or without expiry.
"""

_READ_MANY = Script(f"""{_READ}
local reply = {{}}
for i, key in ipairs(KEYS) do
  reply[2 * i - 1], reply[2 * i] = read(key, tonumber(ARGV[i]))
end
return table.concat(reply, ' ')
""")
"""Reads KEYS. ARGV: the seconds of each key's window.

Numbers come as one text: the client takes 2 µs to read each item of a list.
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

_CHARGE_CALL = Script(f"""{_READ}{_CHARGE}
local refused, reply, deleted = 0, {{}}, {{}}
for i, key in ipairs(KEYS) do
  local count, left = read(key, tonumber(ARGV[3 * i - 2]))
  if count == 'deleted' then
    count = '0'
    deleted[#deleted + 1] = i - 1
  end
  if count == 'unusable' or tonumber(count) >= tonumber(ARGV[3 * i - 1]) then
    refused = 1
  end
  reply[2 * i - 1], reply[2 * i] = count, left
end
if refused == 0 then
  for i, key in ipairs(KEYS) do
    if ARGV[3 * i] == 'calls' then
      local sum = charge(key, 1, ARGV[3 * i - 2])
      reply[2 * i - 1] = string.format('%.0f', sum)
      if sum == 1 then
        reply[2 * i] = ARGV[3 * i - 2] * 1000
      end
    end
  end
end
return {{refused, table.concat(reply, ' '), table.concat(deleted, ' ')}}
""")
"""Charges a call to all budgets of calls, or to none if one of KEYS is exhausted or unusable.

ARGV: the seconds of each key's window, its limit and unit. Returns whether the call is refused, the
readings afterwards, and the positions of keys whose foreign values were deleted.
"""

_CHARGE_MANY = Script(f"""{_CHARGE}
local sums = {{}}
for i, key in ipairs(KEYS) do
  local done, sum = pcall(charge, key, tonumber(ARGV[2 * i - 1]), ARGV[2 * i])
  sums[i] = done and sum or 'failed'
end
return sums
""")
"""Charges each of KEYS. ARGV: each key's amount, and its window in seconds."""

_UNFIT_VALUE = ("WRONGTYPE", "not an integer", "would overflow")

_UNUSABLE = frozenset({b"unusable", "unusable"})

_DELETED = frozenset({b"deleted", "deleted"})

log = structlog.get_logger()


class SharedRedisStorage(RedisStorage, CountingStorage):
    """The ``limits`` storage in Redis, which also charges several counters in one round trip.

    A foreign value at a budget's key is deleted when the key is next read. Until then only that key
    is counted in this process.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__(
            "async+redis://",  # the pool has the address; limits would require a port in it
            wrap_exceptions=True,
            implementation="redispy",
            key_prefix=KEY_PREFIX,
            connection_pool=pool,  # type: ignore[arg-type]  # documented, but typed as a scalar
        )
        self.pipeline = ScriptPipeline(pool)
        self._local = MemoryStorage()

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a key's window and return the sum; raises StorageError if Redis fails."""
        try:
            return await super().incr(key, expiry, amount)
        except StorageError as error:
            if not any(reply in str(error.storage_error) for reply in _UNFIT_VALUE):
                raise
        count = await self._local.incr(key, expiry, amount)
        if count == amount:
            log.warning("limits.key_unusable", key=quote(key))
        return count

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> Attempt:
        """Charge one call in one round trip, see CountingStorage; foreign values step by step."""
        arguments = [word for b in budgets for word in (b.window_s, b.limit, b.unit)]
        try:
            refused, text, deleted = await self.pipeline.run(
                _CHARGE_CALL,
                [self.bridge.prefixed_key(budget.key) for budget in budgets],
                arguments,
            )
        except RedisError as error:
            raise StorageError(error) from error
        for place in deleted.split():
            _log_deleted(budgets[int(place)].key)
        words = text.split()
        if not refused:
            return Attempt((), _readings_of(words))
        if not _UNUSABLE.isdisjoint(words):
            return await super().charge_unless_exhausted(budgets)
        readings = _readings_of(words)
        return Attempt(spent_of(budgets, readings), readings)

    async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
        """Read several counters with the clock of Redis; raises StorageError if Redis fails."""
        try:
            text = await self.pipeline.run(
                _READ_MANY,
                [self.bridge.prefixed_key(key) for key, _ in counters],
                [window_s for _, window_s in counters],
            )
        except RedisError as error:
            raise StorageError(error) from error
        words = text.split()
        if _DELETED.isdisjoint(words) and _UNUSABLE.isdisjoint(words):
            return _readings_of(words)
        return [
            await self._read_foreign(counter, word)
            if word in _DELETED or word in _UNUSABLE
            else (int(word), int(left_ms) / 1000)
            for counter, word, left_ms in zip(counters, words[::2], words[1::2], strict=True)
        ]

    async def _read_foreign(self, counter: tuple[str, int], found: bytes | str) -> CounterReading:
        if found in _DELETED:
            _log_deleted(counter[0])
            return 0, 0.0
        (reading,) = await self._local.read_many([counter])
        return reading

    async def add_many(self, charges: Sequence[tuple[str, int, int]]) -> list[int]:
        """Charge several keys in one round trip; failed charges are retried one by one."""
        keys = [self.bridge.prefixed_key(key) for key, _, _ in charges]
        arguments = [word for _, window_s, amount in charges for word in (amount, window_s)]
        try:
            sums = await self.pipeline.run(_CHARGE_MANY, keys, arguments)
        except RedisError as error:
            raise StorageError(error) from error
        return [
            count if isinstance(count, int) else await self.incr(*charge)
            for charge, count in zip(charges, sums, strict=True)
        ]


def _readings_of(words: Sequence[str | bytes]) -> list[CounterReading]:
    return [
        (int(count), int(left_ms) / 1000)
        for count, left_ms in zip(words[::2], words[1::2], strict=True)
    ]


def _log_deleted(key: str) -> None:
    log.warning("limits.key_deleted", key=quote(key))


def open_redis(url: str) -> SharedStorage:
    """Build a storage in the Redis at ``url``; it connects when first used.

    Raises ValueError for the URL, see ``open_pool``; Redis' failures are
    ``limits.errors.StorageError``.
    """
    opened = open_pool(url, max_connections=MAX_CONNECTIONS)
    storage = SharedRedisStorage(opened.connections)

    async def disconnect() -> None:
        with contextlib.suppress(RedisError):  # a broken connection may fail to close
            storage.pipeline.disconnect()
            await opened.connections.disconnect(inuse_connections=False)

    return SharedStorage(storage=storage, name=opened.name, disconnect=disconnect)
