"""A pool of connections to Redis, from the URL of the settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

URL_VARIABLE = "MCP_PROXY_RATE_LIMIT_STORAGE_URL"
KEY_PREFIX = "mcp-tools-proxy"
"""Every key and channel of ours begins with it."""

NEVER_EVICTS = "noeviction"
"""The ``maxmemory-policy`` of a Redis that keeps what it is given."""

CONNECT_TIMEOUT_S = 1.0
"""Seconds that one connect to Redis may take."""


@dataclass(frozen=True, slots=True)
class RedisPool:
    """Connections to one Redis, and its name for log lines (no user, no password)."""

    connections: ConnectionPool
    name: str


def open_pool(url: str, *, max_connections: int, variable: str = URL_VARIABLE) -> RedisPool:
    """Build a pool for ``redis[s]://host[:port][/db]``; it connects when first used.

    Raises ValueError with one line that names ``variable``, the setting, and quotes nothing of the
    URL, which may hold a password. redis-py's own retries are off: who calls decides how long to
    wait (T-10).
    """
    name = _checked_name(url, variable)
    try:
        pool = ConnectionPool.from_url(
            url,
            max_connections=max_connections,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            encoding_errors="surrogatepass",
            protocol=2,
        )
        # With a socket timeout redis-py sends through asyncio.wait_for, which before Python 3.12
        # can swallow a cancellation, and our time-outs work by cancellation. So there is no
        # socket timeout, even if the URL sets one.
        pool.connection_kwargs["socket_timeout"] = None
        pool.max_connections = max_connections  # too few would look like a failing Redis
        pool.make_connection()  # type: ignore[no-untyped-call]  # an unknown option shows only here
    except (ValueError, TypeError, RedisError) as error:
        raise ValueError(f"{variable}: is not a usable Redis URL; check its options") from error
    return RedisPool(pool, name)


def _checked_name(url: str, variable: str) -> str:
    """Check the parts that redis-py would silently replace by defaults.

    Returns the URL without its secrets. Raises ValueError.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{variable}: the host or port cannot be read") from error
    if parts.scheme not in ("redis", "rediss"):
        raise ValueError(f"{variable}: the scheme must be redis:// or rediss://")
    if not host:
        raise ValueError(f"{variable}: has no host")
    database = parts.path.strip("/")
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"{variable}: the path must be a database number, e.g. /0")
    return f"{parts.scheme}://{host}:{port or 6379}/{database or 0}"


def eviction_problem(memory: object, variable: str) -> str | None:
    """Return why a Redis may drop keys, by its ``INFO memory``; None if it does not.

    ``variable`` is the setting that names the Redis.
    """
    known = memory if isinstance(memory, Mapping) else {}
    policy = known.get("maxmemory_policy", "not known")
    if policy == NEVER_EVICTS:
        return None
    return (
        f"the Redis of {variable} may drop keys (maxmemory-policy {policy}); "
        f"set it to {NEVER_EVICTS}"
    )
