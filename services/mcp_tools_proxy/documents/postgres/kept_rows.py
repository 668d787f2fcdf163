"""Older versions, with only their content, and original PDFs in PostgreSQL, one row each."""

from collections.abc import Sequence

from mcp_tools_proxy.documents.document_store import Key, Reading
from mcp_tools_proxy.documents.postgres.database import Connection
from mcp_tools_proxy.documents.postgres.rows import (
    WHOLE,
    document_of_row,
    head_of_row,
    sought,
    stored,
)

_COPIED = (
    "version, title, tags, page_count, section_count, text_chars, has_chunks, language, ocr, "
    "text_format, date, metadata, untrusted, pages, sections, chunks"
)
_OF_DOCUMENT = "FROM mcp_tools_proxy.versions WHERE tenant_id = $1 AND doc_id = $2"
_READ = (
    f"SELECT {_COPIED}, NULL::text[] AS reader_users, NULL::text[] AS reader_roles, "
    "NULL::json AS source, NULL::timestamptz AS expires_at, '[]'::json AS warnings "
    f"{_OF_DOCUMENT} AND version = $3"
)
_LIST = f"SELECT version {_OF_DOCUMENT} ORDER BY replaced_at DESC"
_KEEP = f"""
INSERT INTO mcp_tools_proxy.versions (tenant_id, doc_id, {_COPIED}, replaced_at)
SELECT $1, $2, {_COPIED}, clock_timestamp() FROM ({WHOLE}) AS present
ON CONFLICT (tenant_id, doc_id, version) DO UPDATE SET replaced_at = excluded.replaced_at,
    untrusted = excluded.untrusted
"""
_REMOVE = f"""
DELETE {_OF_DOCUMENT} AND (
    version = $3 OR version NOT IN (
        SELECT version {_OF_DOCUMENT} AND version <> $3 ORDER BY replaced_at DESC LIMIT $4))
"""

_OF_VERSION = "FROM mcp_tools_proxy.originals WHERE tenant_id = $1 AND doc_id = $2 AND version = $3"

_KEEP_ORIGINAL = """
INSERT INTO mcp_tools_proxy.originals (tenant_id, doc_id, version, content, kept_at)
VALUES ($1, $2, $3, $4, clock_timestamp())
ON CONFLICT (tenant_id, doc_id) DO UPDATE SET version = excluded.version,
    content = excluded.content, kept_at = excluded.kept_at
"""

_REMOVE_OTHER_ORIGINAL = (
    "DELETE FROM mcp_tools_proxy.originals WHERE tenant_id = $1 AND doc_id = $2 AND version <> $3"
)


async def read_older(connection: Connection, key: Key, version: str) -> Reading | None:
    """Read an older version of a document; None if it is not kept."""
    row = await connection.fetchrow(_READ, *map(sought, key), version)
    if row is None:
        return None
    head = head_of_row(*key, row)
    return Reading(head=head, document=document_of_row(head, row))


async def list_older(connection: Connection, key: Key) -> Sequence[str]:
    """Return the older versions of a document, newest first."""
    return [row["version"] for row in await connection.fetch(_LIST, *map(sought, key))]


async def keep_present(connection: Connection, key: Key, *, version: str, older: int) -> None:
    """Keep the current version of a document before ``version`` replaces it.

    Older versions beyond the newest ``older`` are removed.
    """
    ids = tuple(map(stored, key))
    if older > 0:
        await connection.execute(_KEEP, *ids)
    await connection.execute(_REMOVE, *ids, version, older)


async def original_tag(connection: Connection, key: Key, version: str) -> str | None:
    """Return the time when a version's PDF was kept, as a tag, or None."""
    found = await connection.fetchval(f"SELECT kept_at {_OF_VERSION}", *map(sought, key), version)
    return None if found is None else str(found)


async def read_original(connection: Connection, key: Key, version: str) -> bytes | None:
    """Read the PDF of a version; None if none is kept."""
    found: bytes | None = await connection.fetchval(
        f"SELECT content {_OF_VERSION}", *map(sought, key), version
    )
    return found


async def keep_original(
    connection: Connection, key: Key, version: str, original: bytes | None
) -> None:
    """Keep the PDF of the written version and remove that of any other version."""
    ids = tuple(map(stored, key))
    if original is not None:
        await connection.execute(_KEEP_ORIGINAL, *ids, version, original)
    else:
        await connection.execute(_REMOVE_OTHER_ORIGINAL, *ids, version)
