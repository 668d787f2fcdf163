"""Vectors of documents in PostgreSQL: one row for each document, removed with it."""

from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.embeddings.vector_store import StoredVectors
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.rows import sought, stored

WRITE_TIMEOUT_S = 60.0
"""Seconds to write the vectors of one document, of 40 MB at most."""

_READ = """
SELECT dimension, data FROM mcp_tools_proxy.vectors
WHERE tenant_id = $1 AND doc_id = $2 AND version = $3 AND model = $4
"""
_WRITE = """
INSERT INTO mcp_tools_proxy.vectors (tenant_id, doc_id, version, model, dimension, data)
SELECT tenant_id, doc_id, version, $4, $5, $6 FROM mcp_tools_proxy.documents
WHERE tenant_id = $1 AND doc_id = $2 AND version = $3
ON CONFLICT (tenant_id, doc_id) DO UPDATE
SET version = excluded.version, model = excluded.model, dimension = excluded.dimension,
    data = excluded.data
"""


class PostgresVectors:
    """A VectorStore over a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        """Read the vectors of one version by one model; None when there are none."""
        async with self._database.transaction(key[0]) as connection:
            row = await connection.fetchrow(_READ, *map(sought, key), version, stored(model))
        if row is None:
            return None
        return StoredVectors(
            version=version, model=model, dimension=row["dimension"], data=row["data"]
        )

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Keep vectors in place of older ones; not if the document has another version now."""
        transaction = self._database.transaction(key[0], timeout_s=WRITE_TIMEOUT_S)
        async with transaction as connection:
            await connection.execute(
                _WRITE,
                *map(stored, key),
                vectors.version,
                stored(vectors.model),
                vectors.dimension,
                vectors.data,
            )
