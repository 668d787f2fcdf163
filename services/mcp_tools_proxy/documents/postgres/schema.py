"""PostgreSQL schema and gateway role: creation, migration and checks.

The role has only the privileges that the gateway needs, under row-level security.
"""

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from urllib.parse import unquote, urlsplit

import asyncpg
import structlog

from mcp_tools_proxy.documents.document_store import DatabaseProblem, WrongRole, fold_names
from mcp_tools_proxy.documents.postgres.database import FAILURES, connect, one_line_of
from mcp_tools_proxy.documents.postgres.rows import loaded, stored
from mcp_tools_proxy.domain.fast_dataclass import dataclass

LOCK = 0x6D63705F646F6373  # "mcp_docs": the advisory lock of migrations
CONNECT_TIMEOUT_S = 10.0
SCRAM_ROUNDS = 4096
"""As in PostgreSQL."""

_ROLE = """
SELECT current_user AS name, r.rolsuper, r.rolbypassrls, r.rolcreaterole,
    EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'mcp_tools_proxy' AND pg_has_role(r.oid, c.relowner, 'MEMBER')
    ) AS owns,
    EXISTS (SELECT FROM pg_namespace WHERE nspname = 'mcp_tools_proxy') AS has_schema,
    EXISTS (
        SELECT FROM pg_namespace n WHERE n.nspname = 'mcp_tools_proxy'
        AND has_schema_privilege(r.oid, n.oid, 'USAGE')
    ) AS may_use
FROM pg_roles r WHERE r.rolname = current_user
"""

GRANTS = (
    "give MCP_PROXY_DOCUMENTS_URL a role with LOGIN, USAGE on the schema mcp_tools_proxy, SELECT, "
    "INSERT, UPDATE, DELETE on its tables documents, pages, sections, chunks, versions, "
    "originals, vectors, logins and runs, SELECT, UPDATE, DELETE on sign_ins, SELECT on "
    "migrations, and EXECUTE on has_doc_id, changes_since, outdated_documents, add_sign_in, "
    "approvals_of and erase_ended_runs: documents migrate creates it"
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """Result of a migration: schema number before and after, and the gateway's role.

    ``created_role``: the role is new; an existing role only receives the grants.
    """

    before: int
    after: int
    role: str | None
    created_role: bool


async def migrate(owner_url: str, gateway_url: str | None) -> Migrated:
    """Migrate the schema to the newest version and grant its use to the role of ``gateway_url``.

    Runs in one transaction, one process at a time. Raises DatabaseProblem, also for a schema of a
    newer release.
    """
    try:
        connection = await connect(owner_url, timeout=CONNECT_TIMEOUT_S)
        try:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
                return await _migrate(connection, gateway_url)
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_S)
    except FAILURES as error:
        raise DatabaseProblem(f"the database cannot be migrated: {one_line_of(error)}") from error


def newest() -> int:
    """Return the number of this release's newest migration."""
    return max(_migrations())


async def _migrate(connection: asyncpg.Connection, gateway_url: str | None) -> Migrated:
    migrations = _migrations()
    if not await connection.fetchval("SELECT to_regnamespace('mcp_tools_proxy') IS NOT NULL"):
        await connection.execute("CREATE SCHEMA mcp_tools_proxy")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS mcp_tools_proxy.migrations "
        "(number integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    before = await connection.fetchval(
        "SELECT coalesce(max(number), 0) FROM mcp_tools_proxy.migrations"
    )
    if before > max(migrations):
        raise DatabaseProblem(
            f"the schema has number {before}, but this release supports at most "
            f"{max(migrations)}: use the release that created it, or a newer one"
        )
    for number in range(before + 1, max(migrations) + 1):
        await connection.execute(migrations[number])
        await connection.execute(
            "INSERT INTO mcp_tools_proxy.migrations (number) VALUES ($1)", number
        )
    await _fold_names(connection)
    role, created_role = None, False
    if gateway_url is not None:
        role, password = _role_of(gateway_url)
        created_role = await _create_role(connection, role, password)
        grants = _text("grants.sql").replace("{{gateway}}", await _quoted(connection, role))
        await connection.execute(grants)
    return Migrated(before=before, after=max(migrations), role=role, created_role=created_role)


async def _fold_names(connection: asyncpg.Connection) -> None:
    """Fold the names in rows from before migration 0002; PostgreSQL folds by its own locale.

    Replicas are not notified: their cached data does not change.
    """
    table = "mcp_tools_proxy.documents"
    rows = await connection.fetch(
        f"SELECT tenant_id, doc_id, title, tags FROM {table} WHERE folded = '{{}}'"
    )
    if not rows:
        return
    await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER record_change")
    await connection.executemany(
        f"UPDATE {table} SET folded = $3 WHERE tenant_id = $1 AND doc_id = $2",
        [
            (
                row["tenant_id"],
                row["doc_id"],
                list(map(stored, _folded_names(row))),
            )
            for row in rows
        ],
    )
    await connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER record_change")


def _folded_names(row: asyncpg.Record) -> tuple[str, ...]:
    return fold_names(loaded(row["title"]), loaded(row["doc_id"]), [*map(loaded, row["tags"])])


async def _create_role(connection: asyncpg.Connection, role: str, password: str | None) -> bool:
    """Create the gateway's role unless it exists. Raises DatabaseProblem if it is too powerful."""
    exists = await connection.fetchrow(
        "SELECT rolsuper OR rolbypassrls AS is_mighty, rolname = current_user AS is_owner "
        "FROM pg_roles WHERE rolname = $1",
        role,
    )
    if exists is not None:
        if exists["is_mighty"] or exists["is_owner"]:
            raise DatabaseProblem(
                f'the role "{role}" of MCP_PROXY_DOCUMENTS_URL owns the schema, or may bypass '
                "row-level security: name another role there, and migrate creates it"
            )
        return False
    if password is None:
        raise DatabaseProblem(
            f'the role "{role}" of MCP_PROXY_DOCUMENTS_URL does not exist, and the URL has no '
            "password to create it with"
        )
    name, verifier = await _quoted(connection, role), _scram_verifier(password)
    await connection.execute(
        f"CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS "
        f"PASSWORD '{verifier}'"
    )
    return True


async def _quoted(connection: asyncpg.Connection, name: str) -> str:
    return str(await connection.fetchval("SELECT quote_ident($1)", name))


def _role_of(url: str) -> tuple[str, str | None]:
    """Return role and password of a URL. Raises DatabaseProblem."""
    with suppress(ValueError):  # "[" in a password looks like an IPv6 address
        parts = urlsplit(url)
        if parts.username:
            password = None if parts.password is None else unquote(parts.password)
            return unquote(parts.username), password
    raise DatabaseProblem("MCP_PROXY_DOCUMENTS_URL names no role: postgresql://role:password@…")


def _scram_verifier(password: str) -> str:
    """Return a password's SCRAM verifier, which keeps the password out of the statement log."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, SCRAM_ROUNDS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    encoded = [base64.b64encode(it).decode() for it in (salt, stored_key, server_key)]
    return f"SCRAM-SHA-256${SCRAM_ROUNDS}:{encoded[0]}${encoded[1]}:{encoded[2]}"


def _migrations() -> Mapping[int, str]:
    folder = resources.files(__package__) / "migrations"
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {int(file.name.partition("_")[0]): file.read_text(encoding="utf-8") for file in files}


def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


async def check_role(connection: asyncpg.Connection) -> asyncpg.Record:
    """Check that the role owns nothing and row-level security applies. Raises WrongRole."""
    role = await connection.fetchrow(_ROLE)
    if role is None:
        raise WrongRole(f"the role of the connection is not known: {GRANTS}")
    flaws = (
        ("is a superuser", role["rolsuper"]),
        ("has BYPASSRLS", role["rolbypassrls"]),
        ("has CREATEROLE", role["rolcreaterole"]),  # before PostgreSQL 16 it could join the owner
        ("owns the documents, or is a member of their owner", role["owns"]),
    )
    for flaw, is_there in flaws:
        if is_there:
            raise WrongRole(
                f'the role "{role["name"]}" {flaw}, so row-level security would not restrict it: '
                f"{GRANTS}"
            )
    return role


async def check_role_of(url: str, *, timeout_s: float) -> None:
    """Check the role of a URL before the start. Raises WrongRole.

    An unreachable database is checked later.
    """
    with suppress(*FAILURES):
        async with asyncio.timeout(timeout_s):
            connection = await connect(url)
            try:
                await check_role(connection)
            finally:
                connection.terminate()


async def prepare_database(url: str, owner_url: str | None, *, timeout_s: float) -> None:
    """Migrate as the owner, if configured, and check the gateway's role. Raises WrongRole.

    A database that is unreachable or of a newer release does not prevent the start.
    """
    if owner_url is not None:
        try:
            migrated = await migrate(owner_url, url)
        except DatabaseProblem as error:
            log.warning("documents.not_migrated", reason=str(error))
        else:
            if migrated.before != migrated.after:
                log.info("documents.migrated", before=migrated.before, after=migrated.after)
    await check_role_of(url, timeout_s=timeout_s)


async def check_connection(connection: asyncpg.Connection) -> None:
    """Check role and schema. Raises WrongRole, DatabaseProblem."""
    role = await check_role(connection)
    if not role["may_use"] and role["has_schema"]:
        raise WrongRole(f'the role "{role["name"]}" may not use the schema: {GRANTS}')
    if not role["has_schema"]:
        raise DatabaseProblem(
            "the database lacks the schema mcp_tools_proxy: run mcp-tools-proxy documents migrate"
        )
    number = await connection.fetchval(
        "SELECT coalesce(max(number), 0) FROM mcp_tools_proxy.migrations"
    )
    if number != newest():
        advice = (
            "run mcp-tools-proxy documents migrate"
            if number < newest()
            else "use the release that created it, or a newer one"
        )
        raise DatabaseProblem(
            f"the schema has number {number}, but this release requires {newest()}: {advice}"
        )
