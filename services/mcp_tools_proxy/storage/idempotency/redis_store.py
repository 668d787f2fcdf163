"""Records of calls in Redis, shared by replicas: any replica can answer a repeated call.

A replica that makes a call holds a lease on its record and renews it. If the lease of a running
call has expired, its replica was lost after sending and the outcome is unknown; the call is not
repeated.

Lua scripts change records atomically. A record is a hash: ``state``, ``owner`` (a random id of the
claim), ``lease`` (expiry in milliseconds) and encrypted ``content``. A tenant's usage is a hash of
bytes by time slice. All times are from the clock of Redis.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from hashlib import sha256

import structlog
from redis.asyncio import Redis

from mcp_tools_proxy.domain.errors import OutcomeUnknown, StateUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage.idempotency.records import (
    MAX_OUTCOME_BYTES,
    Record,
    RecordKey,
    RecordState,
    RecordStore,
)
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX, RedisPool
from mcp_tools_proxy.storage.redis_requests import (
    NOW_SCRIPT,
    WAIT_S,
    RedisDown,
    RedisProbe,
    RedisRefused,
    RedisRequests,
    next_check,
)

RENEW_S = 3.0
"""Seconds between two checks of Redis, which also renew leases."""

LEASE_S = 10.0
RUNNING_TTL_S = 3600.0
"""Minimum lifetime of a running call's record without renewal, in seconds. A replica that was
frozen for longer than outcomes are kept continues its call.
"""

RECORD_BYTES = 500
"""Size of a record without its outcome (measured: 420)."""

DIGEST_BYTES = 32

_STATES = {
    state.value.encode(): state
    for state in (RecordState.RUNNING, RecordState.DONE, RecordState.UNKNOWN)
}
_EXPIRED = b"expired"
"""Result of a claim for a running record with an expired lease."""

_AWAY = (
    "this request did nothing: calls with an idempotency key cannot be recorded right now; try "
    "again later"
)

_RESERVE = """
local function reserve(key, size, ttl, limit)
  local slice = math.max(1, math.floor(ttl / 10))
  local used, sums = 0, redis.call('HGETALL', key)
  for i = 1, #sums, 2 do
    if tonumber(sums[i]) * slice < now - ttl - slice then
      redis.call('HDEL', key, sums[i])
    else
      used = used + tonumber(sums[i + 1])
    end
  end
  if used + size > limit then
    return false
  end
  redis.call('HINCRBY', key, math.floor(now / slice), size)
  redis.call('PEXPIRE', key, ttl + 2 * slice)
  return true
end
"""
"""Adds ``size`` bytes to a tenant's usage, in slices of a tenth of the retention time."""

_WRITE = """
local function write(state, content, lease, ttl)
  redis.call('HSET', KEYS[1], 'state', state, 'owner', ARGV[1], 'content', content, 'lease', lease)
  redis.call('PEXPIRE', KEYS[1], ttl)
end
"""

_CLAIM_SCRIPT = f"""{NOW_SCRIPT}{_RESERVE}{_WRITE}
local found = redis.call('HMGET', KEYS[1], 'state', 'content', 'lease')
if found[1] then
  local ended = found[1] == 'running' and tonumber(found[3] or 0) < now
  return {{'found', ended and 'expired' or found[1], found[2] or ''}}
end
if now > tonumber(ARGV[8]) then
  return {{'late'}}
end
if not reserve(KEYS[2], tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[6])) then
  return {{'full'}}
end
write('running', ARGV[2], now + ARGV[3], tonumber(ARGV[4]))
return {{'claimed'}}
"""
"""Reads or creates a record; creates nothing after the latest time. KEYS: the record, the tenant's
bytes.

ARGV: owner, content, lease and time to live in milliseconds, size, the tenant's limit, the
retention time of outcomes, and the latest time.
"""

_RENEW_SCRIPT = f"""{NOW_SCRIPT}
local found = redis.call('HMGET', KEYS[1], 'owner', 'state')
if not found[1] then
  return 'lost'
elseif found[1] ~= ARGV[1] then
  return 'other'
end
if found[2] == 'running' then
  redis.call('HSET', KEYS[1], 'lease', now + ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 'renewed'
"""
"""Extends the lease of a record. ARGV: owner, lease and time to live in milliseconds."""

_FINISH_SCRIPT = f"""{NOW_SCRIPT}{_RESERVE}{_WRITE}
local found = redis.call('HMGET', KEYS[1], 'owner', 'state')
if found[1] and found[1] ~= ARGV[1] then
  return 'other'
elseif found[2] == 'done' then
  return 'written'
end
local ttl = tonumber(ARGV[4])
if ARGV[3] == 'done' and not reserve(KEYS[2], tonumber(ARGV[5]), ttl, tonumber(ARGV[6])) then
  return 'full'
end
write(ARGV[3], ARGV[2], 0, ttl)
return 'written'
"""
"""Writes the end of a call. ARGV: owner, content, state, time to live, size, limit."""

_RELEASE_SCRIPT = f"""{NOW_SCRIPT}{_RESERVE}
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  reserve(KEYS[2], -tonumber(ARGV[2]), tonumber(ARGV[3]), math.huge)
end
"""
"""Deletes a record of this owner and returns its bytes. KEYS: see ``_CLAIM_SCRIPT``.

ARGV: owner, size, and the retention time of outcomes in milliseconds.
"""

log = structlog.get_logger()


@dataclass(slots=True)
class _Owned:
    """A record claimed by this replica; ``owner`` is random for each claim."""

    owner: bytes
    request: bytes
    outcome: bytes | None = None
    """The outcome; empty if it is unknown, None while the call runs."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the record is written: a late renewal would otherwise overwrite its end."""

    def ended(self) -> Record:
        """Return the record of a finished call."""
        state = RecordState.DONE if self.outcome else RecordState.UNKNOWN
        return Record(state, self.request, self.outcome or b"")


class RedisRecordStore(RecordStore):
    """Keeps records in Redis, with at most ``max_bytes`` per tenant.

    ``run`` renews leases, retries pending writes, and checks whether Redis may evict keys. If it
    may, records could be lost, and calls with a key are refused. The pool's ``name`` and
    ``variable``, the setting with its URL, are for log lines and readiness.
    """

    def __init__(
        self,
        pool: RedisPool,
        cipher: RecordCipher,
        *,
        variable: str,
        ttl_s: float,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        lease_s: float = LEASE_S,
        renew_s: float = RENEW_S,
    ) -> None:
        self._redis = Redis(connection_pool=pool.connections)
        self._name = pool.name
        self._cipher = cipher
        self._ttl_ms = int(ttl_s * 1000)
        self._max_bytes = max_bytes
        self._clock = clock
        self._lease_ms = int(lease_s * 1000)
        self._lease_s, self._renew_s = lease_s, renew_s
        self._claim_script = self._redis.register_script(_CLAIM_SCRIPT)
        self._renew_script = self._redis.register_script(_RENEW_SCRIPT)
        self._finish_script = self._redis.register_script(_FINISH_SCRIPT)
        self._release_script = self._redis.register_script(_RELEASE_SCRIPT)
        self._running_ttl_ms = max(self._ttl_ms, int(RUNNING_TTL_S * 1000))
        self._has_work = asyncio.Event()
        self._requests = RedisRequests(self._has_work.set, clock)
        self._probe = RedisProbe(
            self._redis,
            self._requests,
            key=f"{KEY_PREFIX}:idempotency:probe",
            variable=variable,
            advice=", or name another Redis in MCP_PROXY_STATE_URL",
        )
        self._owned: dict[RecordKey, _Owned] = {}
        """Records whose calls run here, or whose outcome is not written yet."""
        self._released: dict[bytes, RecordKey] = {}
        """Records to delete, by owner; their calls were not made."""
        self._ahead_ms = 0.0
        """Difference of the clock of Redis to ours."""
        self._leases_end_from = 0.0
        """Until then, leases may have expired only because Redis was unavailable for renewals."""
        self._was_up = False
        self._problem: str | None = "Redis has not answered yet"
        """Reason why records cannot be stored, or None."""

    def __repr__(self) -> str:
        return f"<RedisRecordStore {self._name} {self._problem or 'up'}>"

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        if self._problem is None:
            return {"status": "ok", "store": "redis"}
        return {"status": "degraded", "store": "redis", "problem": self._problem}

    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, or create it.

        Raises StateUnavailable; OutcomeUnknown for a record that no key decrypts.
        """
        ended = self._owned.get(key)
        if ended is not None:  # not yet written to Redis
            return ended.ended()
        if self._problem is not None:
            raise StateUnavailable(_AWAY, reason=self._problem)
        own = _Owned(secrets.token_bytes(16), request)
        answer, *found = await self._claim_for_call(key, own)
        if answer == b"claimed":
            self._owned[key] = own
            return Record(RecordState.CLAIMED)
        if answer == b"late":
            self._has_work.set()
            raise StateUnavailable(_AWAY, reason="Redis was late, or its clock was set")
        if answer == b"full":
            raise StateUnavailable(
                "this request did nothing: your tenant's share of the store of calls with an "
                "idempotency key is full; try again later",
                reason="no room",
            )
        return self._read(key, *found)

    async def _claim_for_call(self, key: RecordKey, own: _Owned) -> list[bytes]:
        """Return the result of ``_claim``. Raises StateUnavailable.

        An interrupted claim may have created the record, which is then scheduled for deletion.
        """
        is_answered = True

        async def claim() -> list[bytes]:
            nonlocal is_answered
            is_answered = False
            return await self._claim(key, own)

        try:
            answer = await self._requests.for_call(claim)
            is_answered = True
        except RedisDown as error:
            is_answered = is_answered or isinstance(error, RedisRefused)
            raise StateUnavailable(_AWAY, reason=str(error)) from None
        finally:
            if not is_answered:
                self._delete_later(key, own)
        return answer

    async def keep(self, key: RecordKey, outcome: bytes) -> bool:
        """Save an outcome; if this fails, ``run`` retries it."""
        own = self._owned[key]
        own.outcome = outcome if len(outcome) <= MAX_OUTCOME_BYTES else b""
        with contextlib.suppress(RedisDown):
            await self._requests.for_call(lambda: self._finish(key, own))
        return bool(own.outcome)

    async def release(self, key: RecordKey) -> None:
        """Delete the record of a claimed key; if this fails, ``run`` retries it."""
        own = self._owned.pop(key)
        self._delete_later(key, own)
        async with own.lock:
            with contextlib.suppress(RedisDown):
                await self._requests.for_call(lambda: self._delete(own.owner))

    def mark_unknown(self, key: RecordKey) -> None:
        """Mark the outcome as unknown; ``run`` writes it."""
        self._owned[key].outcome = b""
        self._has_work.set()

    async def connect(self) -> None:
        """Check that Redis is usable; waits at most a second."""
        await self._check_redis()

    async def run(self) -> None:
        """Renew leases and retry pending writes every few seconds, until cancelled."""
        while True:
            await next_check(self._has_work, self._renew_s)
            await self._check_redis()

    async def close(self) -> None:
        """Try pending writes once, and close the connections."""
        for own in self._owned.values():
            own.outcome = own.outcome or b""
        await self._check_redis()
        await self._redis.connection_pool.disconnect()

    async def _check_redis(self) -> None:
        """Check that Redis is usable and writable, and do the pending work."""
        problem = await self._probe.problem()
        if problem is None:
            self._ahead_ms = self._probe.time_ms - self._clock() * 1000
            await self._work_off()
        self._note(problem)

    def _note(self, problem: str | None) -> None:
        if problem == self._problem:
            return
        if problem is not None:
            log.warning("idempotency.store_down", store=self._name, reason=problem)
        else:
            log.info("idempotency.store_up", store=self._name)
            if self._was_up:
                self._leases_end_from = self._clock() + self._lease_s
        self._was_up = self._was_up or problem is None
        self._problem = problem

    async def _work_off(self) -> None:
        """Run all pending deletions, renewals and writes; failed ones remain pending."""
        due = [partial(self._delete, owner) for owner in self._released]
        for key, own in self._owned.items():
            due.append(partial(self._renew if own.outcome is None else self._finish, key, own))
        await asyncio.gather(*map(self._requests.for_upkeep, due), return_exceptions=True)

    async def _claim(self, key: RecordKey, own: _Owned) -> list[bytes]:
        """Return "claimed", "full" or "late"; or "found" with the record's state and content.

        A claim that Redis executes after its caller stopped waiting changes nothing. Otherwise it
        would block the key of a refused call, for an hour if this replica ends before deleting it.
        """
        name = _name_of(key)
        content = self._encrypt(own.request, name, RecordState.RUNNING)
        latest_ms = int(self._clock() * 1000 + self._ahead_ms + 2000 * WAIT_S)
        times = [self._lease_ms, self._running_ttl_ms]
        arguments: list[bytes | int] = [own.owner, content]
        arguments += [*times, RECORD_BYTES, self._max_bytes, self._ttl_ms, latest_ms]
        answer: list[bytes] = await self._claim_script([name, self._usage_name(key)], arguments)
        return answer

    async def _renew(self, key: RecordKey, own: _Owned) -> None:
        """Extend a lease; if Redis has lost the record, create it again."""
        async with own.lock:
            if own.outcome is not None or self._owned.get(key) is not own:
                return
            arguments: list[bytes | int] = [own.owner, self._lease_ms, self._running_ttl_ms]
            renewed = await self._renew_script([_name_of(key)], arguments)
            if renewed == b"lost":
                renewed, *_ = await self._claim(key, own)
            if renewed not in (b"renewed", b"claimed"):
                self._log_loss()

    async def _finish(self, key: RecordKey, own: _Owned) -> None:
        """Write the end of a call; without space for the outcome, as unknown."""
        async with own.lock:
            outcome = own.outcome or b""
            written = await self._write_end(key, own, outcome)
            if written == b"full":
                own.outcome = b""
                await self._write_end(key, own, b"")
            elif written == b"other":
                self._log_loss()
            if self._owned.get(key) is own:
                del self._owned[key]

    async def _write_end(self, key: RecordKey, own: _Owned, outcome: bytes) -> object:
        name = _name_of(key)
        state = RecordState.DONE if outcome else RecordState.UNKNOWN
        content = self._encrypt(own.request + outcome, name, state)
        return await self._finish_script(
            [name, self._usage_name(key)],
            [own.owner, content, state.value, self._ttl_ms, len(outcome), self._max_bytes],
        )

    def _delete_later(self, key: RecordKey, own: _Owned) -> None:
        self._released[own.owner] = key
        self._has_work.set()

    async def _delete(self, owner: bytes) -> None:
        key = self._released.get(owner)
        if key is not None:
            names = [_name_of(key), self._usage_name(key)]
            await self._release_script(names, [owner, RECORD_BYTES, self._ttl_ms])
            self._released.pop(owner, None)

    def _log_loss(self) -> None:
        """Log the loss of a running call's record; the call may be made twice."""
        log.error("idempotency.record_lost", store=self._name)

    def _read(self, key: RecordKey, state: bytes, encrypted: bytes) -> Record:
        """Return the decrypted record. Raises OutcomeUnknown if it is unreadable."""
        written = b"running" if state == _EXPIRED else state
        decrypted = self._cipher.decrypt(encrypted, _bound_to(_name_of(key), written))
        if decrypted is None or written not in _STATES:
            log.error("idempotency.record_unreadable", store=self._name)
            raise OutcomeUnknown(
                "this idempotency key was used before, but the record of its call cannot be read "
                "here; check whether the call was carried out before you make it again"
            )
        found = _STATES[written]
        if state == _EXPIRED and self._clock() >= self._leases_end_from:
            found = RecordState.UNKNOWN
        return Record(found, decrypted[:DIGEST_BYTES], decrypted[DIGEST_BYTES:])

    def _encrypt(self, content: bytes, name: bytes, state: RecordState) -> bytes:
        return self._cipher.encrypt(content, _bound_to(name, state.value.encode()))

    def _usage_name(self, key: RecordKey) -> bytes:
        """Return the key of a tenant's bytes; it includes the retention time, which sets the
        slices.
        """
        return f"{_prefix_of(key)}:bytes:{self._ttl_ms}".encode()


def _name_of(key: RecordKey) -> bytes:
    return f"{_prefix_of(key)}:{key.digest.hex()}".encode()


def _bound_to(name: bytes, state: bytes) -> bytes:
    """Return the associated data of a record: content cannot be moved or its state changed."""
    return name + b":" + state


def _prefix_of(key: RecordKey) -> str:
    """Return a tenant's key prefix; the braces keep its keys on one cluster node."""
    tenant = sha256(key.tenant_id.encode()).hexdigest()[:16]
    return f"{KEY_PREFIX}:idempotency:{{{tenant}}}"
