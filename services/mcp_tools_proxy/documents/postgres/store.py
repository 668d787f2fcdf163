"""DocumentStore in PostgreSQL; each reading is one statement, hence of one version."""

import re
from collections.abc import Mapping, Sequence

import asyncpg

from mcp_tools_proxy.documents.document_store import (
    CatalogEntry,
    CatalogQuery,
    ChangeListener,
    Key,
    Reading,
    Wanted,
)
from mcp_tools_proxy.documents.document_writer import KEEP_VERSIONS
from mcp_tools_proxy.documents.postgres.change_feed import ChangeFeed
from mcp_tools_proxy.documents.postgres.database import Connection, Database
from mcp_tools_proxy.documents.postgres.kept_rows import original_tag, read_older, read_original
from mcp_tools_proxy.documents.postgres.rows import (
    HAS_READERS,
    HEAD,
    LIST_HEADS,
    LIST_READABLE,
    PAGES,
    READABLE_IDS,
    SECTION,
    SECTIONS,
    WHOLE,
    document_of_row,
    filter_values,
    head_of_row,
    loaded,
    sections_of,
    sought,
)
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.quota import Quota

READ_TIMEOUT_S = 20.0
"""Seconds to read a kept PDF; 64 MB take a few."""

MAX_TENANTS = 10_000
"""Tenants with a cached ``has_readers``; callers can send any tenant."""


class PostgresStore:
    """A DocumentStore over a database; ``feed`` reports its changes."""

    def __init__(self, database: Database, feed: ChangeFeed) -> None:
        self._database = database
        self._feed = feed
        self._with_readers: dict[str, bool] = {}
        """Cached ``has_readers`` by tenant, since the last change."""
        self._changes = 0
        feed.add_listener(self)

    def __repr__(self) -> str:
        return f"<PostgresStore {self._database!r}>"

    @property
    def is_current(self) -> bool:
        """Whether the change feed is up to date."""
        return self._feed.is_current

    @property
    def timeout_s(self) -> float | None:
        """Seconds that one call can wait for the database in total."""
        return self._database.timeout_s

    def listen(self, listener: ChangeListener) -> None:
        """Send changes to ``listener`` from now on."""
        self._feed.add_listener(listener)

    def changed(self, key: Key) -> None:
        """Clear the cached ``has_readers`` of a tenant."""
        self._changes += 1
        self._with_readers.pop(key[0], None)

    def all_changed(self) -> None:
        """Clear the cached ``has_readers`` of all tenants."""
        self._changes += 1
        self._with_readers.clear()

    async def read(self, key: Key, wanted: Wanted) -> Reading | None:
        """Read the wanted parts of a document, or None."""
        tenant_id, doc_id = key
        async with self._database.transaction(tenant_id) as connection:
            row = await _fetch(connection, key, wanted)
        if row is None:
            return None
        head = head_of_row(tenant_id, doc_id, row)
        if wanted.is_head_only:
            return Reading(head=head)
        if wanted.pages is not None:
            return Reading(head=head, pages=_numbered(row["pages"], wanted.pages[0]))
        if wanted.whole:
            return Reading(head=head, document=document_of_row(head, row))
        sections = sections_of(row["sections"])
        section = sections.get(wanted.section_id or "")
        pages = {} if section is None else _numbered(row["pages"], section.page_start)
        return Reading(head=head, sections=sections, pages=pages)

    async def read_older(self, key: Key, version: str) -> Reading | None:
        """Read an older version, whole; None if it is not kept."""
        async with self._database.transaction(key[0]) as connection:
            return await read_older(connection, key, version)

    async def original_tag(self, key: Key, version: str) -> str | None:
        """Return a tag of the kept PDF of a version; None without a PDF."""
        async with self._database.transaction(key[0]) as connection:
            return await original_tag(connection, key, version)

    async def read_original(self, key: Key, version: str) -> bytes | None:
        """Read the kept PDF of a version; None without a PDF."""
        async with self._database.transaction(key[0], timeout_s=READ_TIMEOUT_S) as connection:
            return await read_original(connection, key, version)

    async def list_readable(self, query: CatalogQuery) -> Sequence[CatalogEntry]:
        """Return the first documents that a query admits; the statement filters."""
        caller = query.caller
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(LIST_READABLE, *_readable_values(query), query.limit)
        return [
            CatalogEntry(
                head=head_of_row(caller.tenant_id, loaded(row["doc_id"]), row),
                updated=row["imported_at"],
            )
            for row in rows
        ]

    async def readable_ids(self, query: CatalogQuery) -> Sequence[str]:
        """Return the ids of all documents that a query admits."""
        async with self._database.transaction(query.caller.tenant_id) as connection:
            rows = await connection.fetch(READABLE_IDS, *_readable_values(query))
        return [loaded(row["doc_id"]) for row in rows]

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        """Return a tenant's first documents after an id."""
        async with self._database.transaction(tenant_id) as connection:
            rows = await connection.fetch(LIST_HEADS, sought(tenant_id), sought(after), limit)
        return [head_of_row(tenant_id, loaded(row["doc_id"]), row) for row in rows]

    def is_pending(self, tenant_id: str) -> bool:
        """Return False: the database is always complete."""
        return False

    async def has_doc_id(self, doc_id: str) -> bool:
        """Return whether any tenant has a document with that id."""
        async with self._database.transaction("") as connection:
            return bool(
                await connection.fetchval("SELECT mcp_tools_proxy.has_doc_id($1)", sought(doc_id))
            )

    async def has_readers(self, tenant_id: str) -> bool:
        """Return whether any document of a tenant is limited to some of its users."""
        known = self._with_readers.get(tenant_id)
        if known is not None and self.is_current:
            return known
        changes = self._changes
        async with self._database.transaction(tenant_id) as connection:
            found = bool(await connection.fetchval(HAS_READERS, sought(tenant_id)))
        if changes == self._changes:
            if len(self._with_readers) >= MAX_TENANTS:
                self._with_readers.clear()
            self._with_readers[tenant_id] = found
        return found


def _readable_values(query: CatalogQuery) -> tuple[object, ...]:
    caller = query.caller
    return (
        sought(caller.tenant_id),
        sought(query.after),
        sought(caller.user_id),
        list(map(sought, caller.roles)),
        None if caller.documents is None else list(map(sought, caller.documents)),
        None if query.tag is None else sought(query.tag),
        sought(query.id_prefix),
        [_pattern(word) for word in query.words],
        query.now,
        *filter_values(query.filter),
    )


async def _fetch(connection: Connection, key: Key, wanted: Wanted) -> asyncpg.Record | None:
    ids = tuple(map(sought, key))
    if wanted.whole:
        return await connection.fetchrow(WHOLE, *ids)
    if wanted.section_id is not None:
        return await connection.fetchrow(SECTION, *ids, sought(wanted.section_id))
    if wanted.pages is not None:
        return await connection.fetchrow(PAGES, *ids, *map(_in_range, wanted.pages))
    return await connection.fetchrow(SECTIONS if wanted.sections else HEAD, *ids)


def _numbered(pages: list[str], first: int) -> dict[int, str]:
    return {number: loaded(text) for number, text in enumerate(pages, start=first)}


def _pattern(word: str) -> str:
    return "%" + re.sub(r"([\\%_])", r"\\\1", sought(word)) + "%"


def _in_range(number: int) -> int:
    return min(number, 2**31 - 1)


class PostgresDocuments:
    """OpenDocuments in PostgreSQL."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        stale_s: float,
        keep_versions: int = KEEP_VERSIONS,
        quota: Quota | None = None,
    ) -> None:
        self.database = Database(url, timeout_s=timeout_s)
        self._feed = ChangeFeed(self.database, stale_s=stale_s)
        self.store = PostgresStore(self.database, self._feed)
        self.writer = PostgresWriter(self.database, keep_versions=keep_versions, quota=quota)

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the database and of change notifications."""
        return self._feed.state

    async def connect(self) -> None:
        """Check the database once, within the timeout of a call; it may be unreachable."""
        await self._feed.check()

    async def refresh(self, key: Key) -> None:
        """Read a document that another process of this service has changed."""
        self._feed.changed(key)

    async def run(self) -> None:
        """Follow changes until cancelled."""
        await self._feed.run()

    async def close(self) -> None:
        """Close every connection."""
        await self.database.close()
