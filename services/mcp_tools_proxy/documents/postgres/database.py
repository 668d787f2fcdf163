"""Transactions of one tenant in PostgreSQL, each within a deadline."""

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
"""Connections of one process, besides the one that listens."""

log = structlog.get_logger()

_BROKEN = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What leaves a connection unusable. asyncpg's internal error is one that the server ended just
before it was used."""

FAILURES = (*_BROKEN, asyncpg.PostgresError)
"""What asyncpg raises; a TimeoutError is an OSError."""

Connection = asyncpg.Connection | PoolConnectionProxy

STATEMENTS = 100
"""Prepared statements that a connection keeps, where it may keep any."""

UNAVAILABLE = (
    "the documents cannot be read now, because their database does not answer; try again later, "
    "or continue without them"
)

_LONGEST = 300


def one_line_of(error: BaseException) -> str:
    """Return the text of an exception as one line; its kind where it has none."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TimeoutError):
        text = "the database did not answer in time"
    return printable(text)[:_LONGEST]


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """Open a connection that prepares no statement by name. Raises one of FAILURES.

    Behind PgBouncer in transaction mode a name is unknown to the next transaction, or is that of
    another client's statement.
    """
    try:
        return await asyncpg.connect(url, **{"statement_cache_size": 0} | options)
    except asyncpg.InterfaceError:
        raise
    except ValueError:
        # asyncpg quotes what it took for the port: of a password with "/" its first half
        raise asyncpg.InterfaceError(
            "the URL of the database is not valid: percent-encode special characters in the role "
            "and in the password"
        ) from None


class Database:
    """A pool of connections. Each transaction names its tenant, which only that transaction knows.

    ``problem`` is why nothing may be read now, None while all is well; ``ChangeFeed`` keeps it.
    While there is one, transactions fail at once: a call does not wait for what is known.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self.problem: str | None = None
        self.suspect = asyncio.Event()
        """Set by a transaction that ran out of time, so that the database is checked at once."""
        self.caches_statements = False
        """Whether connections opened from now on keep prepared statements: not behind a pooler."""
        self._failure: str | None = None
        """Why the last transaction failed: logged once, not with each call."""
        self._pool: asyncpg.Pool | None = None
        self._opening_pool = asyncio.Lock()
        self._opening_connections: set[asyncio.Future[asyncpg.Connection]] = set()

    def __repr__(self) -> str:
        return f"<Database {self.problem or 'in use'}>"

    @asynccontextmanager
    async def transaction(
        self, tenant_id: str, *, timeout_s: float | None = None
    ) -> AsyncIterator[Connection]:
        """Run a transaction that sees the rows of one tenant, none with an empty ``tenant_id``.

        Commits at the end of the block. Raises DocumentsUnavailable while the database is not
        reachable, or when all is not done within ``timeout_s``.
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
            self.suspect.set()  # the call may have run out of time: DocumentRepository limits it
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
        """Close the connections that are open: the database they led to was away."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def close(self) -> None:
        """Close every connection, waiting for none."""
        for opening in self._opening_connections:
            opening.cancel()
        await asyncio.gather(*self._opening_connections, return_exceptions=True)
        if self._pool is not None:
            self._pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Return a connection to the pool; cut off if it is cancelled, or runs out of time.

        asyncpg would ask the server to cancel, on a second connection, and wait for that: for ever
        if the server was stopped (SIGSTOP).
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
        """Open a connection, to the end also when the caller is cancelled.

        Forty calls that ran out of time while they connected left a dozen sockets open: asyncpg
        closes none whose connecting is cancelled at its first step.
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
    """Reset nothing: a setting that is local to its transaction ends with it."""
