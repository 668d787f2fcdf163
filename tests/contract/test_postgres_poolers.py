"""PostgreSQL behind a pooler such as PgBouncer that assigns a connection per transaction."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.database import Database
from tests.contract.slow_network import PostgresNetwork, slow_network
from tests.support.bounds import until
from tests.support.builders import make_document
from tests.support.postgres_databases import Changes, OpenStore, PostgresDatabase
from tests.support.postgres_server import GATEWAY

TIMEOUT_S = 20.0
OF_KEPT_STATEMENTS = "SELECT count(*) FROM pg_prepared_statements"


class SessionPooler(PostgresNetwork):
    """A pooler that assigns a connection per session and has separate process ids."""

    def message(self, kind: bytes, body: bytes, sink: asyncio.StreamWriter) -> bytes | None:
        return struct.pack("!I", 1) + body[4:] if kind == b"K" else body


class TransactionPooler(SessionPooler):
    """A pooler that sends clients nothing between transactions, and so no notifications."""

    def __init__(self, target_port: int, *, delay_s: float) -> None:
        super().__init__(target_port, delay_s=delay_s)
        self._idle: set[asyncio.StreamWriter] = set()

    def message(self, kind: bytes, body: bytes, sink: asyncio.StreamWriter) -> bytes | None:
        if kind == b"A":
            return None if sink in self._idle else body
        if kind == b"Z":
            self._idle.add(sink)
        else:
            self._idle.discard(sink)
        return super().message(kind, body, sink)


@pytest.fixture(params=[SessionPooler, TransactionPooler])
async def pooled(
    request: pytest.FixtureRequest, postgres: PostgresDatabase
) -> AsyncIterator[OpenStore]:
    async with slow_network(postgres.server.port, kind=request.param) as network:
        url = postgres.server.url(GATEWAY, postgres.name, port=network.port)
        async with OpenStore(postgres, url=url, timeout_s=TIMEOUT_S) as opened:
            await opened.until_current()
            yield opened


async def kept_statements(database: Database) -> int:
    """Return how many statements a connection keeps after two similar transactions."""
    for _ in range(2):
        async with database.transaction("acme") as connection:
            kept = await connection.fetchval(OF_KEPT_STATEMENTS)
    return int(kept)


async def test_statements_are_not_prepared_by_name(pooled: OpenStore) -> None:
    """The next transaction may use another connection, where the name is unknown or different."""
    assert await kept_statements(pooled.database) == 0


async def test_statements_are_prepared_without_a_pooler(opened: OpenStore) -> None:
    assert await kept_statements(opened.database) > 0


@pytest.mark.parametrize("pooled", [TransactionPooler], indirect=True)
async def test_a_notification_received_with_an_answer_does_not_prove_that_others_arrive(
    pooled: OpenStore,
) -> None:
    """A connection receives its own notifications but not those of other replicas."""
    await until(lambda: pooled.feed.state.get("listen") is False)


@pytest.mark.parametrize("pooled", [SessionPooler], indirect=True)
async def test_a_session_pooler_passes_notifications(
    pooled: OpenStore,
) -> None:
    await until(lambda: pooled.feed.state.get("listen") is True)


async def test_changes_are_found_behind_every_pooler(pooled: OpenStore) -> None:
    changes = Changes()
    pooled.store.listen(changes)
    document = make_document(tenant_id="acme", doc_id="new", pages=("text",))
    await pooled.writer.put(document, expected=Expected.NOTHING, keep_readers=False)
    await until(lambda: ("acme", "new") in changes.keys)
    found = await pooled.store.read(("acme", "new"), Wanted(pages=(1, 1)))
    assert found is not None
    assert found.pages == {1: "text"}
