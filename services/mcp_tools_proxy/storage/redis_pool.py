"""Redis connection pools from configured URLs."""

from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qs, urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mcp_tools_proxy.domain.fast_dataclass import dataclass

URL_VARIABLE = "MCP_PROXY_RATE_LIMIT_STORAGE_URL"
KEY_PREFIX = "mcp-tools-proxy"
"""Prefix of all keys and channels."""

NEVER_EVICTS = "noeviction"
"""The ``maxmemory-policy`` of a Redis that never drops keys."""

CONNECT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class RedisPool:
    """Connections to one Redis, and its name for log lines (without user and password)."""

    connections: ConnectionPool
    name: str


def open_pool(url: str, *, max_connections: int, variable: str = URL_VARIABLE) -> RedisPool:
    """Build a pool for ``redis[s]://host[:port][/db]`` or ``unix:///path[?db=0]``.

    It connects on first use.

    Raises ValueError with one line that names the setting ``variable`` but no part of the URL,
    which can contain a password. redis-py's retries are off: callers limit the wait (T-10).
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
        # can swallow a cancellation, and our timeouts work by cancellation. The URL's setting is
        # overridden.
        pool.connection_kwargs["socket_timeout"] = None
        pool.max_connections = max_connections  # too few would look like a failing Redis
        pool.make_connection()  # type: ignore[no-untyped-call] # detects unknown options
    except (ValueError, TypeError, RedisError) as error:
        raise ValueError(f"{variable}: is not a usable Redis URL; check its options") from error
    return RedisPool(pool, name)


def _checked_name(url: str, variable: str) -> str:
    """Check the parts of the URL that redis-py would silently replace with defaults.

    Returns the URL without secrets. Raises ValueError.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{variable}: the host or port cannot be read") from error
    match parts.scheme:
        case "unix":
            return _checked_socket(parts, variable)
        case "redis" | "rediss":
            if not host:
                raise ValueError(f"{variable}: has no host")
            database = parts.path.strip("/")
            if database and not _is_number(database):
                raise ValueError(f"{variable}: the path must be a database number, e.g. /0")
            return f"{parts.scheme}://{host}:{port or 6379}/{database or 0}"
    raise ValueError(f"{variable}: the scheme must be redis://, rediss:// or unix://")


def _checked_socket(parts: SplitResult, variable: str) -> str:
    """Check the URL of a Unix socket; the name of ``unix:///a:secret@/b`` would show a password."""
    if parts.hostname or parts.port is not None or "@" in parts.path or not parts.path.strip("/"):
        raise ValueError(
            f"{variable}: a Unix socket needs an absolute path, e.g. unix:///run/redis.sock?db=0"
        )
    (database,) = parse_qs(parts.query).get("db", ["0"])[:1]
    if not _is_number(database):
        raise ValueError(f"{variable}: db must be a database number, e.g. ?db=0")
    return f"unix://{parts.path}?db={database}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def eviction_problem(memory: object, variable: str) -> str | None:
    """Return why a Redis may drop keys, from its ``INFO memory``; None if it never does.

    ``variable`` is the setting with the URL.
    """
    known = memory if isinstance(memory, Mapping) else {}
    policy = known.get("maxmemory_policy", "not known")
    if policy == NEVER_EVICTS:
        return None
    return (
        f"the Redis of {variable} may drop keys (maxmemory-policy {policy}); "
        f"set it to {NEVER_EVICTS}"
    )
