"""Opening the Redis that replicas share their budgets in; the one place that imports redis."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from limits.aio.storage import RedisStorage
from limits.errors import StorageError
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mcp_tools_proxy.ratelimit.counting import CountingStorage

URL_VARIABLE = "MCP_PROXY_RATE_LIMIT_STORAGE_URL"
KEY_PREFIX = "mcp-tools-proxy"
MAX_CONNECTIONS = 80
"""Above the calls that ``shared_store`` lets through at a time, each of which uses one."""

_CONNECT_TIMEOUT_S = 1.0


class SharedRedisStorage(RedisStorage, CountingStorage):
    """The ``limits`` storage in Redis, and reading several counters in one round trip."""

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__(
            "async+redis://",  # the address is the pool's: limits would insist on a port
            wrap_exceptions=True,
            implementation="redispy",
            key_prefix=KEY_PREFIX,
            connection_pool=pool,  # type: ignore[arg-type]  # documented, but typed as a scalar
        )
        self._client = Redis(connection_pool=pool)

    async def get_many(self, keys: Sequence[str]) -> list[int]:
        """Give the counts of several keys; raises StorageError as the other methods do."""
        try:
            counts = await self._client.mget([self.bridge.prefixed_key(key) for key in keys])
            return [int(count or 0) for count in counts]
        except (RedisError, ValueError) as error:  # ValueError: somebody else's value at our key
            raise StorageError(error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStorage:
    """A storage, its name for log lines (no user, no password), and how to drop connections."""

    storage: CountingStorage
    name: str
    disconnect: Callable[[], Awaitable[None]]


def open_redis(url: str) -> OpenStorage:
    """Prepare a storage for ``redis[s]://host[:port][/db]``; it connects when first used.

    Raises ValueError with one line that names the variable and repeats nothing of a URL that may
    hold a password. Redis failures come as ``limits.errors.StorageError``. redis-py's own retries
    are off: who waits how long is decided in ``shared_store`` (T-10).
    """
    name = _checked_name(url)
    try:
        pool = ConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            socket_connect_timeout=_CONNECT_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            encoding_errors="surrogatepass",
            protocol=2,
        )
        # With a socket timeout redis-py sends through asyncio.wait_for, which before Python 3.12
        # can lose the cancellation that our own bound is. So there is none, whatever the URL says.
        pool.connection_kwargs["socket_timeout"] = None
        pool.max_connections = MAX_CONNECTIONS  # a pool too small would look like a failing Redis
        pool.make_connection()  # type: ignore[no-untyped-call]  # an unknown option shows only here
    except (ValueError, TypeError, RedisError) as error:
        raise ValueError(f"{URL_VARIABLE}: not a usable Redis URL, check its options") from error

    async def disconnect() -> None:
        with contextlib.suppress(RedisError):  # a connection that does not even close cleanly
            await pool.disconnect(inuse_connections=False)

    return OpenStorage(storage=SharedRedisStorage(pool), name=name, disconnect=disconnect)


def _checked_name(url: str) -> str:
    """Check what redis-py would silently replace by a default; give the URL without its secrets."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{URL_VARIABLE}: the host or port cannot be read") from error
    if parts.scheme not in ("redis", "rediss"):
        raise ValueError(f"{URL_VARIABLE}: the scheme must be redis:// or rediss://")
    if not host:
        raise ValueError(f"{URL_VARIABLE}: names no host")
    database = parts.path.strip("/")
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"{URL_VARIABLE}: the path must be a database number, e.g. /0")
    return f"{parts.scheme}://{host}:{port or 6379}/{database or 0}"
