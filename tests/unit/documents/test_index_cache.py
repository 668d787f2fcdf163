"""The cache of indexes: one build for all who wait, bounded, and off the event loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from mcp_tools_proxy.documents.index_cache import INDEX_BYTES, IndexCache
from mcp_tools_proxy.documents.search_index import SearchIndex, build_index
from mcp_tools_proxy.domain.document import Document, Hit
from mcp_tools_proxy.domain.errors import ShuttingDown
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document


class Builder:
    """Builds indexes for real, but only while ``gate`` is open; ``failing`` times it fails."""

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


@pytest.fixture
def make_cache(builder: Builder) -> Iterator[Callable[..., IndexCache]]:
    made: list[IndexCache] = []

    def make(metrics: Metrics | None = None, max_bytes: int = 10**9) -> IndexCache:
        made.append(IndexCache(metrics=metrics or Metrics(), max_bytes=max_bytes, build=builder))
        return made[-1]

    yield make
    builder.gate.set()
    for cache in made:
        cache.close()


async def test_an_index_is_built_once(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, document = make_cache(), make_document()
    assert await cache.get(document) is await cache.get(document)
    assert builder.built == [document]


async def test_simultaneous_callers_share_one_build(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, document = make_cache(), make_document()
    indexes = await asyncio.gather(*(cache.get(document) for _ in range(20)))
    assert (len(set(indexes)), len(builder.built)) == (1, 1)


@pytest.mark.requirement("T-07")
async def test_a_build_runs_in_another_thread(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    await make_cache().get(make_document())
    assert builder.threads.isdisjoint({threading.get_ident()})


@pytest.mark.requirement("T-07")
async def test_the_event_loop_runs_on_while_a_build_takes_long(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache = make_cache()
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(cache.get(make_document()))
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        assert not waiting.done()
        builder.gate.set()


class RecordedIndex(SearchIndex):
    """An index that finds nothing and calls ``on_search`` instead of searching."""

    def __init__(self, on_search: Callable[[], None], *, quick: bool) -> None:
        self.text_bytes = 0
        self._on_search = on_search
        self._is_quick = quick

    def is_quick(self, query: str) -> bool:
        return self._is_quick

    def search(self, query: str, max_results: int) -> tuple[Hit, ...]:
        self._on_search()
        return ()


class Searches:
    """Makes caches whose searches are recorded: their order among other calls, their threads."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.threads: list[int] = []
        self.caches: list[IndexCache] = []

    def cache(self, *, quick: bool) -> IndexCache:
        cache = IndexCache(
            metrics=Metrics(), build=lambda _: RecordedIndex(self._record, quick=quick)
        )
        self.caches.append(cache)
        return cache

    def _record(self) -> None:
        self.order.append("search")
        self.threads.append(threading.get_ident())


@pytest.fixture
def searches() -> Iterator[Searches]:
    made = Searches()
    yield made
    for cache in made.caches:
        cache.close()


@pytest.mark.requirement("T-07")
async def test_quick_searches_take_turns_with_the_other_calls(searches: Searches) -> None:
    document, order = make_document(), searches.order
    cache = searches.cache(quick=True)
    await cache.get(document)

    async def other_call() -> None:
        for _ in range(9):
            order.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(*(cache.search(document, "text", 3) for _ in range(3)), other_call())
    assert order.count("search") == 3
    assert ("search", "search") not in pairwise(order)


@pytest.mark.requirement("T-07")
@pytest.mark.parametrize("quick", [True, False])
async def test_only_a_quick_search_runs_on_the_event_loop(searches: Searches, quick: bool) -> None:
    await searches.cache(quick=quick).search(make_document(), "text", 3)
    assert [thread == threading.get_ident() for thread in searches.threads] == [quick]


async def test_a_cancelled_first_caller_leaves_the_build_to_the_others(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, document = make_cache(), make_document()
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(cache.get(document))
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        second = tasks.create_task(cache.get(document))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        builder.gate.set()
    assert first.cancelled()
    assert second.result() is await cache.get(document)


async def test_a_failed_build_reaches_all_who_wait(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, document = make_cache(), make_document()
    builder.failing = 1
    results = await asyncio.gather(cache.get(document), cache.get(document), return_exceptions=True)
    assert [type(result) for result in results] == [OSError, OSError]


async def test_a_failed_build_is_tried_again_by_the_next_caller(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, document = make_cache(), make_document()
    builder.failing = 1
    with pytest.raises(OSError, match="no memory"):
        await cache.get(document)
    assert isinstance(await cache.get(document), SearchIndex)


async def test_a_replaced_document_gets_an_index_of_its_own(
    make_cache: Callable[..., IndexCache],
) -> None:
    cache = make_cache()
    await cache.get(make_document(pages=("old",)))
    index = await cache.get(make_document(pages=("new",)))
    assert [hit.snippet for hit in index.search("old new", 5)] == ["new"]


async def test_a_replaced_documents_index_is_dropped(
    make_cache: Callable[..., IndexCache],
) -> None:
    cache = make_cache()
    await cache.get(make_document(pages=("old",)))
    await cache.get(make_document(pages=("new",)))
    assert f"1 indexes, 0 building, {3 + INDEX_BYTES} of" in repr(cache)


async def test_a_build_for_a_replaced_document_is_not_kept(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, new = make_cache(), make_document(pages=("new",))
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.get(make_document(pages=("older",))))
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        tasks.create_task(cache.get(new))
        await asyncio.sleep(0)
        builder.gate.set()
    assert f"1 indexes, 0 building, {3 + INDEX_BYTES} of" in repr(cache)


async def test_the_index_used_longest_ago_is_evicted(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    a, b, c = (make_document(doc_id=name, pages=("x" * 100,)) for name in "abc")
    cache = make_cache(max_bytes=2 * (100 + INDEX_BYTES))
    for document in (a, b, a, c, a, b):
        await cache.get(document)
    assert builder.built == [a, b, c, b]


async def test_a_document_over_the_bound_is_searched_all_the_same(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache, document = make_cache(max_bytes=1), make_document()
    await cache.get(document)
    await cache.get(document)
    assert builder.built == [document]


async def test_equal_ids_of_two_tenants_have_two_indexes(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache = make_cache()
    acme, globex = (make_document(tenant_id=tenant) for tenant in ("acme", "globex"))
    indexes = {await cache.get(document) for document in (acme, globex, acme)}
    assert (len(indexes), builder.built) == (2, [acme, globex])


async def test_builds_are_counted_and_failures_are_not(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    metrics = Metrics()
    cache = make_cache(metrics)
    builder.failing = 1
    await asyncio.gather(cache.get(make_document()), return_exceptions=True)
    await cache.get(make_document())
    assert metrics.registry.get_sample_value("mcp_proxy_search_index_builds_total") == 1


async def test_the_caller_of_a_build_not_begun_when_the_cache_closes_gets_an_error(
    make_cache: Callable[..., IndexCache], builder: Builder
) -> None:
    cache = make_cache()
    builder.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.get(make_document(doc_id="begun")))
        assert await asyncio.to_thread(builder.begun.wait, BOUND_S)
        queued = tasks.create_task(outcome(cache, make_document(doc_id="queued")))
        await asyncio.sleep(0)
        cache.close()
        builder.gate.set()
    assert queued.result() is ShuttingDown


async def test_a_closed_cache_refuses(make_cache: Callable[..., IndexCache]) -> None:
    cache = make_cache()
    cache.close()
    assert await outcome(cache, make_document()) is ShuttingDown


async def outcome(cache: IndexCache, document: Document) -> type[Exception] | None:
    try:
        await cache.search(document, "server", 3)
    except (ShuttingDown, OSError) as error:
        return type(error)
    return None


@pytest.mark.requirement("T-07")
async def test_a_small_document_does_not_wait_for_a_large_ones_index() -> None:
    gate, small = threading.Event(), make_document(doc_id="small")
    large = make_document(doc_id="large", pages=["a word " * 50_000])

    def build(document: Document) -> SearchIndex:
        assert document is small or gate.wait(BOUND_S)
        return build_index(document)

    cache = IndexCache(metrics=Metrics(), build=build)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        slow = group.create_task(cache.get(large))
        await cache.get(small)
        assert not slow.done()
        gate.set()
    cache.close()
