"""When the repository reads from its store, and when from memory."""

import asyncio
import sys
from collections.abc import Iterator, Sequence

import pytest
from pydantic_core import to_json

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.document_store import (
    HEAD_ONLY,
    CatalogEntry,
    CatalogQuery,
    ChangeListener,
    Key,
    Reading,
    Wanted,
)
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentsUnavailable, VersionNotKept
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_caller, make_document
from tests.support.tables import each_row

CALLER = make_caller(tenant_id="tenant_1")
PAGE = Wanted(pages=(1, 1))


class GatedStore:
    """A store of one document whose reads wait for ``gate``. A read returns the state at its start,
    as in a transaction. Changes are not notified."""

    def __init__(self) -> None:
        self.document = make_document(pages=("old",))
        self.older: dict[str, Document] = {}
        self.is_current = True
        self.is_down = False
        self.timeout_s: float | None = None
        self.reads: list[Wanted] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.listener: ChangeListener | None = None

    def listen(self, listener: ChangeListener) -> None:
        self.listener = listener

    async def read(self, key: Key, wanted: Wanted) -> Reading | None:
        self.reads.append(wanted)
        document = self.document
        await self.gate.wait()
        if self.is_down:
            raise DocumentsUnavailable("down")
        head = head_of(document)
        if wanted.is_head_only:
            return Reading(head=head)
        if wanted.whole:
            return Reading(head=head, document=document)
        return Reading(head=head, pages=dict(enumerate(document.pages, start=1)))

    async def read_older(self, key: Key, version: str) -> Reading | None:
        document = self.older.get(version)
        await self.gate.wait()
        return None if document is None else Reading(head=head_of(document), document=document)

    async def original_tag(self, key: Key, version: str) -> str | None:
        return None

    async def read_original(self, key: Key, version: str) -> bytes | None:
        return None

    async def list_readable(self, query: CatalogQuery) -> Sequence[CatalogEntry]:
        return ()

    async def readable_ids(self, query: CatalogQuery) -> Sequence[str]:
        return ()

    async def list_heads(self, tenant_id: str, *, after: str, limit: int) -> Sequence[DocumentHead]:
        return ()

    def is_pending(self, tenant_id: str) -> bool:
        return False

    async def has_doc_id(self, doc_id: str) -> bool:
        return True

    async def has_readers(self, tenant_id: str) -> bool:
        return False


@pytest.fixture
def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
def repository(store: GatedStore) -> Iterator[DocumentRepository]:
    made = DocumentRepository(
        store, cache_bytes=10**6, hide_foreign_documents=False, metrics=Metrics()
    )
    yield made
    made.close()


async def text(repository: DocumentRepository) -> str:
    return (await repository.find(CALLER, "doc", PAGE)).pages(1, 1)[0]


def change(store: GatedStore, document: Document) -> None:
    """Replace the document and notify the repository."""
    store.document = document
    assert store.listener is not None
    store.listener.changed(("tenant_1", "doc"))


async def test_a_cached_document_is_not_read_again(
    store: GatedStore, repository: DocumentRepository
) -> None:
    assert [await text(repository), await text(repository)] == ["old", "old"]
    assert store.reads == [PAGE]


async def test_after_a_change_the_head_is_read_and_then_the_missing_parts(
    store: GatedStore, repository: DocumentRepository
) -> None:
    await text(repository)
    change(store, make_document(pages=("old",), readers=Readers(users=frozenset({"user_1"}))))
    assert await text(repository) == "old"
    assert store.reads == [PAGE, HEAD_ONLY]
    change(store, make_document(pages=("new",)))
    assert await text(repository) == "new"
    assert store.reads == [PAGE, HEAD_ONLY, HEAD_ONLY, PAGE]


async def test_a_read_that_was_overtaken_by_a_change_is_not_cached(
    store: GatedStore, repository: DocumentRepository
) -> None:
    store.gate.clear()
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        reading = group.create_task(text(repository))
        await until(lambda: bool(store.reads))
        change(store, make_document(pages=("new",)))
        store.gate.set()
    assert reading.result() == "old"  # as of the start of the call
    assert await text(repository) == "new"


async def test_after_missed_changes_everything_is_read_again(
    store: GatedStore, repository: DocumentRepository
) -> None:
    await text(repository)
    store.document = make_document(pages=("new",))
    repository.all_changed()
    assert await text(repository) == "new"


async def test_while_notifications_are_down_each_call_reads_from_the_store(
    store: GatedStore, repository: DocumentRepository
) -> None:
    await text(repository)
    store.is_current = False
    store.document = make_document(pages=("old",), readers=Readers())
    with pytest.raises(AccessDenied):
        await text(repository)
    store.is_down = True
    with pytest.raises(DocumentsUnavailable):
        await text(repository)


async def test_cached_documents_are_served_while_the_store_is_down(
    store: GatedStore, repository: DocumentRepository
) -> None:
    await text(repository)
    store.is_down = True
    assert await text(repository) == "old"
    with pytest.raises(DocumentsUnavailable):
        await repository.find(CALLER, "doc", WHOLE)


async def test_a_held_document_is_looked_up_in_the_store_once(
    store: GatedStore, repository: DocumentRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Key] = []

    async def read_nothing(key: Key, wanted: Wanted) -> None:
        reads.append(key)

    monkeypatch.setattr(store, "read", read_nothing)
    repository.hold(make_document(pages=("built in",)))
    assert [await text(repository), await text(repository)] == ["built in", "built in"]
    assert reads == [("tenant_1", "doc")]


async def test_the_total_wait_of_one_call_is_bounded(
    store: GatedStore, repository: DocumentRepository
) -> None:
    store.timeout_s = 0.05
    store.gate.clear()
    with pytest.raises(DocumentsUnavailable, match="in time"):
        await text(repository)
    store.gate.set()
    store.timeout_s = None
    assert await text(repository) == "old"


@each_row("letter", ["a", "ж", "\U0001f600"])
def test_the_size_includes_the_utf8_form_that_serialization_caches(letter: str) -> None:
    document = make_document(pages=("".join(letter for _ in range(10_000)),))
    entry = CachedDocument(Reading(head=head_of(document), document=document))
    to_json(document.pages)
    assert entry.size_bytes >= sum(map(sys.getsizeof, document.pages))


async def test_an_older_version_overtaken_by_a_change_is_not_cached(
    store: GatedStore, repository: DocumentRepository
) -> None:
    older = make_document(pages=("older",))
    version = head_of(older).version
    store.older[version] = older
    await text(repository)
    store.gate.clear()
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        reading = group.create_task(repository.find_version(CALLER, "doc", version, PAGE))
        await asyncio.sleep(0)
        store.older.clear()  # the document was removed and added again
        change(store, store.document)
        store.gate.set()
    assert reading.result().pages(1, 1) == ("older",)
    with pytest.raises(VersionNotKept):
        await repository.find_version(CALLER, "doc", version, PAGE)
