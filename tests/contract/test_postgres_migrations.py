import asyncio
from importlib import resources

import asyncpg
import pytest

from mcp_tools_proxy.documents import postgres as postgres_package
from mcp_tools_proxy.documents.document_store import DatabaseProblem
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.schema import migrate, newest
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases, PostgresDatabase

DOCUMENT = make_document(tenant_id="acme", doc_id="kept")


@pytest.fixture
async def empty(databases: Databases) -> PostgresDatabase:
    return await databases.new(is_migrated=False)


def url_of_new_role(database: PostgresDatabase) -> str:
    """Return the URL of a role used only with this test's database."""
    return database.server.url(f"gateway_{database.name}", database.name)


async def query(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


async def pages_of_kept(writer: PostgresWriter) -> tuple[str, ...] | None:
    found = await writer.document(("acme", "kept"))
    return None if found is None else found.pages


async def has_schema(database: PostgresDatabase) -> bool:
    found = await query(
        database.owner_url, "SELECT to_regnamespace('mcp_tools_proxy') IS NOT NULL AS is_there"
    )
    return bool(found[0]["is_there"])


async def test_the_first_run_creates_the_schema_and_role_and_the_second_changes_nothing(
    empty: PostgresDatabase,
) -> None:
    url = url_of_new_role(empty)
    first, second = [await migrate(empty.owner_url, url) for _ in range(2)]
    assert (first.before, first.after, first.created_role) == (0, newest(), True)
    assert (second.before, second.after, second.created_role) == (newest(), newest(), False)


async def test_the_created_role_reads_and_writes(empty: PostgresDatabase) -> None:
    url = url_of_new_role(empty)
    await migrate(empty.owner_url, url)
    writer = PostgresWriter(Database(url, timeout_s=BOUND_S))
    await writer.put(DOCUMENT, expected=Expected.NOTHING, keep_readers=False)
    assert await pages_of_kept(writer) == DOCUMENT.pages
    await writer.close()


async def test_documents_older_than_lists_are_found_by_name(
    empty: PostgresDatabase,
) -> None:
    first = resources.files(postgres_package) / "migrations" / "0001_documents.sql"
    connection = await asyncpg.connect(empty.owner_url)
    await connection.execute("CREATE SCHEMA mcp_tools_proxy")
    await connection.execute(
        "CREATE TABLE mcp_tools_proxy.migrations "
        "(number integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now()); "
        "INSERT INTO mcp_tools_proxy.migrations (number) VALUES (1)"
    )
    await connection.execute(first.read_text())
    await connection.execute(
        "INSERT INTO mcp_tools_proxy.documents (tenant_id, doc_id, version, title, tags, "
        "page_count, section_count, text_chars, has_chunks) "
        "VALUES ('acme', 'Maß', '', 'GRÖSSE', '{VPN,b}', 1, 0, 0, false)"
    )
    await connection.close()
    await migrate(empty.owner_url, None)
    (row,) = await query(empty.owner_url, "SELECT folded FROM mcp_tools_proxy.documents")
    assert row["folded"] == ["grösse", "mass", "vpn", "b"]
    changes = await query(empty.owner_url, "SELECT count(*) AS n FROM mcp_tools_proxy.changes")
    assert changes[0]["n"] == 1


async def test_a_migration_keeps_existing_documents(postgres: PostgresDatabase) -> None:
    writer = PostgresWriter(Database(postgres.url, timeout_s=BOUND_S))
    await writer.put(DOCUMENT, expected=Expected.NOTHING, keep_readers=False)
    await migrate(postgres.owner_url, postgres.url)
    assert await pages_of_kept(writer) == DOCUMENT.pages
    await writer.close()


async def test_only_one_of_several_parallel_runs_migrates(empty: PostgresDatabase) -> None:
    url = url_of_new_role(empty)
    done = await asyncio.gather(*(migrate(empty.owner_url, url) for _ in range(4)))
    assert sorted(it.before for it in done) == [0, *[newest()] * 3]
    assert [it.created_role for it in done].count(True) == 1


async def test_the_password_of_an_existing_role_is_kept(empty: PostgresDatabase) -> None:
    url = url_of_new_role(empty)
    await migrate(empty.owner_url, url)
    other = url.replace("p%40ss", "changed")
    assert not (await migrate(empty.owner_url, other)).created_role
    assert len(await query(url, "SELECT 1")) == 1


async def test_a_newer_schema_is_refused_and_unchanged(postgres: PostgresDatabase) -> None:
    await query(postgres.owner_url, "INSERT INTO mcp_tools_proxy.migrations (number) VALUES (99)")
    with pytest.raises(DatabaseProblem, match="number 99, but this release supports") as refused:
        await migrate(postgres.owner_url, postgres.url)
    assert "\n" not in str(refused.value)
    numbers = await query(postgres.owner_url, "SELECT number FROM mcp_tools_proxy.migrations")
    assert sorted(row["number"] for row in numbers) == [*range(1, newest() + 1), 99]


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("documents_owner", "name another role"),
        ("nobody_yet", "has no password to create it with"),
        ("", "names no role"),
        ("[a:b", "names no role"),
    ],
)
async def test_a_migration_that_fails_at_its_end_leaves_no_changes(
    empty: PostgresDatabase, role: str, reason: str
) -> None:
    with pytest.raises(DatabaseProblem, match=reason):
        await migrate(empty.owner_url, f"postgresql://{role}@127.0.0.1/{empty.name}")
    assert not await has_schema(empty)


async def test_a_cancelled_migration_leaves_no_changes(empty: PostgresDatabase) -> None:
    blocking = await asyncpg.connect(empty.owner_url)
    role = f"gateway_{empty.name}"
    async with blocking.transaction():
        await blocking.execute(f"CREATE ROLE {role}")  # the last statement waits for it
        running = asyncio.ensure_future(migrate(empty.owner_url, url_of_new_role(empty)))
        while not await query(empty.owner_url, WAITING):  # noqa: ASYNC110 - asked over SQL
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await blocking.close()
    assert running.cancelled()
    assert not await has_schema(empty)


WAITING = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def test_an_owner_without_the_right_to_create_schemas_upgrades_its_schema(
    postgres: PostgresDatabase,
) -> None:
    owner = f"owner_{postgres.name}"
    await query(postgres.owner_url, f"CREATE ROLE {owner} LOGIN PASSWORD 'p@ss w:rd/%'")
    await query(postgres.owner_url, f"ALTER SCHEMA mcp_tools_proxy OWNER TO {owner}")
    tables = ("documents", "pages", "sections", "chunks", "versions", "originals", "vectors")
    for table in (*tables, "logins", "sign_ins", "runs", "changes", "migrations"):
        await query(postgres.owner_url, f"ALTER TABLE mcp_tools_proxy.{table} OWNER TO {owner}")
    documents = (
        *("has_doc_id(text)", "changes_since(text)", "record_change()"),
        *("outdated_documents(json, integer)", "erase_ended_runs()"),
        "approvals_of(text, integer)",
    )
    for function in (*documents, "add_sign_in(text, text, bytea, double precision, bigint, text)"):
        await query(
            postgres.owner_url, f"ALTER FUNCTION mcp_tools_proxy.{function} OWNER TO {owner}"
        )
    done = await migrate(postgres.server.url(owner, postgres.name), postgres.url)
    assert (done.before, done.after) == (newest(), newest())


@pytest.mark.parametrize("password", ["secret/word", "secret?word", "[secret"])
async def test_an_unencoded_url_is_refused_without_showing_its_password(password: str) -> None:
    with pytest.raises(DatabaseProblem, match="percent-encode") as refused:
        await migrate(f"postgresql://owner:{password}@127.0.0.1/documents", None)
    assert "secret" not in str(refused.value)


async def test_an_unavailable_database_is_reported_in_one_line(empty: PostgresDatabase) -> None:
    url = empty.server.url("owner", empty.name, port=1)
    with pytest.raises(DatabaseProblem, match="cannot be migrated") as refused:
        await migrate(url, None)
    assert "\n" not in str(refused.value)


def test_migrations_are_numbered_without_gaps() -> None:
    folder = resources.files(postgres_package) / "migrations"
    files = sorted(it.name for it in folder.iterdir())
    assert [int(name.partition("_")[0]) for name in files] == list(range(1, newest() + 1))
