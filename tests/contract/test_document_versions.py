import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import document_path, write_document
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import DocumentStore, Wanted
from mcp_tools_proxy.documents.document_writer import DocumentWriter, Expected
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import (
    Chunk,
    Document,
    DocumentSource,
    ImportWarning,
    Readers,
    Section,
)
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound, VersionNotKept
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_document
from tests.support.postgres_databases import Changes, Databases, OpenStore

KEY = ("acme", "doc")
ANN = Readers(users=frozenset({"ann"}))
BOB = Readers(users=frozenset({"bob"}))


def text(number: int, readers: Readers | None = None) -> Document:
    return make_document(tenant_id="acme", doc_id="doc", pages=(f"text {number}",), readers=readers)


class Versioned:
    """A repository over a store, and its writer, which announces changes before it returns."""

    def __init__(self, store: DocumentStore, writer: DocumentWriter) -> None:
        self._changes = Changes()
        self.repository = DocumentRepository(
            store,
            cache_bytes=10**6,
            hide_foreign_documents=False,
            metrics=Metrics(),
            on_changed=self._changes.changed,
        )
        self.store = store
        self.writer = writer

    async def put(self, *documents: Document) -> None:
        for document in documents:
            await self._until_notified(
                self.writer.put(document, expected=Expected.ANYTHING, keep_readers=False)
            )

    async def remove(self) -> None:
        await self._until_notified(self.writer.remove(KEY, expected=Expected.ANYTHING))

    async def set_readers(self, readers: Readers) -> None:
        await self._until_notified(
            self.writer.set_readers(KEY, readers, expected=Expected.ANYTHING)
        )

    async def _until_notified(self, change: Awaitable[object]) -> None:
        before = len(self._changes.keys)
        await change
        await until(lambda: len(self._changes.keys) > before, "the notification")

    async def read(self, version: str, user_id: str = "ann", tenant_id: str = "acme") -> str:
        """Return the text of a version, or the refusal's code."""
        caller = Caller(tenant_id=tenant_id, user_id=user_id)
        wanted = Wanted(pages=(1, 1))
        try:
            found = await self.repository.find_version(caller, "doc", version, wanted)
        except (AccessDenied, DocumentNotFound, VersionNotKept) as error:
            return error.code
        return found.pages(1, 1)[0]

    async def read_all(self, *documents: Document) -> list[str]:
        return [await self.read(version_of(document)) for document in documents]

    async def kept(self) -> list[str]:
        return list(await self.writer.older_versions(KEY))


Open = Callable[[int], Awaitable[Versioned]]


async def open_folder(tmp_path: Path, keep_versions: int = 2) -> Versioned:
    root = tmp_path / "documents"
    store = FolderStore(root, ScanCache(tmp_path / "cache", root))
    await store.load()
    return Versioned(store, FolderWriter(store, keep_versions=keep_versions))


@pytest.fixture(params=["folder", "postgres"])
async def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[Open]:
    """Yield a function that opens a store whose writer keeps this many versions."""
    async with AsyncExitStack() as stack:

        async def open_versioned(keep_versions: int) -> Versioned:
            if request.param == "folder":
                made = await open_folder(tmp_path, keep_versions)
            else:
                database = await databases.new()
                opened = await stack.enter_async_context(OpenStore(database))
                await opened.until_current()
                writer = PostgresWriter(
                    Database(database.url, timeout_s=BOUND_S), keep_versions=keep_versions
                )
                made = Versioned(opened.store, writer)
            stack.push_async_callback(made.writer.close)
            stack.callback(made.repository.close)
            return made

        yield open_versioned


@pytest.fixture
async def versioned(open_store: Open) -> Versioned:
    return await open_store(2)


async def test_the_previous_version_can_be_read(versioned: Versioned) -> None:
    await versioned.put(text(1), text(2))
    assert await versioned.read_all(text(1), text(2)) == ["text 1", "text 2"]
    assert await versioned.kept() == [version_of(text(1))]


async def test_an_older_version_is_complete(versioned: Versioned) -> None:
    first = make_document(
        tenant_id="acme",
        title="The \x00 title",
        pages=("one \x00 ж", "two"),
        sections={
            "s": Section(
                section_id="s", title="S", page_start=1, page_end=2, start_char=1, end_char=2
            )
        },
        tags=("a", "b"),
        own_chunks=(Chunk(chunk_id="c", page=2, chunk_index=0, source="two", start=0, end=3),),
    )
    first = dataclasses.replace(first, language="ru")
    await versioned.put(first, text(2))
    found = await versioned.repository.find_version(
        Caller(tenant_id="acme", user_id="ann"), "doc", version_of(first), Wanted(whole=True)
    )
    assert found.document is not None
    assert version_of(found.document) == found.head.version == version_of(first)


async def test_the_next_write_removes_versions_over_the_limit(open_store: Open) -> None:
    versioned = await open_store(3)
    await versioned.put(*map(text, range(1, 5)))
    assert await versioned.kept() == [version_of(text(3)), version_of(text(2))]
    assert await versioned.read_all(text(1), text(2), text(3)) == [
        "VERSION_GONE",
        "text 2",
        "text 3",
    ]


async def test_no_older_version_is_kept_if_the_limit_is_one(open_store: Open) -> None:
    versioned = await open_store(1)
    await versioned.put(text(1), text(2))
    assert await versioned.kept() == []
    assert await versioned.read(version_of(text(1))) == "VERSION_GONE"


async def test_restored_content_is_only_the_present_version(open_store: Open) -> None:
    versioned = await open_store(3)
    await versioned.put(text(1), text(2), text(3), text(2))
    assert await versioned.kept() == [version_of(text(3)), version_of(text(1))]
    assert await versioned.read_all(text(1), text(2), text(3)) == ["text 1", "text 2", "text 3"]


async def test_equal_content_replaces_nothing(versioned: Versioned) -> None:
    await versioned.put(text(1), text(2))
    await versioned.writer.put(text(2), expected=Expected.ANYTHING, keep_readers=False)
    assert await versioned.kept() == [version_of(text(1))]


async def test_the_refusal_names_the_present_version(versioned: Versioned) -> None:
    await versioned.put(text(1))
    with pytest.raises(VersionNotKept) as refused:
        await versioned.repository.find_version(
            Caller(tenant_id="acme", user_id="ann"), "doc", "0" * 64, Wanted(pages=(1, 1))
        )
    assert refused.value.details == {"version": version_of(text(1))}


async def test_users_who_lost_access_to_the_document_can_read_no_version(
    versioned: Versioned,
) -> None:
    await versioned.put(text(1, ANN), text(2, ANN))
    assert await versioned.read(version_of(text(1))) == "text 1"
    await versioned.set_readers(BOB)
    assert await versioned.read(version_of(text(1))) == "ACCESS_DENIED"
    assert await versioned.read(version_of(text(1)), "bob") == "text 1"


async def test_a_new_version_with_other_readers_closes_the_older_ones(
    versioned: Versioned,
) -> None:
    await versioned.put(text(1, ANN), text(2, BOB))
    assert await versioned.read(version_of(text(1))) == "ACCESS_DENIED"


async def test_another_tenant_can_read_no_version(versioned: Versioned) -> None:
    other = dataclasses.replace(text(3), tenant_id="globex")
    await versioned.put(text(1), text(2), other)
    assert await versioned.read(version_of(text(1)), tenant_id="globex") == "VERSION_GONE"
    assert await versioned.read(version_of(text(1)), tenant_id="nobody") == "ACCESS_DENIED"


async def test_older_versions_are_removed_with_the_document(versioned: Versioned) -> None:
    await versioned.put(text(1), text(2))
    assert await versioned.read(version_of(text(1))) == "text 1"
    await versioned.remove()
    await versioned.put(text(2))
    assert await versioned.kept() == []
    assert await versioned.read(version_of(text(1))) == "VERSION_GONE"


async def test_a_manually_added_document_has_one_version(tmp_path: Path) -> None:
    versioned = await open_folder(tmp_path)
    await versioned.put(text(1), text(2))
    root = tmp_path / "documents"
    write_document(root, text(3), replace=True)
    later = await open_folder(tmp_path)
    assert await later.read_all(text(1), text(3)) == ["VERSION_GONE", "text 3"]
    assert await later.kept() == []
    await later.put(text(4))
    assert await later.kept() == [version_of(text(3))]
    assert await later.read(version_of(text(1))) == "VERSION_GONE"
    await versioned.writer.close()
    await later.writer.close()


async def test_a_manually_removed_document_leaves_no_version_to_the_next_one(
    tmp_path: Path,
) -> None:
    versioned = await open_folder(tmp_path)
    await versioned.put(text(1), text(2))
    document_path(tmp_path / "documents", *KEY).unlink()
    later = await open_folder(tmp_path)
    await later.put(text(2))
    assert await later.kept() == []
    assert [path.name for path in (tmp_path / "documents").rglob("*.json")] == ["doc.json"]
    await versioned.writer.close()
    await later.writer.close()


async def test_a_modified_file_of_an_older_version_is_not_served(tmp_path: Path) -> None:
    versioned = await open_folder(tmp_path)
    await versioned.put(text(1), text(2))
    (kept,) = (tmp_path / "documents" / ".versions").rglob(f"{version_of(text(1))}.json")
    kept.write_text(kept.read_text().replace("text 1", "text 9"))
    assert await versioned.read(version_of(text(1))) == "VERSION_GONE"
    await versioned.writer.close()


async def test_an_older_version_has_its_own_fields_but_no_source_and_expiry(
    versioned: Versioned,
) -> None:
    content: dict[str, Any] = {
        "text_format": "plain",
        "date": "2027-01-31",
        "metadata": {"rate": 1.0},
    }
    others: dict[str, Any] = {
        "warnings": (ImportWarning("hidden_text", "x"),),
        "source": DocumentSource("share", "a", "0", "1"),
        "expires_at": datetime(2099, 1, 1, tzinfo=UTC),
    }
    first = replace(text(1), **content, **others)
    await versioned.put(first, text(2))
    caller = Caller(tenant_id="acme", user_id="ann")
    found = await versioned.repository.find_version(
        caller, "doc", version_of(first), Wanted(whole=True)
    )
    assert found.document is not None
    assert {name: getattr(found.document, name) for name in content} == content
    assert (found.document.warnings, found.head.source, found.head.expires_at) == ((), None, None)


@pytest.mark.parametrize("marks", [(True, False), (False, True), (False, False)])
async def test_a_version_is_untrusted_if_it_or_the_current_one_is(
    versioned: Versioned, marks: tuple[bool, bool]
) -> None:
    first, second = marks
    await versioned.put(replace(text(1), is_untrusted=first), text(2))
    facts = EditableFacts(is_untrusted=second)
    await versioned.writer.set_facts(KEY, facts, expected=Expected.ANYTHING)
    caller = Caller(tenant_id="acme", user_id="ann")
    older = await versioned.repository.find_version(
        caller, "doc", version_of(text(1)), Wanted(whole=True)
    )
    present = await versioned.repository.find(caller, "doc")
    assert (older.head.is_untrusted, present.head.is_untrusted) == (first or second, second)


async def test_an_expired_document_has_no_readable_versions(versioned: Versioned) -> None:
    await versioned.put(text(1), replace(text(2), expires_at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert await versioned.read_all(text(1), text(2)) == ["DOCUMENT_NOT_FOUND"] * 2


async def test_new_facts_keep_the_original_pdf(versioned: Versioned) -> None:
    await versioned.writer.put(
        text(1), expected=Expected.NOTHING, keep_readers=False, original=b"%PDF-"
    )
    facts = EditableFacts(tags=("new",))
    head = await versioned.writer.set_facts(KEY, facts, expected=Expected.ANYTHING)
    assert head.version != version_of(text(1))
    assert await versioned.store.read_original(KEY, head.version) == b"%PDF-"
