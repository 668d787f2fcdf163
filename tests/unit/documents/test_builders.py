import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.builders import Searcher
from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.search.search_index import (
    INDEX_BYTES,
    NOTHING_SIMILAR,
    SearchIndex,
    build_index,
)
from mcp_tools_proxy.domain.document import Document, Hit
from mcp_tools_proxy.domain.errors import ShuttingDown
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.builders import make_caller, make_document


class Builder:
    """Builds real indexes while ``gate`` is open; the first ``failing`` builds fail."""

    def __init__(self) -> None:
        self.built: list[Document] = []
        self.threads: set[int] = set()
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.failing = 0

    def __call__(self, document: Document) -> SearchIndex:
        self.begun.set()
        assert self.gate.wait(BOUND_S)
        self.built.append(document)
        self.threads.add(threading.get_ident())
        if self.failing:
            self.failing -= 1
            raise OSError("no memory")
        return build_index(document)


@pytest.fixture
def builder() -> Builder:
    return Builder()


class Documents:
    """A repository over a folder, and searches in its documents."""

    def __init__(self, root: Path, store: FolderStore, builder: Builder, max_bytes: int) -> None:
        self.metrics = Metrics()
        self._root = root
        self._store = store
        self.repository = DocumentRepository(
            store,
            cache_bytes=max_bytes,
            hide_foreign_documents=False,
            metrics=self.metrics,
            build_index=builder,
        )

    async def put(self, *documents: Document) -> None:
        for document in documents:
            write_document(self._root, document, replace=True)
        await self._store.load()

    async def search(
        self, doc_id: str = "doc", query: str = "text", tenant_id: str = "tenant_1"
    ) -> list[str]:
        caller = make_caller(tenant_id=tenant_id)
        found = await self.repository.find(caller, doc_id, WHOLE)
        hits = (await self.repository.search(found, query, max_results=3)).hits
        return [hit.snippet for hit in hits]

    @property
    def builds(self) -> float | None:
        return self.metrics.registry.get_sample_value("mcp_proxy_search_index_builds_total")


MakeDocuments = Callable[..., Documents]


@pytest.fixture
def make_documents(root: Path, folder: FolderStore, builder: Builder) -> Iterator[MakeDocuments]:
    made: list[Documents] = []

    def make(max_bytes: int = 10**9) -> Documents:
        made.append(Documents(root, folder, builder, max_bytes))
        return made[-1]

    yield make
    builder.gate.set()
    for documents in made:
        documents.repository.close()


@pytest.fixture
async def documents(make_documents: MakeDocuments) -> Documents:
    made = make_documents()
    await made.put(make_document())
    return made


async def test_an_index_is_built_once(documents: Documents, builder: Builder) -> None:
    assert await documents.search() == await documents.search()
    assert len(builder.built) == 1


async def test_simultaneous_callers_share_one_build(documents: Documents, builder: Builder) -> None:
    await asyncio.gather(*(documents.search() for _ in range(20)))
    assert len(builder.built) == 1


@pytest.mark.requirement("T-07")
async def test_a_build_runs_in_another_thread(documents: Documents, builder: Builder) -> None:
    await documents.search()
    assert builder.threads.isdisjoint({threading.get_ident()})


@pytest.mark.requirement("T-07")
async def test_a_long_build_does_not_block_the_event_loop(
    documents: Documents, builder: Builder
) -> None:
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(documents.search())
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        assert not waiting.done()
        builder.gate.set()


class RecordedIndex(SearchIndex):
    """An index without results that calls ``on_search`` instead of searching."""

    def __init__(self, on_search: Callable[[], None], *, quick: bool) -> None:
        self.text_bytes = 0
        self._on_search = on_search
        self._is_quick = quick

    def is_quick(self, query: str) -> bool:
        return self._is_quick

    def search(
        self, query: str, max_results: int, similar: Mapping[int, float] = NOTHING_SIMILAR
    ) -> tuple[Hit, ...]:
        self._on_search()
        return ()


@pytest.fixture
def searcher() -> Iterator[Searcher]:
    made = Searcher()
    yield made
    made.close()


@pytest.mark.requirement("T-07")
async def test_quick_searches_yield_to_other_calls(searcher: Searcher) -> None:
    order: list[str] = []
    index = RecordedIndex(lambda: order.append("search"), quick=True)

    async def other_call() -> None:
        for _ in range(9):
            order.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(*(searcher.search(index, "text", 3) for _ in range(3)), other_call())
    assert order.count("search") == 3
    assert ("search", "search") not in pairwise(order)


@pytest.mark.requirement("T-07")
@pytest.mark.parametrize("quick", [True, False])
async def test_only_a_quick_search_runs_on_the_event_loop(searcher: Searcher, quick: bool) -> None:
    threads: list[int] = []
    index = RecordedIndex(lambda: threads.append(threading.get_ident()), quick=quick)
    await searcher.search(index, "text", 3)
    assert [thread == threading.get_ident() for thread in threads] == [quick]


async def test_a_cancelled_first_caller_does_not_cancel_the_build(
    documents: Documents, builder: Builder
) -> None:
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(documents.search())
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        second = tasks.create_task(documents.search())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        builder.gate.set()
    assert first.cancelled()
    assert second.result()
    assert len(builder.built) == 1


async def test_a_failed_build_fails_all_waiting_callers(
    documents: Documents, builder: Builder
) -> None:
    builder.failing = 1
    await documents.repository.find(make_caller(tenant_id="tenant_1"), "doc", WHOLE)
    results = await asyncio.gather(documents.search(), documents.search(), return_exceptions=True)
    assert [type(result) for result in results] == [OSError, OSError]


async def test_a_failed_build_is_retried_by_the_next_caller(
    documents: Documents, builder: Builder
) -> None:
    builder.failing = 1
    with pytest.raises(OSError, match="no memory"):
        await documents.search()
    assert await documents.search()


async def test_a_replaced_document_gets_a_new_index(documents: Documents) -> None:
    await documents.put(make_document(pages=("old",)))
    await documents.search()
    await documents.put(make_document(pages=("new",)))
    assert await documents.search(query="old new") == ["new"]


async def test_the_index_of_a_replaced_document_is_not_counted(documents: Documents) -> None:
    await documents.put(make_document(pages=("o" * 10_000,)))
    await documents.search()
    await documents.put(make_document(pages=("new",)))
    await documents.search()
    counted = documents.metrics.registry.get_sample_value("mcp_proxy_document_cache_bytes")
    assert INDEX_BYTES < (counted or 0) < INDEX_BYTES + 5_000


async def test_the_least_recently_used_documents_are_evicted(
    make_documents: MakeDocuments, builder: Builder
) -> None:
    documents = make_documents(max_bytes=2 * (INDEX_BYTES + 5_000))
    await documents.put(*(make_document(doc_id=name, pages=("x" * 100,)) for name in "abc"))
    for doc_id in "abacab":
        await documents.search(doc_id)
    assert [document.doc_id for document in builder.built] == ["a", "b", "c", "b"]


async def test_a_document_over_the_cache_limit_can_still_be_searched(
    make_documents: MakeDocuments, builder: Builder
) -> None:
    documents = make_documents(max_bytes=1)
    await documents.put(make_document())
    assert await documents.search() == await documents.search() != []
    assert len(builder.built) == 1


async def test_documents_of_two_tenants_with_the_same_id_have_separate_indexes(
    documents: Documents, builder: Builder
) -> None:
    await documents.put(*(make_document(tenant_id=tenant) for tenant in ("acme", "globex")))
    for tenant in ("acme", "globex", "acme"):
        await documents.search(tenant_id=tenant)
    assert [document.tenant_id for document in builder.built] == ["acme", "globex"]


async def test_successful_builds_are_counted(documents: Documents, builder: Builder) -> None:
    builder.failing = 1
    await asyncio.gather(documents.search(), return_exceptions=True)
    await documents.search()
    assert documents.builds == 1


async def test_a_build_still_queued_at_shutdown_fails_with_an_error(
    documents: Documents, builder: Builder
) -> None:
    await documents.put(make_document(doc_id="queued"))
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(outcome(documents, "doc"))
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        caller = make_caller(tenant_id="tenant_1")
        await documents.repository.find(caller, "queued", WHOLE)  # so that it waits for the build
        queued = tasks.create_task(outcome(documents, "queued"))
        await asyncio.sleep(0)
        documents.repository.close()
        builder.gate.set()
    assert queued.result() is ShuttingDown


async def outcome(documents: Documents, doc_id: str) -> type[Exception] | None:
    try:
        await documents.search(doc_id)
    except (ShuttingDown, OSError) as error:
        return type(error)
    return None


@pytest.mark.requirement("T-07")
async def test_a_small_document_does_not_wait_for_the_index_of_a_large_one(
    root: Path, folder: FolderStore
) -> None:
    gate = threading.Event()

    def build(document: Document) -> SearchIndex:
        assert document.doc_id == "small" or gate.wait(BOUND_S)
        return build_index(document)

    repository = DocumentRepository(
        folder,
        cache_bytes=10**9,
        hide_foreign_documents=False,
        metrics=Metrics(),
        build_index=build,
    )
    repository.hold(make_document(doc_id="small"))
    repository.hold(make_document(doc_id="large", pages=["a word " * 50_000]))
    caller = make_caller(tenant_id="tenant_1")
    large, small = [await repository.find(caller, it, WHOLE) for it in ("large", "small")]
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        slow = group.create_task(repository.search(large, "word", max_results=1))
        await repository.search(small, "text", max_results=1)
        assert not slow.done()
        gate.set()
    repository.close()
