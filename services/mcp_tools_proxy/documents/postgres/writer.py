"""DocumentWriter in PostgreSQL; each change is one transaction."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg

from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import InvalidDocument
from mcp_tools_proxy.documents.document_store import (
    DocumentFilter,
    Key,
    StoredVectors,
    VectorStore,
    field_terms,
    folded_names,
)
from mcp_tools_proxy.documents.document_writer import (
    KEEP_VERSIONS,
    DocumentUsage,
    Expected,
    NoSuchDocument,
    ReadOnlyDocuments,
    TenantNeeded,
    WriteFailed,
    check_expected,
    check_quota,
    facts_bytes,
)
from mcp_tools_proxy.documents.postgres.database import Connection, Database
from mcp_tools_proxy.documents.postgres.kept_rows import (
    keep_original,
    keep_present,
    list_older,
    read_original,
)
from mcp_tools_proxy.documents.postgres.rows import (
    HEAD,
    HEAD_COLUMNS,
    WHOLE,
    document_of_row,
    filter_conditions,
    filter_values,
    head_of_row,
    loaded,
    sought,
    stored,
    stored_json,
    warnings_of,
)
from mcp_tools_proxy.documents.retention import RetentionRule
from mcp_tools_proxy.documents.versions import head_of, rights_tag
from mcp_tools_proxy.domain.document import Document, DocumentHead, ImportWarning, Readers
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.domain.quota import Quota

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
        """Return the vectors of a version by a model, or None."""
        async with self._database.transaction(key[0]) as connection:
            row = await connection.fetchrow(_READ, *map(sought, key), version, stored(model))
        if row is None:
            return None
        return StoredVectors(
            version=version, model=model, dimension=row["dimension"], data=row["data"]
        )

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Replace stored vectors unless the document has another version."""
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


WRITE_TIMEOUT_S = 60.0
"""Seconds for one change; a document of 64 MB takes a few."""

_LOCK = (
    "SELECT pg_advisory_xact_lock(hashtextextended(json_build_array($1::text, $2::text)::text, 0))"
)
"""One writer per document, also for a document that does not exist yet."""

_LOCK_TENANT = (
    "SELECT pg_advisory_xact_lock("
    "hashtextextended(json_build_array('quota', 'documents', $1::text)::text, 0))"
)
"""One writer per tenant, so that replicas cannot exceed its quota together."""

ROW_BYTES = 100
"""Size of a page, section or chunk without its texts: otherwise, documents of 900,000 empty pages
would be free."""

_SIZES = f"""
SELECT d.doc_id, greatest(p.bytes + s.bytes + c.bytes, v.bytes) AS bytes, o.bytes AS original
FROM mcp_tools_proxy.documents d,
LATERAL (SELECT coalesce(sum({ROW_BYTES} + octet_length(text)), 0) AS bytes
    FROM mcp_tools_proxy.pages WHERE tenant_id = d.tenant_id AND doc_id = d.doc_id) p,
LATERAL (SELECT coalesce(sum({ROW_BYTES} + octet_length(section_id) + octet_length(title)), 0)
    AS bytes
    FROM mcp_tools_proxy.sections WHERE tenant_id = d.tenant_id AND doc_id = d.doc_id) s,
LATERAL (SELECT coalesce(sum({ROW_BYTES} + octet_length(chunk_id) + octet_length(text)), 0)
    AS bytes
    FROM mcp_tools_proxy.chunks WHERE tenant_id = d.tenant_id AND doc_id = d.doc_id) c,
LATERAL (SELECT coalesce(max(pg_column_size(pages) + coalesce(pg_column_size(sections), 0)
        + coalesce(pg_column_size(chunks), 0)), 0) AS bytes
    FROM mcp_tools_proxy.versions WHERE tenant_id = d.tenant_id AND doc_id = d.doc_id) v,
LATERAL (SELECT coalesce(sum(octet_length(content)), 0) AS bytes FROM mcp_tools_proxy.originals
    WHERE tenant_id = d.tenant_id AND doc_id = d.doc_id) o
WHERE d.tenant_id = $1
"""
"""Size of each document of a tenant: its largest kept version and the PDF. Sizes come from the
rows; no text is loaded."""

_PUT = """
INSERT INTO mcp_tools_proxy.documents (tenant_id, doc_id, version, title, tags, page_count,
    section_count, text_chars, has_chunks, reader_users, reader_roles, language,
    folded, ocr, text_format, date, metadata, own_fields, warnings, source, expires_at, untrusted)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22)
ON CONFLICT (tenant_id, doc_id) DO UPDATE SET version = $3, title = $4, tags = $5, page_count = $6,
    section_count = $7, text_chars = $8, has_chunks = $9, reader_users = $10, reader_roles = $11,
    language = $12, folded = $13, ocr = $14, text_format = $15, date = $16, metadata = $17,
    own_fields = $18, warnings = $19, source = $20, expires_at = $21, untrusted = $22,
    imported_at = now()
"""
_SET_FACTS = """
UPDATE mcp_tools_proxy.documents SET reader_users = $3, reader_roles = $4, warnings = $5,
    source = $6, expires_at = $7, untrusted = $8
WHERE tenant_id = $1 AND doc_id = $2
    AND (reader_users, reader_roles, warnings::text, source::text, expires_at, untrusted)
    IS DISTINCT FROM ($3::text[], $4::text[], $5::json::text, $6::json::text, $7::timestamptz,
        $8::boolean)
"""
"""Sets the fields that are not content; without a difference, the statement changes nothing and
notifies no one."""
_SET_READERS = (
    "UPDATE mcp_tools_proxy.documents SET reader_users = $3, reader_roles = $4 "
    "WHERE tenant_id = $1 AND doc_id = $2"
)
_WARNINGS = "SELECT warnings FROM mcp_tools_proxy.documents WHERE tenant_id = $1 AND doc_id = $2"
_REMOVE = "DELETE FROM mcp_tools_proxy.documents WHERE tenant_id = $1 AND doc_id = $2"
_OUTDATED = "SELECT * FROM mcp_tools_proxy.outdated_documents($1::json, $2)"
_REMOVE_PARTS = tuple(
    f"DELETE FROM mcp_tools_proxy.{table} WHERE tenant_id = $1 AND doc_id = $2"
    for table in ("pages", "sections", "chunks", "vectors")
)
_LIST = (
    f"SELECT d.tenant_id, d.doc_id, {HEAD_COLUMNS} FROM mcp_tools_proxy.documents d "
    "WHERE ($1::text IS NULL OR d.tenant_id = $1) AND (d.tenant_id, d.doc_id) > ($2, $3) "
    f"{filter_conditions(4)} ORDER BY d.tenant_id, d.doc_id LIMIT $11"
)


class PostgresWriter:
    """A DocumentWriter over a database.

    Only a database opened as the owner can list the documents of all tenants. ``quota`` limits the
    documents of each tenant.
    """

    def __init__(
        self,
        database: Database,
        *,
        keep_versions: int = KEEP_VERSIONS,
        quota: Quota | None = None,
    ) -> None:
        self._database = database
        self._quota = quota
        self._keep_versions = keep_versions

    def __repr__(self) -> str:
        return f"<PostgresWriter {self._database!r}>"

    @property
    def name(self) -> str:
        """Human-readable location of the documents."""
        return "the database"

    @property
    def vectors(self) -> VectorStore:
        """Store of the documents' vectors."""
        return PostgresVectors(self._database)

    def place(self, key: Key) -> str:
        """Return the human-readable location of a document: one database for all."""
        return "postgresql"

    async def problems_of(self, key: Key) -> Mapping[str, str]:
        """Return no problems: documents are checked when written."""
        return {}

    async def list_heads(
        self,
        tenant_id: str | None,
        *,
        after: Key | None = None,
        limit: int,
        filter: DocumentFilter | None = None,
    ) -> tuple[DocumentHead, ...]:
        """Return up to ``limit`` documents after ``after``, ordered by tenant and doc_id.

        Raises TenantNeeded for all tenants as the gateway's role, which cannot see them.
        """
        async with self._database.transaction(tenant_id or "") as connection:
            if tenant_id is None and not await connection.fetchval(_SEES_ALL):
                raise TenantNeeded(
                    "the documents of all tenants can be listed as the owner only: set "
                    "MCP_PROXY_DOCUMENTS_OWNER_URL, or name a tenant"
                )
            start = map(sought, after or (tenant_id or "", ""))
            tenant = None if tenant_id is None else sought(tenant_id)
            wanted = filter_values(filter)
            rows = await connection.fetch(_LIST, tenant, *start, *wanted, limit)
        return tuple(
            head_of_row(loaded(row["tenant_id"]), loaded(row["doc_id"]), row) for row in rows
        )

    async def problems(self) -> Mapping[str, str]:
        """Return no problems: documents are checked when written."""
        return {}

    async def head(self, key: Key) -> DocumentHead | None:
        """Return the head of a document, or None."""
        async with self._database.transaction(key[0]) as connection:
            return await _head(connection, key)

    async def document(self, key: Key) -> Document | None:
        """Return a whole document, or None."""
        async with self._database.transaction(key[0], timeout_s=WRITE_TIMEOUT_S) as connection:
            row = await connection.fetchrow(WHOLE, *map(sought, key))
        if row is None:
            return None
        return document_of_row(head_of_row(*key, row), row)

    async def older_versions(self, key: Key) -> Sequence[str]:
        """Return the kept older versions of a document, newest first."""
        async with self._database.transaction(key[0]) as connection:
            return await list_older(connection, key)

    async def put(
        self,
        document: Document,
        *,
        expected: Expected | str,
        keep_readers: bool,
        original: bytes | None = None,
    ) -> DocumentHead:
        """Write a document as a new version. Raises VersionConflict, InvalidDocument.

        An unchanged document is not written, and no notification is sent.
        """
        head = await _new_head(document)
        key = (document.tenant_id, document.doc_id)
        async with _writing(self._database, key) as connection:
            old = await _head(connection, key)
            check_expected(old, expected, None if old is None else old.version)
            readers = old.readers if old is not None and keep_readers else document.readers
            is_untrusted = document.is_untrusted or (old is not None and old.is_untrusted)
            new = dataclasses.replace(head, readers=readers, is_untrusted=is_untrusted)
            document = dataclasses.replace(document, is_untrusted=is_untrusted)
            await self._replace(connection, old, document, new, original)
        return new

    async def set_facts(
        self, key: Key, facts: EditableFacts, *, expected: Expected | str
    ) -> DocumentHead:
        """Change the facts of a document. Raises VersionConflict, NoSuchDocument."""
        async with _writing(self._database, key) as connection:
            row = await connection.fetchrow(WHOLE, *map(sought, key))
            if row is None:
                raise NoSuchDocument
            old = head_of_row(*key, row)
            check_expected(old, expected, EditableFacts.of(old).etag)
            document = facts.set_on(document_of_row(old, row))
            original = await read_original(connection, key, old.version)
            new = await _new_head(document)
            await self._replace(connection, old, document, new, original)
        return new

    async def warnings(self, key: Key) -> Sequence[ImportWarning]:
        """Return the warnings of a document's import."""
        async with self._database.transaction(key[0]) as connection:
            found = await connection.fetchval(_WARNINGS, *map(sought, key))
        return () if found is None else warnings_of(found)

    async def _replace(
        self,
        connection: Connection,
        old: DocumentHead | None,
        document: Document,
        new: DocumentHead,
        original: bytes | None,
    ) -> None:
        """Write a document; ``new`` is its head."""
        key = (new.tenant_id, new.doc_id)
        if self._quota is not None:
            size = await asyncio.to_thread(_text_bytes, document)
            await _check_quota(self._quota, connection, old, new, (size, len(original or b"")))
        if old is not None and old.version == new.version:
            facts = _facts_columns(document)
            names = map(stored, key)
            await connection.execute(_SET_FACTS, *names, *_named(new.readers), *facts)
        else:
            if old is not None:
                older = self._keep_versions - 1
                await keep_present(connection, key, version=new.version, older=older)
            await _put(connection, document, new)
        await keep_original(connection, key, new.version, original)

    async def set_readers(
        self, key: Key, readers: Readers | None, *, expected: Expected | str
    ) -> DocumentHead:
        """Change the readers of a document. Raises VersionConflict, NoSuchDocument."""
        async with _writing(self._database, key) as connection:
            old = await _head(connection, key)
            if old is None:
                raise NoSuchDocument
            check_expected(old, expected, rights_tag(old.readers))
            new = dataclasses.replace(old, readers=readers)
            if self._quota is not None:
                await _check_quota(self._quota, connection, old, new, (0, 0))
            if old.readers != readers:
                await connection.execute(_SET_READERS, *map(stored, key), *_named(readers))
        return new

    async def remove(self, key: Key, *, expected: Expected | str) -> DocumentHead:
        """Remove a document; return its head. Raises VersionConflict, NoSuchDocument."""
        async with _writing(self._database, key) as connection:
            old = await _head(connection, key)
            if old is None:
                raise NoSuchDocument
            check_expected(old, expected, old.version)
            await connection.execute(_REMOVE, *map(stored, key))
        return old

    async def remove_unchanged(self, head: DocumentHead) -> bool:
        """Remove a document that still has this head; return whether it was removed."""
        key = (head.tenant_id, head.doc_id)
        async with _writing(self._database, key) as connection:
            if await _head(connection, key) != head:
                return False
            await connection.execute(_REMOVE, *map(stored, key))
        return True

    @asynccontextmanager
    async def outdated(
        self, rules: Sequence[RetentionRule], *, limit: int
    ) -> AsyncIterator[Sequence[tuple[DocumentHead, str]]]:
        """Find the first documents that have expired, or whose rule has, with the reasons.

        The database's function finds none while another transaction that called it continues.
        """
        given = [
            (it.text, it.tag, None if it.age is None else it.age.total_seconds()) for it in rules
        ]
        async with self._database.transaction("", timeout_s=WRITE_TIMEOUT_S) as connection:
            rows = await connection.fetch(_OUTDATED, stored_json(given), limit)
            found = []
            for row in rows:
                head = await self.head((loaded(row["tenant_id"]), loaded(row["doc_id"])))
                if head is not None and head.version == row["version"]:
                    found.append((head, loaded(row["reason"])))
            yield found

    async def close(self) -> None:
        """Close every connection."""
        await self._database.close()


_SEES_ALL = (
    "SELECT pg_has_role(current_user, c.relowner, 'USAGE') OR r.rolsuper OR r.rolbypassrls "
    "FROM pg_class c, pg_roles r WHERE c.oid = 'mcp_tools_proxy.documents'::regclass "
    "AND r.rolname = current_user"
)


@asynccontextmanager
async def _writing(database: Database, key: Key) -> AsyncIterator[Connection]:
    """Run a transaction as the only writer of a document."""
    try:
        async with database.transaction(key[0], timeout_s=WRITE_TIMEOUT_S) as connection:
            await connection.execute(_LOCK, *map(sought, key))
            yield connection
    except DocumentsUnavailable as error:
        match error.__cause__:
            case asyncpg.ReadOnlySQLTransactionError():
                raise ReadOnlyDocuments("the database is read-only") from error
            case asyncpg.InsufficientResourcesError():
                raise WriteFailed(f"the database cannot take it: {error.reason}") from error
            case asyncpg.DataError() | asyncpg.ProgramLimitExceededError():
                raise InvalidDocument(f"cannot be stored: {error.reason}") from error
        raise


async def _head(connection: Connection, key: Key) -> DocumentHead | None:
    row = await connection.fetchrow(HEAD, *map(sought, key))
    return None if row is None else head_of_row(*key, row)


async def _check_quota(
    quota: Quota,
    connection: Connection,
    old: DocumentHead | None,
    new: DocumentHead,
    written: tuple[int, int],
) -> None:
    """Check the quota of a tenant, locked until the transaction ends.

    ``written`` has the bytes of the text and the PDF. Raises QuotaExceeded, InvalidDocument.
    """
    await connection.execute(_LOCK_TENANT, sought(new.tenant_id))
    rows = await connection.fetch(_SIZES, sought(new.tenant_id))
    sizes = {loaded(row["doc_id"]): (int(row["bytes"]), int(row["original"])) for row in rows}
    tenant = sought(new.tenant_id)
    heads = await connection.fetch(_LIST, tenant, tenant, "", *filter_values(None), None)
    facts = await asyncio.to_thread(_facts_of, heads, new.tenant_id)
    largest, kept_original = sizes.pop(new.doc_id, (0, 0))
    old_facts = facts.pop(new.doc_id, 0)
    check_quota(
        quota,
        others=DocumentUsage(len(sizes), sum(map(sum, sizes.values())), sum(facts.values())),
        old=DocumentUsage(int(old is not None), largest + kept_original, old_facts),
        new=DocumentUsage(1, max(written[0], largest) + written[1], facts_bytes(new)),
    )


def _facts_of(rows: Sequence[asyncpg.Record], tenant_id: str) -> dict[str, int]:
    heads = (head_of_row(tenant_id, loaded(row["doc_id"]), row) for row in rows)
    return {head.doc_id: facts_bytes(head) for head in heads}


def _text_bytes(document: Document) -> int:
    """Return the size of a document's texts, computed like ``_SIZES``."""
    texts = [*document.pages]
    for section in document.sections.values():
        texts += section.section_id, section.title
    for chunk in document.own_chunks or ():
        texts += chunk.chunk_id, chunk.text
    rows = len(document.pages) + len(document.sections) + len(document.own_chunks or ())
    return rows * ROW_BYTES + sum(len(text.encode()) for text in texts)


async def _new_head(document: Document) -> DocumentHead:
    """Return the head of a document to be written. Raises InvalidDocument."""
    try:
        head = await asyncio.to_thread(head_of, document)
        _facts_columns(document)
    except ValueError as error:  # a lone surrogate has no UTF-8
        raise InvalidDocument(f"cannot be stored: {error}") from error
    return head


def _facts_columns(document: Document) -> tuple[str, str | None, datetime | None, bool]:
    """Return warnings, source, expiry and trust of a document for its row. Raises ValueError."""
    source = None if document.source is None else stored_json(document.source)
    return stored_json(document.warnings), source, document.expires_at, document.is_untrusted


async def _put(connection: Connection, document: Document, head: DocumentHead) -> None:
    key = (stored(head.tenant_id), stored(head.doc_id))
    await connection.execute(
        _PUT,
        *key,
        head.version,
        stored(head.title),
        list(map(stored, head.tags)),
        head.page_count,
        head.section_count,
        head.text_chars,
        document.own_chunks is not None,
        *_named(head.readers),
        head.language,
        list(map(stored, folded_names(head))),
        list(head.ocr),
        document.text_format,
        head.date,
        stored_json(head.metadata),
        list(map(stored, field_terms(head.metadata))),
        *_facts_columns(document),
    )
    for statement in _REMOVE_PARTS:
        await connection.execute(statement, *key)
    await _insert(connection, key, "pages", {"text": ("text", list(map(stored, document.pages)))})
    sections = list(document.sections.values())
    await _insert(
        connection,
        key,
        "sections",
        {
            "section_id": ("text", [stored(it.section_id) for it in sections]),
            "title": ("text", [stored(it.title) for it in sections]),
            "page_start": ("integer", [it.page_start for it in sections]),
            "page_end": ("integer", [it.page_end for it in sections]),
            "start_char": ("integer", [it.start_char for it in sections]),
            "end_char": ("integer", [it.end_char for it in sections]),
        },
    )
    chunks = document.own_chunks or ()
    await _insert(
        connection,
        key,
        "chunks",
        {
            "chunk_id": ("text", [stored(it.chunk_id) for it in chunks]),
            "page": ("integer", [it.page for it in chunks]),
            "text": ("text", [stored(it.text) for it in chunks]),
        },
    )


async def _insert(
    connection: Connection,
    key: Key,
    table: str,
    columns: Mapping[str, tuple[str, list[object]]],
) -> None:
    """Insert the rows of one part of a document, numbered from 1, in one statement.

    PostgreSQL does not support COPY into tables with row-level security.
    """
    number = "number" if table == "pages" else "place"
    arrays = ", ".join(f"${at}::{kind}[]" for at, (kind, _) in enumerate(columns.values(), start=3))
    names = ", ".join(columns)
    await connection.execute(
        f"INSERT INTO mcp_tools_proxy.{table} (tenant_id, doc_id, {names}, {number}) "
        f"SELECT $1, $2, {names}, place FROM unnest({arrays}) "
        f"WITH ORDINALITY AS rows ({names}, place)",
        *key,
        *(values for _, values in columns.values()),
    )


def _named(readers: Readers | None) -> tuple[list[str] | None, list[str] | None]:
    if readers is None:
        return None, None
    return sorted(map(stored, readers.users)), sorted(map(stored, readers.roles))
