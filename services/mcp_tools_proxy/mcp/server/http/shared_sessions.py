"""State of the older eras' sessions that replicas share over Redis.

It contains which sessions are in use or have ended, and the settings of clients. Client messages
are forwarded to the replica that waits for them. While Redis fails, each replica uses its own
records.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog
from pydantic_core import from_json, to_json
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline, PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.mcp.server.http.session_ids import SessionName, unix_time
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX, RedisPool
from mcp_tools_proxy.wire.json_rpc import check_message

T = TypeVar("T")

WAIT_S = 1.0
"""Longest wait of a request for Redis, in seconds."""

RETRY_S = 5.0
"""Seconds without attempts after Redis failed."""

PING_S = 15.0
"""Seconds of silence after which Redis is pinged."""

MAX_CONNECTIONS = 17
"""One connection is for notices of other replicas; exhausting the others would look like a failure.
"""

BATCH = 200
"""Sessions that are read in one round trip."""

MAX_OF_TENANT = 10_000
"""Limit of a tenant's recorded active sessions, and of its ended ones: about 2 MB in Redis.

Beyond it the longest idle are dropped; replicas that did not serve them treat them as ended.
"""

_CHANNEL = f"{KEY_PREFIX}:sessions"
_LEVEL = b"level"
_URI = b"uri:"
_FAILURES = (RedisError, OSError)  # TimeoutError is an OSError

log = structlog.get_logger()


class SharedState(NamedTuple):
    """Shared state of a session."""

    is_known: bool
    """Whether a replica has used it within ``idle_s``."""
    has_ended: bool
    log_level: str | None
    """The lowest level of log messages that the client wants; None if it has not set one."""
    uris: frozenset[str]


class Notice(NamedTuple):
    """A notice of another replica about a session."""

    name: SessionName
    message: Mapping[str, Any] | None
    """A client message for this replica; None if the session's state has changed."""


class SharedSessions:
    """Sessions of all replicas with the same keys, in Redis.

    ``replica`` is the name of this one. A session that no replica uses for ``idle_s`` has ended; at
    most ``max_set`` of a tenant can have a log level or subscriptions.

    Each tenant has three sorted sets of sessions (used, ended, with settings), scored by time; each
    session with settings has a hash.
    """

    def __init__(
        self,
        pool: RedisPool,
        replica: str,
        *,
        idle_s: float,
        max_set: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = Redis(connection_pool=pool.connections)
        self._name = pool.name
        self._replica = replica
        self._idle_s = idle_s
        self._idle_ms = int(idle_s * 1000)
        self._max_set = max_set
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS - 1)
        self._retry_at: float | None = None
        """Time of the next attempt while Redis fails."""

    async def load(self, names: Sequence[SessionName]) -> Sequence[SharedState] | None:
        """Return the state of sessions, and mark them as used; None while Redis fails."""
        states: list[SharedState] = []
        for begin in range(0, len(names), BATCH):
            found = await self._attempt(partial(self._load, names[begin : begin + BATCH]))
            if found is None:
                return None
            states += found
        return states

    async def end(self, name: SessionName) -> None:
        """Publish that a session has ended."""
        pipeline = self._pipeline()
        self._end(pipeline, name)
        pipeline.publish(_CHANNEL, self._notice(name, None))
        await self._attempt(pipeline.execute)

    async def set_log_level(self, name: SessionName, level: str) -> Sequence[SessionName]:
        """Publish the log level that a client wants.

        Returns the longest idle sessions of its tenant, which have to end for it.
        """
        return await self._put(name, _LEVEL, level.encode())

    async def subscribe(self, name: SessionName, uri: str) -> Sequence[SessionName]:
        """Publish that a client has subscribed to a resource; returns as ``set_log_level``."""
        return await self._put(name, _URI + uri.encode(), b"")

    async def unsubscribe(self, name: SessionName, uri: str) -> None:
        """Publish that a client has unsubscribed from a resource."""
        pipeline = self._pipeline()
        pipeline.hdel(_Keys(name.tenant_id).state(name), _URI + uri.encode())
        pipeline.publish(_CHANNEL, self._notice(name, None))
        await self._attempt(pipeline.execute)

    async def send(
        self, name: SessionName, message: Mapping[str, Any], replica: str | None = None
    ) -> None:
        """Forward a client's message to ``replica``, which waits for it, or to all.

        If that replica is gone, the message is lost, and with it the call.
        """
        channel = _CHANNEL if replica is None else f"{_CHANNEL}:{replica}"
        notice = self._notice(name, message)
        await self._attempt(partial(self._redis.publish, channel, notice))

    async def notices(self) -> AsyncIterator[Notice]:
        """Yield notices of other replicas forever; those sent while Redis fails are lost."""
        while True:
            try:
                async with self._redis.pubsub() as channel:
                    await channel.subscribe(_CHANNEL, f"{_CHANNEL}:{self._replica}")
                    while True:
                        data = await _next_data(channel)
                        if (notice := self._read_notice(data)) is not None:
                            yield notice
            except _FAILURES as error:
                self._failed(error)
            await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.connection_pool.disconnect()

    async def _load(self, names: Sequence[SessionName]) -> list[SharedState]:
        pipeline, used_after = self._pipeline(), unix_time() - self._idle_s
        for name in names:
            keys = _Keys(name.tenant_id)
            pipeline.zscore(keys.ended, name.nonce)
            pipeline.zscore(keys.used, name.nonce)
            pipeline.hgetall(keys.state(name))
        replies = await pipeline.execute()
        states = [
            _state(*replies[index : index + 3], used_after=used_after)
            for index in range(0, len(replies), 3)
        ]
        pipeline = self._pipeline()
        for name, state in zip(names, states, strict=True):
            if state.has_ended:  # it stays ended even if its client keeps trying
                self._end(pipeline, name)
            else:
                self._use(pipeline, name)
        await pipeline.execute()
        return states

    async def _put(self, name: SessionName, field: bytes, value: bytes) -> Sequence[SessionName]:
        keys, pipeline = _Keys(name.tenant_id), self._pipeline()
        pipeline.hset(keys.state(name), field, value)
        pipeline.pexpire(keys.state(name), self._idle_ms)
        pipeline.zadd(keys.set, {name.nonce: unix_time()})
        pipeline.pexpire(keys.set, self._idle_ms)
        pipeline.publish(_CHANNEL, self._notice(name, None))
        pipeline.zrange(keys.set, 0, -1 - self._max_set)
        replies = await self._attempt(pipeline.execute)
        return [] if replies is None else [SessionName(name.tenant_id, it) for it in replies[-1]]

    def _use(self, pipeline: Pipeline, name: SessionName) -> None:
        keys = _Keys(name.tenant_id)
        self._keep(pipeline, keys.used, name)
        pipeline.zadd(keys.set, {name.nonce: unix_time()}, xx=True)
        for key in (keys.set, keys.state(name)):
            pipeline.pexpire(key, self._idle_ms)

    def _end(self, pipeline: Pipeline, name: SessionName) -> None:
        keys = _Keys(name.tenant_id)
        pipeline.delete(keys.state(name))
        pipeline.zrem(keys.used, name.nonce)
        pipeline.zrem(keys.set, name.nonce)
        self._keep(pipeline, keys.ended, name)

    def _keep(self, pipeline: Pipeline, key: str, name: SessionName) -> None:
        pipeline.zadd(key, {name.nonce: unix_time()})
        pipeline.zremrangebyrank(key, 0, -1 - MAX_OF_TENANT)
        pipeline.pexpire(key, self._idle_ms)

    def _pipeline(self) -> Pipeline:
        return self._redis.pipeline(transaction=False)

    def _notice(self, name: SessionName, message: Mapping[str, Any] | None) -> bytes:
        session = {"tenant": name.tenant_id, "nonce": name.nonce.hex()}
        return to_json({"from": self._replica, "session": session, "message": message})

    def _read_notice(self, data: object) -> Notice | None:
        """Return a notice of another replica; None for our own and for invalid data."""
        try:
            match from_json(data if isinstance(data, bytes) else b""):
                case {
                    "from": str(replica),
                    "session": {"tenant": str(tenant), "nonce": str(nonce)},
                    "message": message,
                } if replica != self._replica:
                    sent = None if message is None else check_message(message)
                    return Notice(SessionName(tenant, bytes.fromhex(nonce)), sent)
        except (ValueError, InvalidRequest):
            log.warning("sessions.notice_refused")
        return None

    async def _attempt(self, operation: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of an operation; None if Redis fails or failed within RETRY_S."""
        if self._retry_at is not None and self._clock() < self._retry_at:
            return None
        try:
            async with asyncio.timeout(WAIT_S), self._slots:
                result = await operation()
        except _FAILURES as error:
            self._failed(error)
            return None
        if self._retry_at is not None:
            self._retry_at = None
            log.info("sessions.store_up", store=self._name)
        return result

    def _failed(self, error: Exception) -> None:
        if self._retry_at is None:
            log.warning("sessions.store_down", store=self._name, error=type(error).__name__)
        self._retry_at = self._clock() + RETRY_S


async def _next_data(channel: PubSub) -> object:
    """Return the next published data. Raises RedisError if Redis does not answer a ping."""
    pinged = False
    while True:
        message = await channel.get_message(timeout=PING_S)
        if message is not None and message["type"] == "message":
            return message["data"]
        if message is None and pinged:
            raise RedisConnectionError("Redis does not answer")
        pinged = message is None
        if pinged:
            await channel.ping()


class _Keys:
    """Redis keys of a tenant's sessions, all on one node of a cluster."""

    def __init__(self, tenant_id: str) -> None:
        self._prefix = f"{KEY_PREFIX}:sessions:{{{tenant_id}}}"
        self.used = f"{self._prefix}:used"
        self.ended = f"{self._prefix}:ended"
        self.set = f"{self._prefix}:set"

    def state(self, name: SessionName) -> str:
        """Return the key of the client's settings of a session."""
        return f"{self._prefix}:{name.nonce.hex()}"


def _state(
    ended: float | None, used: float | None, fields: Mapping[bytes, bytes], *, used_after: float
) -> SharedState:
    level = fields.get(_LEVEL)
    uris = (name.removeprefix(_URI) for name in fields if name.startswith(_URI))
    return SharedState(
        is_known=used is not None and used > used_after,
        has_ended=ended is not None,
        log_level=None if level is None else level.decode(),
        uris=frozenset(uri.decode() for uri in uris),
    )
