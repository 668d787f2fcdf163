"""Older versions in PostgreSQL: each is one row with a whole document but for its readers."""

from collections.abc import Sequence

from mcp_tools_proxy.documents.document_store import Key, Reading
from mcp_tools_proxy.documents.postgres.database import Connection
from mcp_tools_proxy.documents.postgres.rows import (
    document_of,
    head_of_row,
    sections_of,
    sought,
    stored,
)
from mcp_tools_proxy.documents.postgres.statements import WHOLE

_COPIED = (
    "version, title, tags, page_count, section_count, text_chars, has_chunks, language, ocr, "
    "pages, sections, chunks"
)
_OF_DOCUMENT = "FROM mcp_tools_proxy.versions WHERE tenant_id = $1 AND doc_id = $2"
_READ = (
    f"SELECT {_COPIED}, NULL::text[] AS reader_users, NULL::text[] AS reader_roles "
    f"{_OF_DOCUMENT} AND version = $3"
)
_LIST = f"SELECT version {_OF_DOCUMENT} ORDER BY replaced_at DESC"
_KEEP = f"""
INSERT INTO mcp_tools_proxy.versions (tenant_id, doc_id, {_COPIED}, replaced_at)
SELECT $1, $2, {_COPIED}, clock_timestamp() FROM ({WHOLE}) AS present
ON CONFLICT (tenant_id, doc_id, version) DO UPDATE SET replaced_at = excluded.replaced_at
"""
_REMOVE = f"""
DELETE {_OF_DOCUMENT} AND (
    version = $3 OR version NOT IN (
        SELECT version {_OF_DOCUMENT} AND version <> $3 ORDER BY replaced_at DESC LIMIT $4))
"""


async def read_older(connection: Connection, key: Key, version: str) -> Reading | None:
    """Read an older version of a document; None when it is not kept."""
    row = await connection.fetchrow(_READ, *map(sought, key), version)
    if row is None:
        return None
    head = head_of_row(*key, row)
    sections = sections_of(row["sections"])
    document = document_of(
        head, row["pages"], sections, row["chunks"], has_chunks=row["has_chunks"]
    )
    return Reading(head=head, document=document)


async def list_older(connection: Connection, key: Key) -> Sequence[str]:
    """Return the older versions of a document, the newest first."""
    return [row["version"] for row in await connection.fetch(_LIST, *map(sought, key))]


async def keep_present(connection: Connection, key: Key, *, version: str, older: int) -> None:
    """Keep the present version of a document, which ``version`` is about to replace.

    Of those before it as many stay as make ``older`` with it, the newest ones.
    """
    ids = tuple(map(stored, key))
    if older > 0:
        await connection.execute(_KEEP, *ids)
    await connection.execute(_REMOVE, *ids, version, older)
