"""PostgreSQL transactions of one tenant, each within a deadline."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import structlog
from asyncpg.pool import PoolConnectionProxy

from mcp_tools_proxy.documents.postgres.rows import sought
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.wire.text import printable

MAX_CONNECTIONS = 16
"""Maximum connections of a process, without the listening one."""

log = structlog.get_logger()

_BROKEN = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Errors that leave a connection unusable; an internal error of asyncpg means that the server
closed the connection just before use."""

FAILURES = (*_BROKEN, asyncpg.PostgresError)
"""Errors raised by asyncpg; a TimeoutError is an OSError."""

Connection = asyncpg.Connection | PoolConnectionProxy

STATEMENTS = 100
"""Prepared statements cached per connection, if caching is possible."""

UNAVAILABLE = (
    "the documents cannot be read now, because their database does not answer; try again later, "
    "or continue without them"
)

_LONGEST = 300


def one_line_of(error: BaseException) -> str:
    """Return the message of an exception as one line, or its type if empty."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TimeoutError):
        text = "the database did not answer in time"
    return printable(text)[:_LONGEST]


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """Open a connection without named prepared statements. Raises one of FAILURES.

    Behind PgBouncer in transaction mode, the next transaction does not know the name, or it belongs
    to another client's statement.
    """
    try:
        return await asyncpg.connect(url, **{"statement_cache_size": 0} | options)
    except asyncpg.InterfaceError:
        raise
    except ValueError:
        # asyncpg quotes the presumed port: for a password with "/", its first half
        raise asyncpg.InterfaceError(
            "the URL of the database is not valid: percent-encode special characters in the role "
            "and in the password"
        ) from None


class Database:
    """A connection pool whose transactions each set their tenant.

    ``problem`` is the reason why reads are impossible, or None; ``ChangeFeed`` maintains it. While
    it is set, transactions fail immediately.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self.problem: str | None = None
        self.suspect = asyncio.Event()
        """Set by failed and cancelled transactions to trigger a check of the database."""
        self.caches_statements = False
        """Whether new connections cache prepared statements; not behind a pooler."""
        self._failure: str | None = None
        """Reason of the last transaction's failure, to log it once."""
        self._pool: asyncpg.Pool | None = None
        self._opening_pool = asyncio.Lock()
        self._opening_connections: set[asyncio.Future[asyncpg.Connection]] = set()

    def __repr__(self) -> str:
        return f"<Database {self.problem or 'in use'}>"

    @asynccontextmanager
    async def transaction(
        self, tenant_id: str, *, timeout_s: float | None = None
    ) -> AsyncIterator[Connection]:
        """Run a transaction that sees the rows of one tenant (no rows if ``tenant_id`` is "").

        Commits at the end of the block. Raises DocumentsUnavailable if the database is unreachable
        or the block exceeds ``timeout_s``.
        """
        if self.problem is not None:
            raise DocumentsUnavailable(UNAVAILABLE, reason=self.problem)
        deadline = asyncio.timeout(self.timeout_s if timeout_s is None else timeout_s)
        try:
            async with deadline, self._connection() as connection:
                transaction = connection.transaction()
                await transaction.start()
                try:
                    await connection.execute(
                        "SELECT set_config('mcp_tools_proxy.tenant', $1, true)", sought(tenant_id)
                    )
                    yield connection
                except Exception:
                    await transaction.rollback()
                    raise
                await transaction.commit()
        except asyncio.CancelledError:
            self.suspect.set()  # perhaps a timeout: DocumentRepository limits calls
            raise
        except FAILURES as error:
            failure = "took too long" if deadline.expired() else one_line_of(error)
            if failure != self._failure:
                log.warning("documents.read_failed", reason=failure)
            self._failure = failure
            self.suspect.set()
            raise DocumentsUnavailable(UNAVAILABLE, reason=failure) from error
        self._failure = None

    async def expire(self) -> None:
        """Close the open connections after an outage."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def close(self) -> None:
        """Close every connection without waiting for its work."""
        for opening in self._opening_connections:
            opening.cancel()
        await asyncio.gather(*self._opening_connections, return_exceptions=True)
        if self._pool is not None:
            self._pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Yield a pooled connection; terminate it after cancellation or a timeout.

        asyncpg would send a cancel request over a second connection and wait, forever if the server
        was stopped (SIGSTOP).
        """
        pool = await self._open_pool()
        connection = await pool.acquire()
        try:
            yield connection
        except (asyncio.CancelledError, *_BROKEN):
            connection.terminate()
            raise
        finally:
            with suppress(*FAILURES):
                await pool.release(connection)

    async def _open_pool(self) -> asyncpg.Pool:
        if self._pool is None:
            async with self._opening_pool:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        self.url,
                        min_size=0,
                        max_size=MAX_CONNECTIONS,
                        reset=_keep,
                        connect=self._connect,
                        timeout=self.timeout_s,
                    )
        return self._pool

    async def _connect(self, *arguments: Any, **options: Any) -> asyncpg.Connection:
        """Open a connection, to completion even if the caller is cancelled.

        asyncpg does not close a connection cancelled at its first step: forty timed-out calls left
        a dozen sockets open.
        """
        if self.caches_statements:
            options["statement_cache_size"] = STATEMENTS
        opening = asyncio.ensure_future(connect(*arguments, **options))
        self._opening_connections.add(opening)
        opening.add_done_callback(self._opening_connections.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise


def _close_unused(opening: asyncio.Future[asyncpg.Connection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().terminate()


async def _keep(_connection: Connection) -> None:
    """Reset nothing: settings local to a transaction end with it."""
