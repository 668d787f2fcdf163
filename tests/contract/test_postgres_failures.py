import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.document_writer import Expected, ReadOnlyDocuments
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.schema import newest
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.document import Readers
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound, DocumentsUnavailable
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.contract.slow_network import PostgresNetwork, slow_network
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_caller, make_document
from tests.support.captured_logs import capture_logs
from tests.support.postgres_databases import (
    Changes,
    Databases,
    OpenStore,
    PostgresDatabase,
    running_databases,
    until_replayed,
)
from tests.support.postgres_server import GATEWAY, PostgresServer

CALLER = make_caller(tenant_id="acme")
SOON_S = 0.5
"""A call's maximum wait in these tests; the default is 2 s."""


class Gateway:
    """A repository over a store that follows changes."""

    def __init__(self, opened: OpenStore) -> None:
        self.opened = opened
        self.repository = DocumentRepository(
            opened.store, cache_bytes=10**6, hide_foreign_documents=False, metrics=Metrics()
        )

    async def text(self, doc_id: str) -> str:
        found = await self.repository.find(CALLER, doc_id, Wanted(pages=(1, 1)))
        return found.pages(1, 1)[0]

    async def outcome(self, doc_id: str) -> str:
        """Return the text, or the refusal's code."""
        try:
            return await self.text(doc_id)
        except (DocumentsUnavailable, AccessDenied, DocumentNotFound) as error:
            return error.code

    async def until_outcome(self, doc_id: str, wanted: str) -> None:
        async with asyncio.timeout(BOUND_S):
            while await self.outcome(doc_id) != wanted:  # noqa: ASYNC110 - calls do not signal an event
                await asyncio.sleep(0.02)


@asynccontextmanager
async def gateway(
    database: PostgresDatabase, *, stale_s: float = BOUND_S, timeout_s: float = SOON_S, **more: Any
) -> AsyncIterator[Gateway]:
    """A gateway with two documents; "cached" has been read.

    A heartbeat that is late on a busy machine invalidates the cache; with a long ``beat_s`` there
    is none.
    """
    async with OpenStore(database, stale_s=stale_s, timeout_s=timeout_s, **more) as opened:
        changes = Changes()
        opened.store.listen(changes)
        made = Gateway(opened)
        await until(lambda: opened.feed.state["status"] == "ok")
        if stale_s:
            await opened.until_current()  # until then nothing is cached
        last = secrets.token_hex(8)  # a second gateway changes nothing for the others
        for doc_id in ("cached", "other", last):
            await write(opened.writer, doc_id, "old")
        await until(lambda: ("acme", last) in changes.keys)
        await made.until_outcome("cached", "old")
        yield made
        made.repository.close()


async def write(
    writer: PostgresWriter, doc_id: str, text: str, readers: Readers | None = None
) -> None:
    document = make_document(tenant_id="acme", doc_id=doc_id, pages=(text,), readers=readers)
    await writer.put(document, expected=Expected.ANYTHING, keep_readers=False)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server for a test that kills, pauses or restarts it."""
    with running_databases() as databases:
        yield databases.server


@pytest.fixture
def own_database(own_server: PostgresServer) -> PostgresDatabase:
    return PostgresDatabase(own_server, "migrated")


async def test_a_killed_server_leaves_cached_documents_available_and_recovers(
    own_database: PostgresDatabase,
) -> None:
    with capture_logs() as lines:
        async with gateway(own_database, beat_s=BOUND_S) as made:
            own_database.server.stop()
            await until(lambda: made.opened.feed.state["status"] == "degraded")
            assert await made.outcome("cached") == "old"
            assert [await made.outcome("other") for _ in range(20)] == [
                "DOCUMENTS_UNAVAILABLE"
            ] * 20
            await asyncio.to_thread(own_database.server.start)
            await made.until_outcome("other", "old")
            await write(made.opened.writer, "cached", "new")
            await made.until_outcome("cached", "new")
    events = [line["event"] for line in lines]
    assert events.count("documents.database_lost") == 1
    assert events.count("documents.database_back") == 1


async def test_a_promoted_standby_takes_over(own_database: PostgresDatabase) -> None:
    standby = PostgresDatabase(own_database.server.start_standby(), own_database.name)
    host = f"127.0.0.1:{own_database.server.port}"
    hosts = own_database.url.replace(host, f"{host},127.0.0.1:{standby.server.port}")
    try:
        url = f"{hosts}?target_session_attrs=read-write"
        async with gateway(own_database, url=url, beat_s=BOUND_S) as made:
            await until_replayed(own_database, standby)
            own_database.server.stop()
            await until(lambda: made.opened.feed.state["status"] == "degraded")
            assert await made.outcome("cached") == "old"
            assert await made.outcome("other") == "DOCUMENTS_UNAVAILABLE"
            await execute(standby, "SELECT pg_promote()")
            await made.until_outcome("other", "old")
            writer = PostgresWriter(Database(standby.url, timeout_s=BOUND_S))
            await write(writer, "cached", "new")
            await writer.close()
            await made.until_outcome("cached", "new")
    finally:
        standby.server.stop()


async def test_a_call_does_not_wait_for_a_stopped_server(
    own_database: PostgresDatabase,
) -> None:
    async with gateway(own_database, beat_s=BOUND_S) as made:
        own_database.server.pause()
        async with asyncio.timeout(BOUND_S):
            outcomes = await asyncio.gather(*(made.outcome("other") for _ in range(40)))
        assert set(outcomes) == {"DOCUMENTS_UNAVAILABLE"}
        await until(lambda: made.opened.feed.state["status"] == "degraded")
        assert await made.outcome("cached") == "old"
        own_database.server.resume()
        await made.until_outcome("other", "old")


async def test_connections_closed_by_the_server_are_reopened(
    postgres: PostgresDatabase,
) -> None:
    async with gateway(postgres) as made:
        await end_connections(postgres)
        await made.until_outcome("other", "old")
        await write(made.opened.writer, "cached", "new")
        await made.until_outcome("cached", "new")


async def test_changes_missed_during_an_outage_are_found_afterwards(
    postgres: PostgresDatabase,
) -> None:
    writer = PostgresWriter(Database(postgres.owner_url, timeout_s=BOUND_S))
    async with gateway(postgres, beat_s=BOUND_S) as made:
        await execute(postgres, f"ALTER ROLE {GATEWAY} NOLOGIN")
        try:
            await end_connections(postgres)
            await until(lambda: made.opened.feed.state["status"] == "degraded")
            await write(writer, "cached", "new", Readers())
            assert await made.outcome("cached") == "old"
        finally:
            await execute(postgres, f"ALTER ROLE {GATEWAY} LOGIN")
        await made.until_outcome("cached", "ACCESS_DENIED")
    await writer.close()


async def test_cached_documents_are_served_only_within_the_staleness_limit(
    own_database: PostgresDatabase,
) -> None:
    async with gateway(own_database, stale_s=0.3) as made:
        own_database.server.stop()
        await made.until_outcome("cached", "DOCUMENTS_UNAVAILABLE")


async def test_every_call_queries_the_database_if_nothing_may_be_stale(
    own_database: PostgresDatabase,
) -> None:
    async with gateway(own_database, stale_s=0) as made:
        assert not made.opened.store.is_current
        own_database.server.stop()
        assert await made.outcome("cached") == "DOCUMENTS_UNAVAILABLE"


async def test_a_database_unavailable_at_the_start_is_followed_later(
    own_database: PostgresDatabase,
) -> None:
    own_database.server.stop()
    async with OpenStore(own_database, timeout_s=SOON_S) as opened:
        made = Gateway(opened)
        await until(lambda: opened.feed.state["status"] == "degraded")
        assert await made.outcome("cached") == "DOCUMENTS_UNAVAILABLE"
        await asyncio.to_thread(own_database.server.start)
        await write(opened.writer, "cached", "new")
        await made.until_outcome("cached", "new")
        made.repository.close()


async def test_a_read_only_database_can_be_read(postgres: PostgresDatabase) -> None:
    async with gateway(postgres) as made:
        await execute(
            postgres, f"ALTER DATABASE {postgres.name} SET default_transaction_read_only = on"
        )
        await end_connections(postgres)
        await made.until_outcome("other", "old")
        await until(lambda: made.opened.feed.state.get("listen") is True)
        writer = PostgresWriter(Database(postgres.url, timeout_s=BOUND_S))
        with pytest.raises(ReadOnlyDocuments):
            await write(writer, "cached", "new")
        await writer.close()


async def test_a_call_without_a_free_connection_is_refused_and_the_next_one_succeeds(
    databases: Databases,
) -> None:
    database = await databases.new()
    async with gateway(database, beat_s=BOUND_S) as made:
        await made.opened.database.expire()
        await execute(database, f"ALTER DATABASE {database.name} CONNECTION LIMIT 1")
        try:
            await until_refused(made)
            assert await made.outcome("cached") == "old"
        finally:
            await execute(database, f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
        await made.until_outcome("other", "old")


async def until_refused(made: Gateway) -> None:
    """Read until all earlier connections are closed."""
    async with asyncio.timeout(BOUND_S):
        for number in range(10_000):  # different documents, so that none is in memory
            await made.opened.database.expire()
            if await made.outcome(f"no document {number}") == "DOCUMENTS_UNAVAILABLE":
                return


async def test_a_database_that_answers_too_late_is_unavailable(
    postgres: PostgresDatabase,
) -> None:
    async with slow_network(postgres.server.port, delay_s=3.0) as network:
        url = postgres.server.url(GATEWAY, postgres.name, port=network.port)
        async with OpenStore(postgres, url=url, timeout_s=0.2) as opened:
            await write(opened.writer, "late", "text")  # bypasses the network
            made = Gateway(opened)
            assert await made.outcome("late") == "DOCUMENTS_UNAVAILABLE"
            await until(lambda: opened.feed.state["status"] == "degraded")
            made.repository.close()


@pytest.mark.parametrize(
    ("statement", "undo", "reason"),
    [
        (
            "INSERT INTO mcp_tools_proxy.migrations (number) VALUES (99)",
            "DELETE FROM mcp_tools_proxy.migrations WHERE number = 99",
            "use the release that created it",
        ),
        (
            "DELETE FROM mcp_tools_proxy.migrations",
            "INSERT INTO mcp_tools_proxy.migrations (number) "
            f"SELECT generate_series(1, {newest()})",
            "documents migrate",
        ),
        (
            "ALTER SCHEMA mcp_tools_proxy RENAME TO elsewhere",
            "ALTER SCHEMA elsewhere RENAME TO mcp_tools_proxy",
            "run mcp-tools-proxy documents migrate",
        ),
    ],
)
async def test_a_schema_of_another_release_is_not_read(
    postgres: PostgresDatabase, statement: str, undo: str, reason: str
) -> None:
    async with gateway(postgres, stale_s=0.3) as made:
        await execute(postgres, statement)
        await end_connections(postgres)
        await made.until_outcome("cached", "DOCUMENTS_UNAVAILABLE")
        await until(lambda: reason in str(made.opened.feed.state.get("reason")))
        await execute(postgres, undo)
        await made.until_outcome("cached", "old")


async def test_a_role_that_later_gets_too_many_rights_reads_nothing(
    own_database: PostgresDatabase,
) -> None:
    async with gateway(own_database, stale_s=0.3) as made:
        await execute(own_database, f"ALTER ROLE {GATEWAY} BYPASSRLS")
        await end_connections(own_database)
        await until(lambda: "BYPASSRLS" in str(made.opened.feed.state.get("reason")))
        await made.until_outcome("cached", "DOCUMENTS_UNAVAILABLE")
        await execute(own_database, f"ALTER ROLE {GATEWAY} NOBYPASSRLS")
        await made.until_outcome("cached", "old")


class DeafNetwork(PostgresNetwork):
    """A network that loses every notification of PostgreSQL, as PgBouncer does."""

    def message(self, kind: bytes, body: bytes, sink: asyncio.StreamWriter) -> bytes | None:
        return None if kind == b"A" else body


async def test_the_log_of_changes_is_sufficient_without_notifications(
    postgres: PostgresDatabase,
) -> None:
    async with slow_network(postgres.server.port, kind=DeafNetwork) as network:
        url = postgres.server.url(GATEWAY, postgres.name, port=network.port)
        async with gateway(postgres, url=url, timeout_s=1.0) as made:
            await until(lambda: made.opened.feed.state.get("listen") is False)
            await write(made.opened.writer, "cached", "new")
            await made.until_outcome("cached", "new")
            await made.opened.until_current()


async def test_a_change_made_by_one_replica_applies_on_another(
    postgres: PostgresDatabase,
) -> None:
    async with gateway(postgres) as first, gateway(postgres) as second:
        await first.opened.writer.set_readers(
            ("acme", "cached"), Readers(users=frozenset({"ann"})), expected=Expected.ANYTHING
        )
        for made in (first, second):
            await made.until_outcome("cached", "ACCESS_DENIED")


async def test_killing_a_writer_during_a_change_keeps_the_old_version_intact(
    postgres: PostgresDatabase,
) -> None:
    async with gateway(postgres) as made:
        blocking = await asyncpg.connect(postgres.owner_url)
        async with blocking.transaction():
            await blocking.execute("LOCK TABLE mcp_tools_proxy.chunks")  # the last one written
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(_outcome_of_write(made.opened.writer))
                while not await _ended_waiting(postgres):  # noqa: ASYNC110 - asked over SQL
                    await asyncio.sleep(0.01)
            assert writing.result() == "DOCUMENTS_UNAVAILABLE"
        await blocking.close()
        found = await made.opened.writer.document(("acme", "cached"))
        assert found is not None
        assert found.pages == ("old",)
        assert await made.outcome("cached") == "old"


async def _outcome_of_write(writer: PostgresWriter) -> str:
    try:
        await write(writer, "cached", "new")
    except DocumentsUnavailable as error:
        return error.code
    return "written"


async def _ended_waiting(postgres: PostgresDatabase) -> bool:
    """End the connection that waits for a lock; return whether there was one."""
    connection = await asyncpg.connect(postgres.owner_url)
    ended = await connection.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted "
        "AND relation = 'mcp_tools_proxy.chunks'::regclass"
    )
    await connection.close()
    return bool(ended)


async def execute(postgres: PostgresDatabase, statement: str) -> None:
    connection = await asyncpg.connect(postgres.owner_url)
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute(statement)
    await connection.close()


async def end_connections(postgres: PostgresDatabase) -> None:
    await execute(
        postgres,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
