"""What replicas tell each other by Redis of the sessions of MCP's older eras.

Which sessions are in use and which have ended, what clients have set, and the client's messages
that another replica waits for. While Redis cannot be used each replica goes on with what it knows.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog
from pydantic_core import from_json, to_json
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.redis_client.connection_pool import KEY_PREFIX, RedisPool
from mcp_tools_proxy.wire.json_rpc import check_message

T = TypeVar("T")

WAIT_S = 1.0
"""Longest wait of one request for Redis."""

RETRY_S = 5.0
"""Seconds for which Redis is left alone after it failed."""

PING_S = 15.0
"""Seconds of silence after which Redis is pinged whether it is still there."""

MAX_CONNECTIONS = 17
"""One of them is for what other replicas tell; more at once would look like a failing Redis."""

BATCH = 200
"""Sessions that are read in one round trip."""

_CHANNEL = f"{KEY_PREFIX}:sessions"
_LEVEL = b"level"
_URI = b"uri:"
_FAILURES = (RedisError, OSError)  # TimeoutError is an OSError

log = structlog.get_logger()


class SharedState(NamedTuple):
    """What replicas know together of one session."""

    is_known: bool
    """Whether any replica has used it within the time that an unused one is kept."""
    has_ended: bool
    log_level: str | None
    """The lowest level of log messages that its client wants; None until it has set one."""
    uris: frozenset[str]
    """The resources that it has subscribed to."""


class Notice(NamedTuple):
    """What another replica has published of a session."""

    nonce: bytes
    message: Mapping[str, Any] | None
    """A message of its client for this replica; None if its state has changed."""


class SharedSessions:
    """The sessions of all replicas that have the same keys, as Redis knows them.

    ``replica`` is the name of this one. A session that no replica uses for ``idle_s`` is forgotten,
    and that one has ended after ``max_age_s``.
    """

    def __init__(
        self,
        pool: RedisPool,
        replica: str,
        *,
        idle_s: float,
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = Redis(connection_pool=pool.connections)
        self._name = pool.name
        self._replica = replica
        self._idle_ms = int(idle_s * 1000)
        self._max_age_ms = int(max_age_s * 1000)
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS - 1)
        self._retry_at: float | None = None
        """While Redis fails: when it is tried again."""

    async def load(self, nonces: Sequence[bytes]) -> Sequence[SharedState] | None:
        """Return what is known of sessions, which are in use here; None while Redis fails."""
        states: list[SharedState] = []
        for begin in range(0, len(nonces), BATCH):
            found = await self._attempt(partial(self._load, nonces[begin : begin + BATCH]))
            if found is None:
                return None
            states += found
        return states

    async def end(self, nonce: bytes) -> None:
        """Publish that a session has ended."""
        await self._change(nonce, has_ended=True)

    async def set_log_level(self, nonce: bytes, level: str) -> None:
        """Publish which log messages a client wants."""
        await self._change(nonce, put=(_LEVEL, level.encode()))

    async def subscribe(self, nonce: bytes, uri: str) -> None:
        """Publish that a client has subscribed to a resource."""
        await self._change(nonce, put=(_URI + uri.encode(), b""))

    async def unsubscribe(self, nonce: bytes, uri: str) -> None:
        """Publish that a client has unsubscribed from a resource."""
        await self._change(nonce, remove=_URI + uri.encode())

    async def send(
        self, nonce: bytes, message: Mapping[str, Any], replica: str | None = None
    ) -> None:
        """Send a message of a client to the replica that waits for it; to all without ``replica``.

        It is lost if that replica is gone, and with it the call that waits.
        """
        channel = _CHANNEL if replica is None else f"{_CHANNEL}:{replica}"
        notice = self._notice(nonce, message)
        await self._attempt(partial(self._redis.publish, channel, notice))

    async def notices(self) -> AsyncIterator[Notice]:
        """Yield what other replicas publish, for ever; while Redis fails that is lost."""
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
        """Drop the connections."""
        await self._redis.connection_pool.disconnect()

    async def _load(self, nonces: Sequence[bytes]) -> list[SharedState]:
        pipeline = self._redis.pipeline(transaction=False)
        for nonce in nonces:
            key = _key(nonce)
            pipeline.exists(_ended_key(nonce))
            pipeline.hgetall(key)
            pipeline.hset(key, "used", "")
            pipeline.pexpire(key, self._idle_ms)
        replies = await pipeline.execute()
        return [_state(*replies[index : index + 2]) for index in range(0, len(replies), 4)]

    async def _change(
        self,
        nonce: bytes,
        *,
        put: tuple[bytes, bytes] | None = None,
        remove: bytes | None = None,
        has_ended: bool = False,
    ) -> None:
        """Change what is known of a session, and publish that."""
        pipeline, key = self._redis.pipeline(transaction=False), _key(nonce)
        if has_ended:
            pipeline.delete(key)
            pipeline.set(_ended_key(nonce), "", px=self._max_age_ms)
        if put is not None:
            pipeline.hset(key, *put)
            pipeline.pexpire(key, self._idle_ms)
        if remove is not None:
            pipeline.hdel(key, remove)
        pipeline.publish(_CHANNEL, self._notice(nonce, None))
        await self._attempt(pipeline.execute)

    def _notice(self, nonce: bytes, message: Mapping[str, Any] | None) -> bytes:
        return to_json({"from": self._replica, "session": nonce.hex(), "message": message})

    def _read_notice(self, data: object) -> Notice | None:
        """Return a notice of another replica; None for our own, and for what is none."""
        try:
            match from_json(data if isinstance(data, bytes) else b""):
                case {"from": str(replica), "session": str(nonce), "message": message} if (
                    replica != self._replica
                ):
                    sent = None if message is None else check_message(message)
                    return Notice(bytes.fromhex(nonce), sent)
        except (ValueError, InvalidRequest):
            log.warning("sessions.notice_refused")
        return None

    async def _attempt(self, operation: Callable[[], Awaitable[T]]) -> T | None:
        """Return what an operation returns; None if Redis fails, now or a moment ago."""
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
    """Return what is published next. Raises RedisError when Redis is no longer there."""
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


def _key(nonce: bytes) -> str:
    return f"{KEY_PREFIX}:session:{{{nonce.hex()}}}"


def _ended_key(nonce: bytes) -> str:
    return f"{_key(nonce)}:ended"


def _state(has_ended: int, fields: Mapping[bytes, bytes]) -> SharedState:
    level = fields.get(_LEVEL)
    uris = (name.removeprefix(_URI) for name in fields if name.startswith(_URI))
    return SharedState(
        is_known=bool(fields),
        has_ended=bool(has_ended),
        log_level=None if level is None else level.decode(),
        uris=frozenset(uri.decode() for uri in uris),
    )
