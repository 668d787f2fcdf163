import asyncpg
import pytest

from mcp_tools_proxy.documents.document_store import WrongRole
from mcp_tools_proxy.documents.document_writer import Expected, TenantNeeded
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.schema import check_role_of, migrate
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases, OpenStore, PostgresDatabase
from tests.support.postgres_server import GATEWAY, OWNER

TABLES = (
    *("documents", "pages", "sections", "chunks", "versions", "originals", "vectors"),
    *("logins", "sign_ins", "runs"),
)
ACME = make_document(tenant_id="acme", pages=("of acme",))
GLOBEX = make_document(tenant_id="globex", doc_id="secret", pages=("of globex",))
GET_TENANT = "SELECT current_setting('mcp_tools_proxy.tenant', true)"
SET_TENANT = "SELECT set_config('mcp_tools_proxy.tenant', $1, true)"


@pytest.fixture
async def filled(opened: OpenStore) -> OpenStore:
    for document in (ACME, GLOBEX):
        await opened.writer.put(document, expected=Expected.NOTHING, keep_readers=False)
    return opened


async def rows(
    connection: asyncpg.Connection, table: str, tenant_id: str | None
) -> list[asyncpg.Record]:
    """Return the rows of a statement without a WHERE clause."""
    async with connection.transaction():
        if tenant_id is not None:
            await connection.execute(SET_TENANT, tenant_id)
        return list(await connection.fetch(f"SELECT * FROM mcp_tools_proxy.{table}"))  # noqa: S608


async def as_tenant(connection: asyncpg.Connection, tenant_id: str, statement: str) -> str:
    async with connection.transaction():
        await connection.execute(SET_TENANT, tenant_id)
        return str(await connection.execute(statement))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("table", ["documents", "pages"])
async def test_a_statement_without_where_returns_only_the_tenants_rows(
    postgres: PostgresDatabase, table: str
) -> None:
    connection = await asyncpg.connect(postgres.url)
    found = {
        tenant: [row["tenant_id"] for row in await rows(connection, table, tenant)]
        for tenant in ("acme", "globex", "other", "", None)
    }
    await connection.close()
    assert found == {"acme": ["acme"], "globex": ["globex"], "other": [], "": [], None: []}


@pytest.mark.usefixtures("filled")
async def test_transaction_settings_do_not_leak_to_the_next_transaction(
    postgres: PostgresDatabase,
) -> None:
    connection = await asyncpg.connect(postgres.url)
    assert len(await rows(connection, "documents", "acme")) == 1
    assert await rows(connection, "documents", None) == []
    await connection.close()


async def test_a_returned_connection_has_lost_its_tenant(filled: OpenStore) -> None:
    """After a commit, a failure, and a failed statement."""
    backends, left, rows_left = [], [], []

    async def record_leftovers() -> None:
        pool = await filled.database._open_pool()
        async with pool.acquire() as connection:
            backends.append(connection.get_server_pid())
            left.append(await connection.fetchval(GET_TENANT))
            rows_left.extend(await connection.fetch("SELECT * FROM mcp_tools_proxy.documents"))

    async with filled.database.transaction("acme") as connection:
        assert await connection.fetchval(GET_TENANT) == "acme"
    await record_leftovers()
    with pytest.raises(RuntimeError, match="on purpose"):
        async with filled.database.transaction("acme"):
            raise RuntimeError("on purpose")
    await record_leftovers()
    with pytest.raises(DocumentsUnavailable):
        async with filled.database.transaction("acme") as connection:
            await connection.execute("SELECT 1 / 0")
    await record_leftovers()
    assert len(set(backends)) == 1
    assert [tenant or "" for tenant in left] == [""] * 3
    assert rows_left == []


@pytest.mark.usefixtures("filled")
async def test_a_tenant_cannot_write_for_another(postgres: PostgresDatabase) -> None:
    connection = await asyncpg.connect(postgres.url)
    for statement in (
        "INSERT INTO mcp_tools_proxy.pages VALUES ('globex', 'secret', 2, 'forged')",
        "UPDATE mcp_tools_proxy.documents SET tenant_id = 'globex'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await as_tenant(connection, "acme", statement)
    removed = await as_tenant(connection, "acme", "DELETE FROM mcp_tools_proxy.documents")
    assert removed == "DELETE 1"
    assert len(await rows(connection, "documents", "globex")) == 1
    await connection.close()


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("statement", [
    "SELECT * FROM mcp_tools_proxy.changes",
    "ALTER TABLE mcp_tools_proxy.documents DISABLE ROW LEVEL SECURITY",
    "DROP POLICY own_tenant ON mcp_tools_proxy.documents",
    "SET ROLE documents_owner",
    "CREATE TABLE mcp_tools_proxy.more (a int)",
    "INSERT INTO mcp_tools_proxy.migrations VALUES (99)",
])  # fmt: skip
async def test_the_gateways_role_cannot_bypass_row_level_security(
    postgres: PostgresDatabase, statement: str
) -> None:
    connection = await asyncpg.connect(postgres.url)
    with pytest.raises(asyncpg.PostgresError, match=r"permission denied|must be owner"):
        await connection.execute(statement)
    await connection.close()


async def test_every_table_of_documents_forces_row_level_security(
    postgres: PostgresDatabase,
) -> None:
    connection = await asyncpg.connect(postgres.owner_url)
    found = await connection.fetch(
        "SELECT relname, relrowsecurity AND relforcerowsecurity AS is_forced FROM pg_class "
        "WHERE relnamespace = 'mcp_tools_proxy'::regnamespace AND relkind = 'r'"
    )
    await connection.close()
    assert {row["relname"]: row["is_forced"] for row in found} == {
        **dict.fromkeys(TABLES, True),
        "changes": False,  # which the gateway's role cannot read
        "migrations": False,
    }


async def new_role(postgres: PostgresDatabase, options: str) -> str:
    """Create a role; return the URL of the database for it."""
    name = f"role_{postgres.name}_{abs(hash(options))}"
    connection = await asyncpg.connect(postgres.owner_url)
    await connection.execute(f"CREATE ROLE {name} LOGIN {options} PASSWORD '{'p@ss w:rd/%'}'")
    await connection.close()
    return postgres.server.url(name, postgres.name)


@pytest.mark.parametrize(
    ("options", "flaw"),
    [
        ("SUPERUSER", "is a superuser"),
        ("BYPASSRLS", "has BYPASSRLS"),
        ("CREATEROLE", "has CREATEROLE"),
        (f"IN ROLE {OWNER}", "is a member"),
    ],
)
async def test_a_role_exempt_from_row_level_security_is_refused(
    postgres: PostgresDatabase, options: str, flaw: str
) -> None:
    url = await new_role(postgres, options)
    with pytest.raises(WrongRole, match=flaw) as refused:
        await check_role_of(url, timeout_s=BOUND_S)
    assert "documents migrate creates it" in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_the_role_created_by_migrate_is_accepted(postgres: PostgresDatabase) -> None:
    await check_role_of(postgres.url, timeout_s=BOUND_S)


async def test_an_unavailable_database_does_not_count_as_a_wrong_role(
    postgres: PostgresDatabase,
) -> None:
    url = postgres.server.url(GATEWAY, postgres.name, port=1)
    await check_role_of(url, timeout_s=BOUND_S)


async def test_a_role_without_grants_makes_the_store_unusable_with_the_missing_grants_named(
    postgres: PostgresDatabase,
) -> None:
    url = await new_role(postgres, "")
    async with OpenStore(postgres, url=url) as opened:
        await until(lambda: "may not use the schema" in str(opened.feed.state.get("reason")))


async def test_an_owner_without_superuser_rights_migrates_and_sees_all_tenants(
    databases: Databases,
) -> None:
    database = await databases.new(is_migrated=False)
    owner_url = await new_role(database, "CREATEROLE")
    connection = await asyncpg.connect(database.owner_url)
    owner = owner_url.split("//")[1].split(":")[0]
    await connection.execute(f"GRANT CREATE ON DATABASE {database.name} TO {owner}")
    await connection.close()
    gateway = f"gateway_{database.name}"
    migrated = await migrate(owner_url, database.server.url(gateway, database.name))
    assert (migrated.role, migrated.created_role) == (gateway, True)
    async with OpenStore(database, url=database.server.url(gateway, database.name)) as opened:
        await opened.until_current()
        owners = PostgresWriter(Database(owner_url, timeout_s=BOUND_S))
        gateways = PostgresWriter(opened.database)
        for document in (ACME, GLOBEX):
            await gateways.put(document, expected=Expected.NOTHING, keep_readers=False)
        assert [head.tenant_id for head in await owners.list_heads(None, limit=9)] == [
            "acme",
            "globex",
        ]
        assert await opened.store.has_doc_id("secret")
        with pytest.raises(TenantNeeded, match="MCP_PROXY_DOCUMENTS_OWNER_URL"):
            await gateways.list_heads(None, limit=9)
        await owners.close()
