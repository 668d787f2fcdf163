"""Runs in Redis, shared by replicas: some order of all updates explains each of them.

A run is a hash: ``version`` and encrypted ``content``, which expires when the run is idle. Marks
are a sorted set for each tenant, with the digest of each run since its begin and the end of its
mark. Lua scripts change them atomically. All times are from the clock of Redis.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

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
    RunKey,
    RunLimits,
    RunStore,
    T,
    ended_run,
    no_space,
    too_many_new_runs,
)
from mcp_tools_proxy.storage.runs.shared_runs import RunCipher, UsedRuns

CHECK_S = 3.0
"""Seconds between two checks of Redis."""

MAX_ATTEMPTS = 100
"""Attempts to write an update, while other replicas change the same run."""

MAX_LAST = 256
"""Runs whose memory is also kept in this process, each of at most 64 KiB."""

_VERSION_BITS = 40
"""Bits of the first version. It is random: a run that began again after a loss has other versions.
"""

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
if (found[1] or '') ~= ARGV[2] then
  return found[1] and {{'changed', found[1], found[2] or ''}} or {{'ended'}}
end
if not found[1] then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    return {{'ended'}}
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[9])
  if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[8]) then
    local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
    return {{'many', first + ARGV[9] - now}}
  end
  if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[7]) then
    return {{'full'}}
  end
  redis.call('ZADD', KEYS[3], now, ARGV[1])
  redis.call('PEXPIRE', KEYS[3], ARGV[9])
end
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'content', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
mark(now + ARGV[5] + ARGV[6])
return {{'written'}}
"""
"""Writes a run whose version is still the expected one. KEYS: the run, the tenant's marks, and its
owner's new runs. ARGV: the digest of the run's key, expected version (empty for a new run), new
version, content, milliseconds of an idle run, of a mark, maximum runs, maximum new runs, their
milliseconds.
"""

_LOST_SCRIPT = f"""{NOW_SCRIPT}{_MARK}
redis.call('DEL', KEYS[1])
mark(now + ARGV[2])
"""
"""Ends and marks a run that Redis has lost. KEYS: the run, the tenant's marks. ARGV: the digest of
the run's key, milliseconds of the mark.
"""

log = structlog.get_logger()


class _Written(NamedTuple):
    version: int
    memory: RunMemory


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
        self._last: dict[bytes, _Written] = {}
        """The last written memory of runs: saves a request if no other replica wrote since."""
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

    async def peek(self, key: RunKey, read: Change[T]) -> T:
        """Return what ``read`` returns of a run's memory in Redis, as other replicas left it."""
        if self._problem is not None:
            raise StateUnavailable(AWAY, reason=self._problem)
        try:
            async with self._used.turn(key):
                known = await self._find(key, may_begin=True)
        except RedisDown as error:
            raise StateUnavailable(AWAY, reason=str(error)) from None
        return read(RunMemory() if known is None else known.memory.copy())

    async def _update(self, key: RunKey, change: Change[T], *, may_begin: bool) -> T:
        known = self._last.get(key.digest) or await self._find(key, may_begin=may_begin)
        for _ in range(MAX_ATTEMPTS):
            memory = RunMemory() if known is None else known.memory.copy()
            result = change(memory)
            version = 1 + (secrets.randbits(_VERSION_BITS) if known is None else known.version)
            answer, *found = await self._write(key, known, _Written(version, memory))
            match answer:
                case b"written":
                    self._keep(key, _Written(version, memory))
                    return result
                case b"changed":
                    known = await self._checked(key, self._decrypt(key, found))
                case b"ended":
                    self._last.pop(key.digest, None)
                    known = await self._find(key, may_begin=may_begin)
                case b"full":
                    raise no_space()
                case _:
                    raise too_many_new_runs(int(found[0]) / 1000)
        raise StateUnavailable(AWAY, reason="other replicas changed the run all the time")

    def _keep(self, key: RunKey, written: "_Written") -> None:
        self._used.add(key, written.memory, written.version)
        self._last.pop(key.digest, None)
        self._last[key.digest] = written
        if len(self._last) > MAX_LAST:
            del self._last[next(iter(self._last))]

    async def _find(self, key: RunKey, *, may_begin: bool) -> "_Written | None":
        """Return a run, or None for one that may begin. Raises RunExpired."""
        answer, *found = await self._read(key)
        if answer == b"found":
            return await self._checked(key, self._decrypt(key, found))
        if answer == b"unknown":
            await self._checked(key, None)
            if may_begin:
                return None
        raise ended_run()

    async def _checked(self, key: RunKey, found: "_Written | None") -> "_Written | None":
        """Return a run that Redis has. Raises RunExpired if it is not the one used here."""
        memory, version = (None, 0) if found is None else (found.memory, found.version)
        if self._used.is_lost(key, memory, version):
            self._last.pop(key.digest, None)
            await self._mark_lost(key)
            raise ended_run()
        if found is not None:
            self._used.add(key, found.memory, found.version)
        return found

    async def _read(self, key: RunKey) -> list[bytes]:
        """Return "found" with version and content, "ended" or "unknown"."""
        return await self._requests.for_call(
            lambda: self._read_script(_names_of(key)[:2], [key.digest])
        )

    async def _write(self, key: RunKey, known: "_Written | None", new: "_Written") -> list[bytes]:
        """Return "written", "ended", "full", "many" with milliseconds, or "changed" as "found"."""
        limits = self._limits
        arguments: list[bytes | int | str] = [key.digest, "" if known is None else known.version]
        arguments += [new.version, self._cipher.encrypt(new.memory, key, new.version)]
        arguments += [self._idle_ms, self._mark_ms, limits.runs, limits.new_runs]
        arguments.append(int(OPENINGS_S * 1000))
        return await self._requests.for_call(lambda: self._write_script(_names_of(key), arguments))

    def _decrypt(self, key: RunKey, found: list[bytes]) -> "_Written":
        """Return a run. Raises StateUnavailable if it is unreadable."""
        number, content = found
        version = int(number) if number.isdigit() else 0
        return _Written(version, self._cipher.decrypt(content, key, version))

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
