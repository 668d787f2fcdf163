"""Checks that the gateway's role may do what it needs, and that row-level security holds it."""

import asyncio
from contextlib import suppress

import asyncpg
import structlog

from mcp_tools_proxy.documents.postgres.database import FAILURES, connect
from mcp_tools_proxy.documents.postgres.errors import DatabaseProblem, WrongRole
from mcp_tools_proxy.documents.postgres.migrate import migrate, newest

log = structlog.get_logger()

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
    "originals, vectors and logins, SELECT, UPDATE, DELETE on sign_ins, SELECT on migrations, and "
    "EXECUTE on has_doc_id, changes_since and add_sign_in: documents migrate creates it"
)


async def check_role(connection: asyncpg.Connection) -> asyncpg.Record:
    """Check that the role owns nothing, and is held by row-level security. Raises WrongRole."""
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

    A database that cannot be reached is no reason not to start: it is checked once it can be.
    """
    with suppress(*FAILURES):
        async with asyncio.timeout(timeout_s):
            connection = await connect(url)
            try:
                await check_role(connection)
            finally:
                connection.terminate()


async def prepare_database(url: str, owner_url: str | None, *, timeout_s: float) -> None:
    """Migrate as the owner, if there is one, and check the role of the gateway.

    Raises WrongRole. A database that is away, or of a newer release, does not keep the gateway from
    starting: it serves everything else.
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
