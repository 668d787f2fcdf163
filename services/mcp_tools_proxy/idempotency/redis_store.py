"""Records of calls in a Redis that replicas share: any of them answers a call that comes again.

A replica that makes a call holds a lease on its record and renews it. A record whose lease has
ended has lost its replica between sending and knowing: nobody makes that call again.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from mcp_tools_proxy.aiokits.idle_timeout import io_timeout
from mcp_tools_proxy.domain.errors import OutcomeUnknown, StateUnavailable
from mcp_tools_proxy.idempotency import redis_scripts as scripts
from mcp_tools_proxy.idempotency.record_cipher import RecordCipher
from mcp_tools_proxy.idempotency.records import (
    MAX_OUTCOME_BYTES,
    Record,
    RecordKey,
    RecordState,
)
from mcp_tools_proxy.redis_client.connection_pool import KEY_PREFIX, RedisPool

T = TypeVar("T")

MAX_CONNECTIONS = 33
"""One of them renews leases; more calls at once wait for one, instead of a failing Redis."""

WAIT_S = 1.0
"""Longest wait of one call for Redis."""

RENEW_S = 3.0
"""Seconds between two checks of Redis, at which leases are renewed."""

LEASE_S = 10.0
"""Seconds for which a replica counts as there after it has renewed a lease."""

RETRY_S = 1.0
"""Seconds for which Redis is left alone after it failed."""

RECORD_BYTES = 500
"""What a record takes in Redis without its outcome (measured: 420)."""

DIGEST_BYTES = 32

NEVER_EVICTS = "noeviction"

_FAILURES = (RedisError, OSError)  # TimeoutError is an OSError
_AWAY = "nothing was done: calls with an idempotency key cannot be kept now; try again later"

log = structlog.get_logger()


class _StoreDown(Exception):
    """Redis failed, now or a moment ago."""


@dataclass(slots=True)
class _Owned:
    """A record that this replica has claimed; ``owner`` is another one for each claim."""

    owner: bytes
    request: bytes
    outcome: bytes | None = None
    """How the call has ended; empty if that is not known, None while it runs."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the record is written: a lease that is renewed late would undo its end."""


class RedisRecordStore:
    """Keeps records in Redis: at most ``max_bytes`` of each tenant.

    ``run`` renews leases, writes what could not be written, and looks whether the Redis may evict
    keys: then a record could be lost, and no call with a key is made. ``name`` of the pool and
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
        self._variable = variable
        self._ttl_ms = int(ttl_s * 1000)
        self._max_bytes = max_bytes
        self._clock = clock
        self._lease_ms = int(lease_s * 1000)
        self._renew_s = renew_s
        self._claim_script = self._redis.register_script(scripts.CLAIM)
        self._renew_script = self._redis.register_script(scripts.RENEW)
        self._finish_script = self._redis.register_script(scripts.FINISH)
        self._release_script = self._redis.register_script(scripts.RELEASE)
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS - 1)
        self._owned: dict[RecordKey, _Owned] = {}
        """Records whose calls run here, or whose outcome could not be written yet."""
        self._released: dict[bytes, RecordKey] = {}
        """Records to be deleted, by their owner: their calls were not made."""
        self._has_work = asyncio.Event()
        self._retry_at: float | None = None
        self._problem: str | None = "Redis has not answered yet"
        """Why no records can be kept; None while they can."""

    def __repr__(self) -> str:
        return f"<RedisRecordStore {self._name} {self._problem or 'up'}>"

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store, for readiness."""
        if self._problem is None:
            return {"status": "ok", "store": "redis"}
        return {"status": "degraded", "store": "redis", "problem": self._problem}

    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, or create it.

        Raises StateUnavailable; OutcomeUnknown for a record that none of our keys can decrypt.
        """
        ended = self._owned.get(key)
        if ended is not None:  # and Redis does not know yet
            is_known = RecordState.DONE if ended.outcome else RecordState.UNKNOWN
            return Record(is_known, ended.request, ended.outcome or b"")
        if self._problem is not None:
            raise StateUnavailable(_AWAY, reason=self._problem)
        own = _Owned(secrets.token_bytes(16), request)
        answered = False
        try:
            state, content = await self._attempt(lambda: self._claim(key, own))
            answered = True
        except _StoreDown:
            raise StateUnavailable(_AWAY, reason="Redis failed") from None
        finally:
            if not answered:  # the record may be there all the same
                self._delete_later(key, own)
        if state == b"claimed":
            self._owned[key] = own
            return Record(RecordState.CLAIMED)
        if state == b"full":
            raise StateUnavailable(
                "nothing was done: your tenant made too many calls with an idempotency key in the "
                "last minutes to keep one more; try again later, or call without a key",
                reason="no room",
            )
        return self._read(key, RecordState(state.decode()), content)

    async def keep(self, key: RecordKey, outcome: bytes) -> None:
        """Write an outcome; one that cannot be written now is written by ``run``."""
        own = self._owned[key]
        own.outcome = outcome if len(outcome) <= MAX_OUTCOME_BYTES else b""
        with contextlib.suppress(_StoreDown):
            await self._attempt(lambda: self._finish(key, own))

    async def release(self, key: RecordKey) -> None:
        """Delete the record of a claimed key; ``run`` does it if Redis fails now."""
        own = self._owned.pop(key)
        self._delete_later(key, own)
        async with own.lock:
            with contextlib.suppress(_StoreDown):
                await self._attempt(lambda: self._delete(own.owner))

    def mark_unknown(self, key: RecordKey) -> None:
        """Write that an outcome is not known, in ``run``."""
        self._owned[key].outcome = b""
        self._has_work.set()

    async def connect(self) -> None:
        """Check whether the Redis is there and fit; waits a second at most."""
        await self._check_redis()

    async def run(self) -> None:
        """Renew leases and write what is due, every few seconds, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._renew_s):
                    await self._has_work.wait()
                    await asyncio.sleep(RETRY_S)
            self._has_work.clear()
            await self._check_redis()

    async def close(self) -> None:
        """Write what is due, once, and drop the connections."""
        for own in self._owned.values():
            own.outcome = own.outcome or b""
        await self._check_redis()
        await self._redis.connection_pool.disconnect()

    async def _check_redis(self) -> None:
        """Check that the Redis is fit, and do what is due there."""
        self._retry_at = None
        try:
            problem = self._problem_in(await self._attempt(partial(self._redis.info, "memory")))
        except _StoreDown:
            problem = "Redis does not answer"
        if problem != self._problem:
            self._problem = problem
            if problem is None:
                log.info("idempotency.store_up", store=self._name)
            else:
                log.warning("idempotency.store_down", store=self._name, reason=problem)
        if problem is None:
            await self._work_off()

    def _problem_in(self, memory: Mapping[str, Any]) -> str | None:
        policy = memory.get("maxmemory_policy")
        if policy == NEVER_EVICTS:
            return None
        return (
            f"the Redis of {self._variable} may drop keys (maxmemory-policy {policy}); "
            f"set it to {NEVER_EVICTS}, or name another Redis in MCP_PROXY_STATE_URL"
        )

    async def _work_off(self) -> None:
        """Delete, renew and write all that is due; what fails stays due."""
        due = [partial(self._delete, owner) for owner in self._released]
        for key, own in self._owned.items():
            due.append(partial(self._renew if own.outcome is None else self._finish, key, own))
        await asyncio.gather(*map(self._attempt, due), return_exceptions=True)

    async def _claim(self, key: RecordKey, own: _Owned) -> tuple[bytes, bytes]:
        name = _name_of(key)
        content = self._cipher.encrypt(own.request, name)
        arguments: list[bytes | int] = [
            own.owner, content, self._lease_ms, self._ttl_ms, RECORD_BYTES, self._max_bytes
        ]  # fmt: skip
        state, found = await self._claim_script([name, _usage_name(key)], arguments)
        return state, found

    async def _renew(self, key: RecordKey, own: _Owned) -> None:
        """Extend a lease; create the record again if Redis has lost it."""
        async with own.lock:
            if own.outcome is not None or self._owned.get(key) is not own:
                return
            name = _name_of(key)
            content = self._cipher.encrypt(own.request, name)
            arguments: list[bytes | int] = [own.owner, content, self._lease_ms, self._ttl_ms]
            if not await self._renew_script([name], arguments):
                await self._claim(key, own)

    async def _finish(self, key: RecordKey, own: _Owned) -> None:
        """Write how a call has ended; an outcome without room as one that is not known."""
        async with own.lock:
            outcome = own.outcome or b""
            if await self._write_end(key, own, outcome) == b"full":
                await self._write_end(key, own, b"")
            if self._owned.get(key) is own:
                del self._owned[key]

    async def _write_end(self, key: RecordKey, own: _Owned, outcome: bytes) -> object:
        name = _name_of(key)
        content = self._cipher.encrypt(own.request + outcome, name)
        state = RecordState.DONE if outcome else RecordState.UNKNOWN
        return await self._finish_script(
            [name, _usage_name(key)],
            [own.owner, content, state.value, self._ttl_ms, len(outcome), self._max_bytes],
        )

    def _delete_later(self, key: RecordKey, own: _Owned) -> None:
        self._released[own.owner] = key
        self._has_work.set()

    async def _delete(self, owner: bytes) -> None:
        key = self._released.get(owner)
        if key is not None:
            await self._release_script([_name_of(key)], [owner])
            self._released.pop(owner, None)

    def _read(self, key: RecordKey, state: RecordState, content: bytes) -> Record:
        decrypted = self._cipher.decrypt(content, _name_of(key))
        if decrypted is None:
            log.error("idempotency.record_unreadable", store=self._name)
            raise OutcomeUnknown(
                "this idempotency key was used, but by a replica that keeps calls with another "
                "secret; check whether the call was carried out before you make it again"
            )
        return Record(state, decrypted[:DIGEST_BYTES], decrypted[DIGEST_BYTES:])

    async def _attempt(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Return what an operation returns. Raises _StoreDown if Redis fails, or did just now."""
        if self._retry_at is not None and self._clock() < self._retry_at:
            raise _StoreDown
        try:
            async with io_timeout(WAIT_S), self._slots:
                return await operation()
        except _FAILURES as error:
            self._retry_at = self._clock() + RETRY_S
            self._has_work.set()
            raise _StoreDown from error


def _name_of(key: RecordKey) -> bytes:
    return f"{_prefix_of(key)}:{key.digest.hex()}".encode()


def _usage_name(key: RecordKey) -> bytes:
    return f"{_prefix_of(key)}:bytes".encode()


def _prefix_of(key: RecordKey) -> str:
    """Return the begin of a tenant's keys; in braces, so that one node of a cluster has them."""
    tenant = sha256(key.tenant_id.encode()).hexdigest()[:16]
    return f"{KEY_PREFIX}:idempotency:{{{tenant}}}"
