"""Unfinished sign-ins in Redis, shared by replicas: a browser can return to any of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.storage.logins.sign_in_store import UNUSABLE, RecordKind
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX, RedisPool, eviction_problem
from mcp_tools_proxy.storage.redis_timeout import io_timeout
from mcp_tools_proxy.system.failure_reasons import redis_reason

T = TypeVar("T")

MAX_CONNECTIONS = 8
WAIT_S = 1.0
"""Maximum wait in seconds for Redis, including for a connection."""

_ADD = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('GET', KEYS[1])
if found then
  return {'found', found}
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local free = tonumber(ARGV[3]) - redis.call('ZCARD', KEYS[2])
if KEYS[3] and redis.call('ZCARD', KEYS[3]) >= free then
  for _, name in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    if redis.call('EXISTS', name) == 0 then
      redis.call('ZREM', KEYS[3], name)
    end
  end
  if redis.call('ZCARD', KEYS[3]) >= free then
    return {'full', ''}
  end
end
if free <= 0 then
  return {'full', ''}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
for key = 2, #KEYS do
  redis.call('ZADD', KEYS[key], now + ARGV[2], KEYS[1])
  redis.call('PEXPIRE', KEYS[key], ARGV[2])
end
return {'added', ARGV[1]}
"""
"""KEYS: the record, the sorted set of its kind and, if it has a share, that of the share; scores
are expiry times. ARGV: content, milliseconds, limit. Taking a record leaves its name in the share's
set, because the share is unknown then; such names are removed when the set looks full.
"""

_TAKE = """
redis.call('ZREM', KEYS[2], KEYS[1])
local found = redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
return found
"""

_LIST = """
local found = {}
for _, name in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  if #found >= tonumber(ARGV[1]) then
    break
  end
  local content = redis.call('GET', name)
  if content then
    table.insert(found, content)
  else
    redis.call('ZREM', KEYS[1], name)
  end
end
return found
"""
"""KEYS: the sorted set of a share. ARGV: the largest number of records."""

log = structlog.get_logger()


class RedisSignIns:
    """A SignInStore in Redis; a Redis that may evict keys is refused, because it could lose a
    state.
    """

    is_shared = True

    def __init__(self, pool: RedisPool) -> None:
        self._redis = Redis(connection_pool=pool.connections)
        self._name = pool.name
        self._add_script = self._redis.register_script(_ADD)
        self._take_script = self._redis.register_script(_TAKE)
        self._list_script = self._redis.register_script(_LIST)
        self._is_fit = False
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)

    def __repr__(self) -> str:
        return f"<RedisSignIns {self._name}>"

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        """Return the existing record or add ``content``; None if the limit is reached."""
        await self._check_fit()
        arguments: list[bytes | int] = [content, max(1, int(ttl_s * 1000)), kind.limit]
        keys = _keys(kind, name)
        if share:
            keys.append(_share_key(kind, share))
        answer, found = await self._in_time(lambda: self._add_script(keys, arguments))
        return None if answer == b"full" else bytes(found)

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change an existing record and keep its expiry."""
        key, _ = _keys(kind, name)
        await self._in_time(lambda: self._redis.set(key, content, xx=True, keepttl=True))

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record; None if it is missing or expired."""
        key, _ = _keys(kind, name)
        found: object = await self._in_time(lambda: self._redis.get(key))
        return found if isinstance(found, bytes) else None

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove and return a record; of concurrent calls, only one receives it."""
        found: bytes | None = await self._in_time(lambda: self._take_script(_keys(kind, name), []))
        return found

    async def approvals(self, share: str, most: int) -> Sequence[bytes]:
        """Return the approvals of a share, at most those ``most`` that expire last."""
        keys = [_share_key(RecordKind.APPROVAL, share)]
        found: list[bytes] = await self._in_time(lambda: self._list_script(keys, [most]))
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.connection_pool.disconnect()

    async def _check_fit(self) -> None:
        """Check once that this Redis does not evict keys. Raises LoginsUnavailable."""
        if self._is_fit:
            return
        memory = await self._in_time(lambda: self._redis.info("memory"))
        reason = eviction_problem(memory, "MCP_PROXY_STATE_URL")
        if reason is not None:
            log.error("login.store_unusable", store=self._name, reason=reason)
            raise LoginsUnavailable(UNUSABLE, reason=reason)
        self._is_fit = True

    async def _in_time(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request; the timeout includes the wait for a connection.

        The pool does not queue: a ninth concurrent call without a login was refused its address.
        """
        try:
            async with io_timeout(WAIT_S), self._slots:
                return await send()
        except (RedisError, OSError) as error:
            raise LoginsUnavailable(UNUSABLE, reason=f"Redis: {redis_reason(error)}") from None


def _keys(kind: RecordKind, name: str) -> list[str]:
    """Return the keys of a record and of its kind; a hash tag keeps them on one cluster node."""
    prefix = f"{KEY_PREFIX}:{{sign-ins}}:{kind.value}"
    return [f"{prefix}:{name}", prefix]


def _share_key(kind: RecordKind, share: str) -> str:
    """Return the key of the set of a share's records."""
    return f"{KEY_PREFIX}:{{sign-ins}}:{kind.value}-of:{share}"
