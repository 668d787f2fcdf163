"""The PDFs that documents in PostgreSQL were imported from, where they are kept: one row each."""

from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.postgres.database import Connection
from mcp_tools_proxy.documents.postgres.rows import sought, stored

_OF_VERSION = "FROM mcp_tools_proxy.originals WHERE tenant_id = $1 AND doc_id = $2 AND version = $3"
_KEEP = """
INSERT INTO mcp_tools_proxy.originals (tenant_id, doc_id, version, content, kept_at)
VALUES ($1, $2, $3, $4, clock_timestamp())
ON CONFLICT (tenant_id, doc_id) DO UPDATE SET version = excluded.version,
    content = excluded.content, kept_at = excluded.kept_at
"""
_REMOVE_OTHER = (
    "DELETE FROM mcp_tools_proxy.originals WHERE tenant_id = $1 AND doc_id = $2 AND version <> $3"
)


async def original_tag(connection: Connection, key: Key, version: str) -> str | None:
    """Return when the PDF of a version was kept; None when none is."""
    found = await connection.fetchval(f"SELECT kept_at {_OF_VERSION}", *map(sought, key), version)
    return None if found is None else str(found)


async def read_original(connection: Connection, key: Key, version: str) -> bytes | None:
    """Read the PDF of a version; None when none is kept."""
    found: bytes | None = await connection.fetchval(
        f"SELECT content {_OF_VERSION}", *map(sought, key), version
    )
    return found


async def keep_original(
    connection: Connection, key: Key, version: str, original: bytes | None
) -> None:
    """Keep the PDF of the version that was written, and none of another version."""
    ids = tuple(map(stored, key))
    if original is not None:
        await connection.execute(_KEEP, *ids, version, original)
    else:
        await connection.execute(_REMOVE_OTHER, *ids, version)
