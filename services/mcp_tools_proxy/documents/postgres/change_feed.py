"""Change notifications from PostgreSQL and the state of the database (contract §5)."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import asyncpg
import structlog
from pydantic_core import from_json

from mcp_tools_proxy.documents.document_store import ChangeListener, DatabaseProblem
from mcp_tools_proxy.documents.postgres.database import FAILURES, Database, connect, one_line_of
from mcp_tools_proxy.documents.postgres.rows import loaded
from mcp_tools_proxy.documents.postgres.schema import check_connection
from mcp_tools_proxy.domain.errors import DocumentsUnavailable

CHANNEL = "mcp_tools_proxy_documents"

UNCHECKED = "the database was not reached yet"
"""Initial problem, until the role and the schema are checked; nothing is read before."""

_BEAT = "SELECT pg_notify($1, $2)"

log = structlog.get_logger()


class ChangeFeed:
    """Notifies listeners of changes, over its own connection, until ``run`` is cancelled.

    Every ``beat_s`` it sends a notification (beat) to itself. A database delivers notifications in
    order, so the arrival of the beat means that all earlier ones have arrived. If beats do not
    arrive although the database responds (PgBouncer in transaction mode, a standby), the feed polls
    the log of changes at each beat; otherwise every ``poll_s``, for lost notifications.
    ``is_current`` holds for ``stale_s`` after the last beat or poll. Each new connection reports
    that all documents may have changed. Nothing is read from the database before ``check`` or
    ``run`` has verified its role and schema.
    """

    def __init__(
        self,
        database: Database,
        *,
        stale_s: float,
        beat_s: float = 5.0,
        poll_s: float = 30.0,
        retry_s: float = 0.5,
    ) -> None:
        self._database = database
        self._stale_s = stale_s
        self._beat_s = min(beat_s, stale_s / 3) if stale_s else beat_s
        self._poll_s = poll_s
        self._retry_s = retry_s
        self._listeners: list[ChangeListener] = []
        self._current_until = -1.0
        self._own_channel = f"mcp_tools_proxy_{secrets.token_hex(8)}"
        self._arrived = asyncio.Event()
        self._beats = 0
        self._listens = True
        self._is_direct = True
        """Whether the connection is direct, not through a pooler."""
        self._first_mark = "0"
        """Oldest transaction in progress at the last poll of the log of changes."""
        self._failure: str | None = UNCHECKED
        database.problem = UNCHECKED

    def __repr__(self) -> str:
        return f"<ChangeFeed {self._failure or 'connected'}>"

    @property
    def is_current(self) -> bool:
        """Whether the last beat or poll is younger than ``stale_s``."""
        return asyncio.get_running_loop().time() < self._current_until

    @property
    def state(self) -> Mapping[str, object]:
        """State of the database for readiness."""
        if self._failure is not None:
            return {"status": "degraded", "store": "postgresql", "reason": self._failure}
        return {"status": "ok", "store": "postgresql", "listen": self._listens}

    def add_listener(self, listener: ChangeListener) -> None:
        """Send changes to ``listener`` from now on."""
        self._listeners.append(listener)

    async def check(self) -> None:
        """Check once whether the database is usable, within the timeout of a call."""
        try:
            async with self._in_time(), self._connected() as connection:
                await self._check(connection)
        except (*FAILURES, DatabaseProblem) as error:
            self._set_failure(one_line_of(error))
        else:
            self._set_failure(None)

    async def run(self) -> None:
        """Follow the database until cancelled; reconnect after failures."""
        while True:
            try:
                await self._follow()
            except (*FAILURES, DatabaseProblem) as error:
                self._set_failure(one_line_of(error))
            await asyncio.sleep(self._retry_s)

    async def _follow(self) -> None:
        async with self._connected() as connection:
            async with self._in_time():
                await self._check(connection)
                await self._listen(connection)
                await self._poll(connection)
            await self._database.expire()
            self._set_failure(None)
            self._notify_all()
            polled_at = self._now()
            while True:
                beat_at = self._now()
                self._listens = await self._beat(connection)
                if not self._listens or beat_at - polled_at >= self._poll_s:
                    polled_at = beat_at
                    async with self._in_time():
                        await self._poll(connection)
                self._current_until = beat_at + self._stale_s
                await self._wait(beat_at + self._beat_s - self._now())

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncpg.Connection]:
        async with self._in_time():
            connection = await connect(self._database.url)
        connection.add_termination_listener(lambda _: self._database.suspect.set())
        try:
            yield connection
        finally:
            connection.terminate()

    async def _check(self, connection: asyncpg.Connection) -> None:
        """Check role and schema, and detect a pooler, whose process id differs."""
        async with connection.transaction():
            await check_connection(connection)
            pid = await connection.fetchval("SELECT pg_backend_pid()")
        self._is_direct = pid == connection.get_server_pid()
        self._database.caches_statements = self._is_direct

    async def _listen(self, connection: asyncpg.Connection) -> None:
        """Listen for notifications; a standby cannot, and is polled."""
        try:
            await connection.add_listener(CHANNEL, self._on_change)
            await connection.add_listener(self._own_channel, self._on_beat)
        except asyncpg.PostgresError:
            return  # no beat will arrive, so the feed polls

    async def _beat(self, connection: asyncpg.Connection) -> bool:
        """Send a notification to this process; return whether it arrived.

        A pooler delivers pending notifications to the sender with the result of its transaction.
        Behind a pooler, another connection sends the beat, as another replica would.
        """
        self._beats += 1
        self._arrived.clear()
        beat = (self._own_channel, str(self._beats))
        try:
            if self._is_direct:
                async with self._in_time():
                    await connection.execute(_BEAT, *beat)
            else:
                async with self._database.transaction("") as other:
                    await other.execute(_BEAT, *beat)
        except (asyncpg.PostgresError, DocumentsUnavailable):
            return False
        try:
            async with asyncio.timeout(min(self._database.timeout_s, self._beat_s / 2)):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    async def _poll(self, connection: asyncpg.Connection) -> None:
        """Report changes since the last poll; the first poll only records the position.

        Transactions that were in progress are read again: they may have ended since.
        """
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            mark = await connection.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
            changes: list[asyncpg.Record] = []
            if self._first_mark != "0":
                changes = await connection.fetch(
                    "SELECT tenant_id, doc_id FROM mcp_tools_proxy.changes_since($1)",
                    self._first_mark,
                )
        for change in changes:
            self.changed((loaded(change["tenant_id"]), loaded(change["doc_id"])))
        self._first_mark = str(mark)

    async def _wait(self, left_s: float) -> None:
        """Wait for the next beat, or until the database seems to fail."""
        self._database.suspect.clear()
        try:
            async with asyncio.timeout(left_s):
                await self._database.suspect.wait()
        except TimeoutError:
            return
        await asyncio.sleep(min(self._retry_s, self._beat_s))

    def _on_change(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            tenant_id, doc_id = map(loaded, from_json(str(payload)))
        except (ValueError, TypeError):  # any role of the database can notify the channel
            self._notify_all()
            return
        self.changed((tenant_id, doc_id))

    def _on_beat(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == str(self._beats):  # a late beat does not prove that all changes arrived
            self._arrived.set()

    def changed(self, key: tuple[str, str]) -> None:
        """Tell the listeners that a document may have changed."""
        for listener in self._listeners:
            listener.changed(key)

    def _notify_all(self) -> None:
        for listener in self._listeners:
            listener.all_changed()

    def _set_failure(self, failure: str | None) -> None:
        was_well = self._failure in (None, UNCHECKED)
        if failure is not None and was_well:
            log.warning("documents.database_lost", reason=failure)
        elif failure is None and not was_well:
            log.info("documents.database_back", listen=self._listens)
        self._failure = self._database.problem = failure

    def _in_time(self) -> asyncio.Timeout:
        """Limit a step; on timeout the connection is terminated.

        asyncpg's own timeout sends a cancel request over another connection, which a stopped server
        never closes.
        """
        return asyncio.timeout(self._database.timeout_s)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
