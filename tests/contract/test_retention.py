"""Removal of expired documents and of those over the age of a rule, in both stores."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mcp_tools_proxy.documents.document_file import document_path
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.open_documents import WritableDocuments
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.documents.retention import Retention, parse_rules
from mcp_tools_proxy.domain.document import Document, DocumentHead
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases

DAY = timedelta(days=1)


class Stored:
    """A writer, and the ages of its documents."""

    def __init__(self, writer: WritableDocuments, root: Path | None, owner_url: str) -> None:
        self.writer = writer
        self._root = root
        self._owner_url = owner_url

    async def put(self, doc_id: str, age: timedelta, **fields: Any) -> DocumentHead:
        tenant_id = fields.pop("tenant_id", "acme")
        document = replace(make_document(tenant_id=tenant_id, doc_id=doc_id), **fields)
        head = await self._put(document)
        changed = datetime.now(UTC) - age
        if self._root is not None:
            path = document_path(self._root, document.tenant_id, doc_id)
            await asyncio.to_thread(os.utime, path, (changed.timestamp(), changed.timestamp()))
            assert isinstance(self.writer, FolderWithAges)
            await self.writer.refresh()
            return head
        connection = await asyncpg.connect(self._owner_url)
        await connection.execute(
            "UPDATE mcp_tools_proxy.documents SET imported_at = $2 WHERE doc_id = $1",
            doc_id,
            changed,
        )
        await connection.close()
        return head

    async def _put(self, document: Document) -> DocumentHead:
        return await self.writer.put(document, expected=Expected.ANYTHING, keep_readers=False)


class FolderWithAges(FolderWriter):
    def __init__(self, store: FolderStore) -> None:
        super().__init__(store)
        self.refresh = store.load


@pytest.fixture(params=["folder", "postgres"])
async def stored(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[Stored]:
    root = tmp_path / "documents"
    if request.param == "folder":
        writer: Any = FolderWithAges(FolderStore(root, ScanCache(tmp_path / "cache", root)))
        made = Stored(writer, root, "")
    else:
        database = await databases.new()
        writer = PostgresWriter(Database(database.url, timeout_s=BOUND_S))
        made = Stored(writer, None, database.owner_url)
    yield made
    await writer.close()


async def removed(stored: Stored, *rules: str, at_once: int = 9) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []

    async def note(head: DocumentHead, reason: str) -> None:
        found.append((head.tenant_id, head.doc_id, reason))

    retention = Retention(stored.writer, parse_rules(rules), note, at_once=at_once)
    await retention.remove_outdated()
    return sorted(found)


async def test_expired_documents_of_all_tenants_are_removed(stored: Stored) -> None:
    now = datetime.now(UTC)
    await stored.put("a", 0 * DAY, expires_at=now - DAY)
    await stored.put("a", 0 * DAY, tenant_id="globex", expires_at=now - DAY)
    await stored.put("b", 400 * DAY, expires_at=now + DAY)
    await stored.put("c", 400 * DAY)
    assert await removed(stored) == [("acme", "a", "expired"), ("globex", "a", "expired")]
    assert await removed(stored) == []
    heads = await stored.writer.list_heads("acme", limit=9)
    assert [head.doc_id for head in heads] == ["b", "c"]


async def test_the_first_matching_rule_decides(stored: Stored) -> None:
    await stored.put("minutes", 31 * DAY, tags=("Minutes",))
    await stored.put("new minutes", 29 * DAY, tags=("minutes",))
    await stored.put("law", 4000 * DAY, tags=("minutes", "LAW"))
    await stored.put("other", 366 * DAY)
    await stored.put("new", 364 * DAY)
    rules = ("law:never", "minutes:30d", "*:365d")
    assert await removed(stored, *rules) == [
        ("acme", "minutes", "minutes:30d"),
        ("acme", "other", "*:365d"),
    ]


async def test_more_documents_than_one_step_are_removed(stored: Stored) -> None:
    for number in range(5):
        await stored.put(f"{number}", 2 * DAY)
    assert len(await removed(stored, "*:1d", at_once=2)) == 5


async def test_a_document_that_changes_before_its_removal_stays(stored: Stored) -> None:
    head = await stored.put("a", 0 * DAY, expires_at=datetime.now(UTC) - DAY)
    await stored.put("a", 0 * DAY, expires_at=datetime.now(UTC) + DAY)
    assert not await stored.writer.remove_unchanged(head)
    present = await stored.writer.head(("acme", "a"))
    assert present is not None
    assert await stored.writer.remove_unchanged(present)
    assert not await stored.writer.remove_unchanged(present)


async def test_one_replica_at_a_time_finds_the_documents_of_a_database(
    databases: Databases,
) -> None:
    database = await databases.new()
    replicas = [PostgresWriter(Database(database.url, timeout_s=BOUND_S)) for _ in range(2)]
    expired = replace(make_document(), expires_at=datetime.now(UTC) - DAY)
    await replicas[0].put(expired, expected=Expected.NOTHING, keep_readers=False)
    async with (
        replicas[0].outdated((), limit=9) as first,
        replicas[1].outdated((), limit=9) as second,
    ):
        assert (len(first), len(second)) == (1, 0)
    async with replicas[1].outdated((), limit=9) as third:
        assert len(third) == 1
    for replica in replicas:
        await replica.close()


@pytest.mark.parametrize("rules", [("*:30d", "law:never"), ("Law:1d", "x:1d", "law:never")])
def test_a_rule_without_effect_is_refused(rules: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"{rules[-1]} never applies, as {re.escape(rules[0])}"):
        parse_rules(rules)


@pytest.mark.parametrize("text", ["minutes", "minutes:", ":30d", "a:30", "a:0d", "a:30d:", "a:x"])
def test_a_malformed_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        parse_rules([text])
