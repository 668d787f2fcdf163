"""How stores learn of changes: notifications, and a log of changes in case one is lost."""

import asyncio

import asyncpg

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.change_feed import ChangeFeed
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.document import Readers
from tests.contract.slow_network import PostgresNetwork, slow_network
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_document
from tests.support.postgres_databases import Changes, OpenStore, PostgresDatabase
from tests.support.postgres_server import GATEWAY

ANN = Readers(users=frozenset({"ann"}))


async def put(writer: PostgresWriter, doc_id: str, text: str = "text") -> None:
    document = make_document(tenant_id="acme", doc_id=doc_id, pages=(text,))
    await writer.put(document, expected=Expected.ANYTHING, keep_readers=False)


async def test_each_kind_of_change_is_notified_once_and_no_ineffective_one(
    opened: OpenStore,
) -> None:
    changes, key = Changes(), ("acme", "doc")
    opened.store.listen(changes)
    await put(opened.writer, "doc")
    await put(opened.writer, "doc", "other")
    await opened.writer.set_readers(key, ANN, expected=Expected.ANYTHING)
    await opened.writer.set_readers(key, ANN, expected=Expected.ANYTHING)
    await opened.writer.remove(key, expected=Expected.ANYTHING)
    await put(opened.writer, "last")
    await until(lambda: ("acme", "last") in changes.keys)
    assert changes.keys == [key] * 4 + [("acme", "last")]


class LossyNetwork(PostgresNetwork):
    """A network that loses only the notifications of changes."""

    def message(self, kind: bytes, body: bytes, sink: asyncio.StreamWriter) -> bytes | None:
        return None if b"mcp_tools_proxy_documents\x00[" in body else body


async def test_a_lost_notification_is_found_in_the_log_of_changes(
    postgres: PostgresDatabase,
) -> None:
    changes = Changes()
    writer = PostgresWriter(Database(postgres.url, timeout_s=BOUND_S))
    async with slow_network(postgres.server.port, kind=LossyNetwork) as network:
        url = postgres.server.url(GATEWAY, postgres.name, port=network.port)
        database = Database(url, timeout_s=BOUND_S)
        feed = ChangeFeed(database, stale_s=BOUND_S, beat_s=0.2, poll_s=0.4)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(feed.run())
            await until(lambda: feed.is_current)
            feed.add_listener(changes)
            await put(writer, "doc")
            await until(lambda: ("acme", "doc") in changes.keys)
            following.cancel()
        await database.close()
    await writer.close()


async def test_a_change_in_an_older_transaction_is_found_by_the_next_poll(
    postgres: PostgresDatabase,
) -> None:
    changes = Changes()
    async with slow_network(postgres.server.port, kind=LossyNetwork) as network:
        url = postgres.server.url(GATEWAY, postgres.name, port=network.port)
        database = Database(url, timeout_s=BOUND_S)
        feed = ChangeFeed(database, stale_s=BOUND_S, beat_s=0.1, poll_s=0.1)
        late = await asyncpg.connect(postgres.owner_url)
        transaction = late.transaction()
        await transaction.start()
        await late.execute(
            "INSERT INTO mcp_tools_proxy.documents (tenant_id, doc_id, version, title, tags, "
            "page_count, section_count, text_chars, has_chunks) "
            "VALUES ('acme', 'late', 'v', 't', '{}', 0, 0, 0, false)"
        )
        async with asyncio.TaskGroup() as group:
            following = group.create_task(feed.run())
            await until(lambda: feed.is_current)
            feed.add_listener(changes)
            for number in range(3):  # each is found by a separate poll
                writer = PostgresWriter(Database(postgres.url, timeout_s=BOUND_S))
                await put(writer, f"quick {number}")
                await writer.close()
                await until(lambda wanted=f"quick {number}": ("acme", wanted) in changes.keys)  # type: ignore[misc]
            await transaction.commit()
            await until(lambda: ("acme", "late") in changes.keys)
            following.cancel()
        await late.close()
        await database.close()


async def test_old_log_lines_are_removed_and_writers_do_not_wait_for_each_other(
    opened: OpenStore, postgres: PostgresDatabase
) -> None:
    owner = await asyncpg.connect(postgres.owner_url)
    await owner.execute(
        "INSERT INTO mcp_tools_proxy.changes (tenant_id, doc_id, made_at) "
        "VALUES ('acme', 'old', now() - interval '2 hours')"
    )
    async with owner.transaction():
        await owner.execute("SELECT * FROM mcp_tools_proxy.changes FOR UPDATE")
        await put(opened.writer, "first")
    await put(opened.writer, "second")
    left = await owner.fetch("SELECT doc_id FROM mcp_tools_proxy.changes ORDER BY doc_id")
    await owner.close()
    assert [row["doc_id"] for row in left] == ["first", "second"]


async def test_arbitrary_notifications_are_ignored(opened: OpenStore) -> None:
    """Every role of a database may notify every channel."""
    changes = Changes()
    opened.store.listen(changes)
    for number, text in enumerate(("", "{", "1", '["acme"]', "[1, 2]", "[null, {}]"), start=1):
        async with opened.database.transaction("") as connection:
            await connection.execute("SELECT pg_notify('mcp_tools_proxy_documents', $1)", text)
        await until(lambda wanted=number: changes.of_all >= wanted)  # type: ignore[misc]
    await opened.until_current()
    assert changes.keys == []
