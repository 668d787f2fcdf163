from collections.abc import AsyncIterator

import asyncpg
import pytest

from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.storage.logins.postgres_logins import PostgresLogins
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import PostgresDatabase
from tests.support.stored_logins import (
    ACME,
    ANA,
    BINDING,
    DEPLOYMENT,
    GLOBEX,
    SEALER,
    make_login,
)

SET = "SELECT set_config('mcp_tools_proxy.' || $1, $2, true)"
INSERT = """
INSERT INTO mcp_tools_proxy.logins (tenant_id, owner_key, owner, binding, sealed, version)
VALUES ('{}', 'forged', '[]', '[]', 'forged', 'forged')
"""


@pytest.fixture
async def logins(postgres: PostgresDatabase) -> AsyncIterator[PostgresLogins]:
    database = Database(postgres.url, timeout_s=BOUND_S)
    yield PostgresLogins(database)
    await database.close()


@pytest.fixture
async def gateway(postgres: PostgresDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres.url)
    yield connection
    await connection.close()


@pytest.fixture
async def owner(postgres: PostgresDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres.owner_url)
    yield connection
    await connection.close()


async def run(connection: asyncpg.Connection, statement: str, **settings: str) -> list[object]:
    """Return the first column of a statement's result in a transaction with settings."""
    async with connection.transaction():
        for name, value in settings.items():
            await connection.execute(SET, name, value)
        return [row[0] for row in await connection.fetch(statement)]


SEEN = "SELECT tenant_id FROM mcp_tools_proxy.logins ORDER BY tenant_id"


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({}, []),
        ({"tenant": ""}, []),
        ({"tenant": "acme"}, ["acme", "acme"]),
        ({"tenant": "globex"}, ["globex"]),
        ({"tenant": "initech"}, []),
        ({"tenant": "", "deployment_logins": "on"}, [""]),
        ({"deployment_logins": "on"}, [""]),
        ({"deployment_logins": "off"}, []),
        ({"tenant": "acme", "deployment_logins": "on"}, ["acme", "acme"]),
    ],
)
async def test_a_transaction_sees_only_its_tenants_logins(
    logins: PostgresLogins, gateway: asyncpg.Connection, settings: dict[str, str], seen: list[str]
) -> None:
    for owner in (ANA, ACME, GLOBEX, DEPLOYMENT):
        await logins.put(owner, BINDING, b"one")
    assert await run(gateway, SEEN, **settings) == seen
    assert await run(gateway, SEEN) == []


@pytest.mark.parametrize(
    ("settings", "tenant_id"),
    [
        ({}, ""),
        ({}, "acme"),
        ({"tenant": "acme"}, "globex"),
        ({"tenant": "acme"}, ""),
        ({"tenant": "acme", "deployment_logins": "on"}, ""),
        ({"deployment_logins": "on"}, "acme"),
    ],
)
async def test_a_transaction_writes_no_login_of_another_tenant(
    gateway: asyncpg.Connection, settings: dict[str, str], tenant_id: str
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await run(gateway, INSERT.format(tenant_id), **settings)


async def test_a_tenant_cannot_move_a_login_to_the_deployment(
    logins: PostgresLogins, gateway: asyncpg.Connection
) -> None:
    await logins.put(ACME, BINDING, b"one")
    for tenant_id in ("", "globex"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await run(
                gateway,
                f"UPDATE mcp_tools_proxy.logins SET tenant_id = '{tenant_id}'",  # noqa: S608
                tenant="acme",
            )


async def test_the_database_contains_no_part_of_a_token(
    logins: PostgresLogins, owner: asyncpg.Connection
) -> None:
    await logins.put(ANA, BINDING, SEALER.seal(make_login()))
    (row,) = await owner.fetch("SELECT * FROM mcp_tools_proxy.logins")
    values = " ".join(map(repr, row.values()))
    assert "gateway" in values  # the client is not encrypted
    assert [it for it in ("access-1", "refresh-1", "secret-1", "ana@example") if it in values] == []


async def test_a_login_in_another_owners_row_cannot_be_opened(
    logins: PostgresLogins, owner: asyncpg.Connection
) -> None:
    """Write access to the database does not allow moving a login to another owner."""
    bob = LoginOwner(
        server_id="wiki",
        login_for=ANA.login_for,
        tenant_id="acme",
        user_id="bob",
        user_issuer=ANA.user_issuer,
    )
    await logins.put(ANA, BINDING, SEALER.seal(make_login()))
    await logins.put(bob, BINDING, SEALER.seal(make_login(bob, access_token="of bob")))
    await owner.execute(
        "UPDATE mcp_tools_proxy.logins l SET owner = o.owner, sealed = o.sealed, "
        "binding = o.binding, version = o.version FROM mcp_tools_proxy.logins o "
        "WHERE o.owner_key <> l.owner_key"
    )
    for user in (ANA, bob):
        found = await logins.find(user)
        assert found is not None
        assert found.owner == user
        assert SEALER.open(found.sealed, found.owner, found.binding) is None


@pytest.mark.parametrize("tenant_owner", [ANA, DEPLOYMENT], ids=["tenant", "deployment"])
async def test_a_lease_of_a_lost_replica_expires_by_the_databases_clock(
    logins: PostgresLogins, owner: asyncpg.Connection, tenant_owner: LoginOwner
) -> None:
    stored = await logins.put(tenant_owner, BINDING, b"one")
    await owner.execute(
        "UPDATE mcp_tools_proxy.logins SET lease_holder = 'lost', "
        "leased_until = clock_timestamp() + interval '1 hour'"
    )
    with pytest.raises(LoginsUnavailable, match="being renewed"):
        async with logins.lease(tenant_owner, wait_s=0):
            pytest.fail("two hold the lease")
    await owner.execute("UPDATE mcp_tools_proxy.logins SET leased_until = clock_timestamp()")
    async with logins.lease(tenant_owner, wait_s=0) as leased:
        assert leased == stored


async def test_a_lease_lasts_thirty_seconds_without_an_open_transaction(
    logins: PostgresLogins, owner: asyncpg.Connection
) -> None:
    await logins.put(ANA, BINDING, b"one")
    before = await owner.fetchval("SELECT clock_timestamp()")
    async with logins.lease(ANA):
        until, after = await owner.fetchrow(
            "SELECT leased_until, clock_timestamp() FROM mcp_tools_proxy.logins"
        ) or (None, None)
        open_ones = await owner.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = "
            "'client backend'"
        )
    interval = await owner.fetchval("SELECT interval '30 s'")
    assert before + interval <= until <= after + interval
    assert open_ones == 0


async def test_a_late_holder_does_not_end_the_next_lease(
    logins: PostgresLogins, owner: asyncpg.Connection
) -> None:
    await logins.put(ANA, BINDING, b"one")
    async with logins.lease(ANA):
        await owner.execute("UPDATE mcp_tools_proxy.logins SET lease_holder = 'next'")
    assert await owner.fetchval("SELECT lease_holder FROM mcp_tools_proxy.logins") == "next"


async def test_a_new_sign_in_keeps_the_lease(
    logins: PostgresLogins, owner: asyncpg.Connection
) -> None:
    await logins.put(ANA, BINDING, b"one")
    async with logins.lease(ANA):
        await logins.put(ANA, BINDING, b"two")
        assert await owner.fetchval("SELECT lease_holder FROM mcp_tools_proxy.logins") is not None
    assert await owner.fetchval("SELECT lease_holder FROM mcp_tools_proxy.logins") is None


async def test_an_unavailable_database_is_a_temporary_error(
    postgres: PostgresDatabase,
) -> None:
    url = postgres.server.url("gateway", postgres.name, port=1)
    database = Database(url, timeout_s=BOUND_S)
    logins = PostgresLogins(database)
    for attempt in (logins.find(ANA), logins.put(ANA, BINDING, b"one"), logins.owners("")):
        with pytest.raises(LoginsUnavailable, match="cannot be used now") as refused:
            await attempt
        assert (refused.value.code, refused.value.retryable) == ("SERVER_UNAVAILABLE", True)
        assert refused.value.reason
    await database.close()


@pytest.mark.parametrize("column", ["binding", "owner"])
async def test_a_row_of_a_newer_release_is_an_error_and_is_kept(
    logins: PostgresLogins, owner: asyncpg.Connection, column: str
) -> None:
    await logins.put(ANA, BINDING, b"one")
    await owner.execute(f"""UPDATE mcp_tools_proxy.logins SET {column} = '["a","b"]'""")  # noqa: S608
    attempt = logins.find(ANA) if column == "binding" else logins.owners("acme")
    with pytest.raises(LoginsUnavailable) as refused:
        await attempt
    assert "damaged, or was written by a newer release" in str(refused.value.reason)
    assert await owner.fetchval("SELECT count(*) FROM mcp_tools_proxy.logins") == 1
