"""Receives changes from PostgreSQL, and knows whether the database is there (contract §5)."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import asyncpg
import structlog
from pydantic_core import from_json

from mcp_tools_proxy.documents.document_store import ChangeListener
from mcp_tools_proxy.documents.postgres.database import FAILURES, Database
from mcp_tools_proxy.documents.postgres.errors import DatabaseProblem, one_line_of
from mcp_tools_proxy.documents.postgres.role_check import check_connection

CHANNEL = "mcp_tools_proxy_documents"

log = structlog.get_logger()


class ChangeFeed:
    """Notifies listeners of changes, on a connection of its own, until ``run`` is cancelled.

    Every ``beat_s`` it sends a notification to itself. When that arrives, all notifications before
    it have: the queue of a database has one order. Where none arrive though the database answers,
    as behind PgBouncer in transaction mode, it reads the log of changes instead, as often; and with
    notifications every ``poll_s``, for any that were lost.
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
        self._listens = True
        self._first_mark = "0"
        """The oldest transaction that was under way at the last look into the log of changes."""
        self._failure: str | None = None

    def __repr__(self) -> str:
        return f"<ChangeFeed {self._failure or 'connected'}>"

    @property
    def is_current(self) -> bool:
        """Whether the last beat is younger than ``stale_s``."""
        return asyncio.get_running_loop().time() < self._current_until

    @property
    def state(self) -> Mapping[str, object]:
        """What readiness says of the database."""
        if self._failure is not None:
            return {"status": "degraded", "store": "postgresql", "reason": self._failure}
        return {"status": "ok", "store": "postgresql", "listen": self._listens}

    def add_listener(self, listener: ChangeListener) -> None:
        """Send changes to ``listener`` from now on."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Follow the database until cancelled, over one connection after the other."""
        while True:
            try:
                await self._follow()
            except (*FAILURES, DatabaseProblem) as error:
                self._set_failure(one_line_of(error))
            await asyncio.sleep(self._retry_s)

    async def _follow(self) -> None:
        """Follow the database over one connection, until that fails."""
        async with self._connected() as connection:
            async with self._in_time():
                await check_connection(connection)
                await self._listen(connection)
                await self._poll(connection)
            await self._database.expire()
            self._set_failure(None)
            for listener in self._listeners:
                listener.all_changed()
            polled_at = self._now()
            while True:
                beat_at = self._now()
                self._listens = self._listens and await self._beat(connection)
                if not self._listens or beat_at - polled_at >= self._poll_s:
                    polled_at = beat_at
                    async with self._in_time():
                        await self._poll(connection)
                self._current_until = beat_at + self._stale_s
                await self._wait(connection)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncpg.Connection]:
        async with self._in_time():
            connection = await asyncpg.connect(self._database.url)
        connection.add_termination_listener(lambda _: self._database.suspect.set())
        try:
            yield connection
        finally:
            connection.terminate()

    async def _listen(self, connection: asyncpg.Connection) -> None:
        """Listen; a standby cannot, and is polled."""
        try:
            await connection.add_listener(CHANNEL, self._on_change)
            await connection.add_listener(self._own_channel, self._on_beat)
            self._listens = True
        except asyncpg.PostgresError:
            self._listens = False

    async def _beat(self, connection: asyncpg.Connection) -> bool:
        """Send a notification to this process; return whether it arrived."""
        self._arrived.clear()
        try:
            async with self._in_time():
                await connection.execute("SELECT pg_notify($1, '')", self._own_channel)
        except asyncpg.PostgresError:
            return False
        try:
            async with self._in_time():
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    async def _poll(self, connection: asyncpg.Connection) -> None:
        """Read the log of changes since the last look; the first time only remember the place.

        Transactions that were under way are looked at again: they may have ended since.
        """
        mark = await connection.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        if self._first_mark != "0":
            changes = await connection.fetch(
                "SELECT tenant_id, doc_id FROM mcp_tools_proxy.changes_since($1)", self._first_mark
            )
            for tenant_id, doc_id in changes:
                self._notify((tenant_id, doc_id))
        self._first_mark = str(mark)

    async def _wait(self, connection: asyncpg.Connection) -> None:
        """Wait for the time of the next beat, or until the database seems to fail."""
        self._database.suspect.clear()
        try:
            async with asyncio.timeout(self._beat_s):
                await self._database.suspect.wait()
        except TimeoutError:
            return
        await asyncio.sleep(min(self._retry_s, self._beat_s))

    def _on_change(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        tenant_id, doc_id = from_json(str(payload))
        self._notify((tenant_id, doc_id))

    def _on_beat(self, _connection: object, _pid: int, _channel: str, _payload: object) -> None:
        self._arrived.set()

    def _notify(self, key: tuple[str, str]) -> None:
        for listener in self._listeners:
            listener.changed(key)

    def _set_failure(self, failure: str | None) -> None:
        if failure is not None and self._failure is None:
            log.warning("documents.database_lost", reason=failure)
        elif failure is None and self._failure is not None:
            log.info("documents.database_back", listen=self._listens)
        self._failure = self._database.problem = failure

    def _in_time(self) -> asyncio.Timeout:
        """Limit a step; the connection is cut off afterwards. asyncpg's own limit would not be.

        It sends a request to cancel over another connection, which a stopped server never closes.
        """
        return asyncio.timeout(self._database.timeout_s)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
