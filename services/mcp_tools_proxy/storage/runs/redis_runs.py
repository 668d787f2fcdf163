"""Runs in Redis, shared by replicas: some order of all updates explains each of them.

A run is a hash: ``version`` and encrypted ``content``, which expires when the run is idle. Marks
are a sorted set for each tenant, with the digest of each run since its begin and the end of its
mark. Lua scripts change them atomically. All times are from the clock of Redis.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from hashlib import sha256

import structlog
from redis.asyncio import Redis

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.policy.runs.run_memory import RunMemory
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX, RedisPool
from mcp_tools_proxy.storage.redis_requests import (
    NOW_SCRIPT,
    RedisDown,
    RedisProbe,
    RedisRequests,
    next_check,
)
from mcp_tools_proxy.storage.runs.run_store import (
    AWAY,
    OPENINGS_S,
    Change,
    RunCipher,
    RunKey,
    RunLimits,
    RunStore,
    T,
    UsedRuns,
    ended_run,
    no_space,
    too_many_new_runs,
)

CHECK_S = 3.0
"""Seconds between two checks of Redis."""

MAX_ATTEMPTS = 100
"""Attempts to write an update, while other replicas change the same run."""

_READ_SCRIPT = f"""{NOW_SCRIPT}
local found = redis.call('HMGET', KEYS[1], 'version', 'content')
if found[1] then
  return {{'found', found[1], found[2] or ''}}
end
local mark = redis.call('ZSCORE', KEYS[2], ARGV[1])
return {{mark and tonumber(mark) > now and 'ended' or 'unknown'}}
"""
"""Reads a run. KEYS: the run, the tenant's marks. ARGV: the digest of the run's key."""

_MARK = """
local function mark(ends)
  redis.call('ZADD', KEYS[2], ends, ARGV[1])
  if redis.call('PTTL', KEYS[2]) < ends - now then
    redis.call('PEXPIREAT', KEYS[2], ends)
  end
end
"""
"""Sets the end of a mark. A replica with shorter settings does not shorten the life of other marks.
"""

_WRITE_SCRIPT = f"""{NOW_SCRIPT}{_MARK}
local found = redis.call('HMGET', KEYS[1], 'version', 'content')
if (found[1] or '0') ~= ARGV[2] then
  return found[1] and {{'changed', found[1], found[2] or ''}} or {{'ended'}}
end
if not found[1] then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    return {{'ended'}}
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[8])
  if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[7]) then
    local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
    return {{'many', first + ARGV[8] - now}}
  end
  if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[6]) then
    return {{'full'}}
  end
  redis.call('ZADD', KEYS[3], now, ARGV[1])
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
end
redis.call('HSET', KEYS[1], 'version', ARGV[2] + 1, 'content', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
mark(now + ARGV[4] + ARGV[5])
return {{'written'}}
"""
"""Writes a run whose version is still the expected one. KEYS: the run, the tenant's marks, and its
owner's new runs. ARGV: the digest of the run's key, expected version (0 for a new run), content,
milliseconds of an idle run, of a mark, maximum runs, maximum new runs, their milliseconds.
"""

_LOST_SCRIPT = f"""{NOW_SCRIPT}{_MARK}
mark(now + ARGV[2])
"""
"""Marks a run that Redis has lost. ARGV: the digest of the run's key, milliseconds of the mark."""

log = structlog.get_logger()


class RedisRunStore(RunStore):
    """Keeps runs in Redis.

    ``run`` checks whether Redis may evict keys. If it may, marks could be lost, and all runs are
    refused. ``variable`` is the setting with the URL.
    """

    def __init__(
        self,
        pool: RedisPool,
        cipher: RunCipher,
        limits: RunLimits,
        *,
        variable: str,
        clock: Callable[[], float] = time.monotonic,
        check_s: float = CHECK_S,
    ) -> None:
        self._redis = Redis(connection_pool=pool.connections)
        self._name = pool.name
        self._cipher = cipher
        self._idle_ms, self._mark_ms = int(limits.idle_s * 1000), int(limits.mark_s * 1000)
        self._limits = limits
        self._check_s = check_s
        self._read_script = self._redis.register_script(_READ_SCRIPT)
        self._write_script = self._redis.register_script(_WRITE_SCRIPT)
        self._lost_script = self._redis.register_script(_LOST_SCRIPT)
        self._used = UsedRuns(limits.idle_s + limits.mark_s, clock)
        self._check_is_due = asyncio.Event()
        self._requests = RedisRequests(self._check_is_due.set, clock)
        self._probe = RedisProbe(
            self._redis,
            self._requests,
            key=f"{KEY_PREFIX}:runs:probe",
            variable=variable,
            advice=", or name another Redis in MCP_PROXY_RUNS_URL",
        )
        self._problem: str | None = "Redis has not answered yet"
        """Reason why runs cannot be stored, or None."""

    def __repr__(self) -> str:
        return f"<RedisRunStore {self._name} {self._problem or 'up'}>"

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        if self._problem is None:
            return {"status": "ok", "store": "redis"}
        return {"status": "degraded", "store": "redis", "problem": self._problem}

    async def connect(self) -> None:
        """Check that Redis is usable; waits at most a second."""
        await self._check_redis()

    async def run(self) -> None:
        """Check Redis every few seconds, and soon after a failure, until cancelled."""
        while True:
            await next_check(self._check_is_due, self._check_s)
            await self._check_redis()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.connection_pool.disconnect()

    async def _check_redis(self) -> None:
        problem = await self._probe.problem()
        if problem == self._problem:
            return
        if problem is not None:
            log.warning("runs.store_down", store=self._name, reason=problem)
        else:
            log.info("runs.store_up", store=self._name)
        self._problem = problem

    async def update(self, key: RunKey, change: Change[T], *, may_begin: bool = True) -> T:
        """Change the memory of a run; see RunStore."""
        if self._problem is not None:
            raise StateUnavailable(AWAY, reason=self._problem)
        try:
            async with self._used.turn(key):
                return await self._update(key, change, may_begin=may_begin)
        except RedisDown as error:
            raise StateUnavailable(AWAY, reason=str(error)) from None

    async def _update(self, key: RunKey, change: Change[T], *, may_begin: bool) -> T:
        answer, *found = await self._read(key)
        if answer == b"unknown" and self._used.has(key):
            await self._mark_lost(key)
            raise ended_run()
        if answer == b"ended" or (answer == b"unknown" and not may_begin):
            raise ended_run()
        for _ in range(MAX_ATTEMPTS):
            version, memory = self._decrypt(key, found) if found else (0, RunMemory())
            result = change(memory)
            answer, *found = await self._write(key, version, memory)
            match answer:
                case b"written":
                    self._used.add(key)
                    return result
                case b"ended":
                    raise ended_run()
                case b"full":
                    raise no_space()
                case b"many":
                    raise too_many_new_runs(int(found[0]) / 1000)
        raise StateUnavailable(AWAY, reason="other replicas changed the run all the time")

    async def _read(self, key: RunKey) -> list[bytes]:
        """Return "found" with version and content, "ended" or "unknown"."""
        return await self._requests.for_call(
            lambda: self._read_script(_names_of(key)[:2], [key.digest])
        )

    async def _write(self, key: RunKey, version: int, memory: RunMemory) -> list[bytes]:
        """Return "written", "ended", "full", "many" with milliseconds, or "changed" as "found"."""
        limits = self._limits
        arguments: list[bytes | int] = [key.digest, version]
        arguments.append(self._cipher.encrypt(memory, key, version + 1))
        arguments += [self._idle_ms, self._mark_ms, limits.runs, limits.new_runs]
        arguments.append(int(OPENINGS_S * 1000))
        return await self._requests.for_call(lambda: self._write_script(_names_of(key), arguments))

    def _decrypt(self, key: RunKey, found: list[bytes]) -> tuple[int, RunMemory]:
        """Return version and memory of a run. Raises StateUnavailable if it is unreadable."""
        number, content = found
        version = int(number) if number.isdigit() else 0
        return version, self._cipher.decrypt(content, key, version)

    async def _mark_lost(self, key: RunKey) -> None:
        """Mark a run that Redis has lost, so that other replicas do not begin it again either."""
        log.error("runs.run_lost", store=self._name)
        kept_ms = self._idle_ms + self._mark_ms
        with contextlib.suppress(RedisDown):
            await self._requests.for_call(
                lambda: self._lost_script(_names_of(key)[:2], [key.digest, kept_ms])
            )


def _names_of(key: RunKey) -> list[str]:
    """Return the keys of a run, its tenant's marks, and its owner's new runs.

    The braces keep a tenant's keys on one cluster node.
    """
    prefix = f"{KEY_PREFIX}:runs:{{{sha256(key.tenant_id.encode()).hexdigest()[:16]}}}"
    return [f"{prefix}:{key.digest.hex()}", f"{prefix}:marks", f"{prefix}:new:{key.owner.hex()}"]
