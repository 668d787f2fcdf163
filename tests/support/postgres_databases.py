import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.change_feed import ChangeFeed
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.schema import migrate
from mcp_tools_proxy.documents.postgres.store import PostgresStore
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.document import Document
from tests.support.bounds import BOUND_S, until
from tests.support.postgres_server import GATEWAY, OWNER, PostgresServer

TEMPLATE = "migrated"

_STRUCTURE = """
SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
    SELECT concat_ws(
        ' ', c.relname, c.relkind, c.relacl, a.attname, a.atttypid, a.attnotnull, a.attacl
    )
    FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'mcp_tools_proxy'::regnamespace
    UNION ALL SELECT concat_ws(' ', nspname, nspacl) FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT concat_ws(' ', tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT concat_ws(' ', conname, convalidated) FROM pg_constraint
    UNION ALL SELECT setconfig::text
        FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
        WHERE d.datname = current_database()
    UNION ALL SELECT m::text FROM mcp_tools_proxy.migrations m
) AS found (line)
"""
_EMPTIED = """
SELECT string_agg('mcp_tools_proxy.' || tablename, ', ') FROM pg_tables
WHERE schemaname = 'mcp_tools_proxy' AND tablename <> 'migrations'
"""
_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    server: PostgresServer
    name: str

    @property
    def owner_url(self) -> str:
        return self.server.url(OWNER, self.name)

    @property
    def url(self) -> str:
        return self.server.url(GATEWAY, self.name)


class Databases:
    """Creates databases on one server: each a copy of one that was migrated once.

    A copy has a thousand files, so it is emptied and reused after its test, unless the test changed
    more than rows.
    """

    def __init__(self, folder: Path) -> None:
        self.server = PostgresServer(folder)
        self._numbers = itertools.count(1)
        self._lent: list[str] = []
        self._free: list[str] = []

    def start(self) -> None:
        self.server.start()
        asyncio.run(self._migrate_template())

    async def new(self, *, is_migrated: bool = True) -> PostgresDatabase:
        if not is_migrated:
            return PostgresDatabase(self.server, await self._create("template0"))
        name = self._free.pop() if self._free else await self._create(TEMPLATE)
        self._lent.append(name)
        return PostgresDatabase(self.server, name)

    def take_back(self) -> None:
        """Empty the databases lent to a test, and drop those that cannot be reused."""
        lent, self._lent = self._lent, []
        if self.server.is_running:
            self._free += [name for name in lent if asyncio.run(self._is_emptied(name))]

    async def _is_emptied(self, name: str) -> bool:
        async with self._connected(name) as owner:
            await owner.execute(_OTHERS)
            if await owner.fetchval(_STRUCTURE) != self._structure:
                return False
            await owner.execute(f"TRUNCATE {self._emptied} RESTART IDENTITY CASCADE")
        return True

    async def _migrate_template(self) -> None:
        async with self._connected("postgres") as owner:
            await owner.execute(f"CREATE DATABASE {TEMPLATE}")
        await migrate(self.server.url(OWNER, TEMPLATE), self.server.url(GATEWAY, TEMPLATE))
        async with self._connected(TEMPLATE) as owner:
            self._structure = await owner.fetchval(_STRUCTURE)
            self._emptied = await owner.fetchval(_EMPTIED)

    async def _create(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        async with self._connected("postgres") as owner:
            await owner.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    @asynccontextmanager
    async def _connected(self, name: str) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.server.url(OWNER, name))
        try:
            yield connection
        finally:
            await connection.close()


@contextmanager
def running_databases() -> Iterator[Databases]:
    """Run a server in a folder that its user can access."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        Path(folder).chmod(0o755)
        made = Databases(Path(folder) / "server")
        made.start()
        try:
            yield made
        finally:
            made.server.stop()


async def until_replayed(primary: PostgresDatabase, standby: PostgresDatabase) -> None:
    """Wait until the standby has received all writes of the primary."""
    written = await asyncpg.connect(primary.owner_url)
    read = await asyncpg.connect(standby.owner_url)
    end = await written.fetchval("SELECT pg_current_wal_insert_lsn()::text")
    is_behind = "SELECT pg_last_wal_replay_lsn() < $1::text::pg_lsn"
    async with asyncio.timeout(BOUND_S):
        while await read.fetchval(is_behind, end):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
    await written.close()
    await read.close()


class OpenStore:
    """A store over a database, followed in the background, and a separate writer."""

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        url: str | None = None,
        timeout_s: float = BOUND_S,
        stale_s: float = BOUND_S,
        beat_s: float = 0.2,
    ) -> None:
        self.database = Database(url or database.url, timeout_s=timeout_s)
        self.feed = ChangeFeed(self.database, stale_s=stale_s, beat_s=beat_s, retry_s=0.05)
        self.store = PostgresStore(self.database, self.feed)
        self.writer = PostgresWriter(Database(database.url, timeout_s=BOUND_S))
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> "OpenStore":
        await self._tasks.__aenter__()
        self._following = self._tasks.create_task(self.feed.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._following.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self.database.close()
        await self.writer.close()

    async def until_current(self) -> None:
        await until(lambda: self.store.is_current, "the database is followed")


class Changes:
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.of_all = 0

    def changed(self, key: Key) -> None:
        self.keys.append(key)

    def all_changed(self) -> None:
        self.of_all += 1


class FilledPostgres:
    """Documents in PostgreSQL (FilledStore): each change waits for its notification."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self.store = opened.store
        self._changes: list[Key] = []
        self.store.listen(self)

    def changed(self, key: Key) -> None:
        self._changes.append(key)

    def all_changed(self) -> None:
        """Ignore it, because changes are waited for by key."""

    async def put(self, document: Document) -> None:
        key = (document.tenant_id, document.doc_id)
        before = await self._opened.writer.head(key)
        self._changes.clear()
        after = await self._opened.writer.put(
            document, expected=Expected.ANYTHING, keep_readers=False
        )
        if before != after:
            await until(lambda: key in self._changes)

    async def remove(self, key: Key) -> None:
        self._changes.clear()
        await self._opened.writer.remove(key, expected=Expected.ANYTHING)
        await until(lambda: key in self._changes)
