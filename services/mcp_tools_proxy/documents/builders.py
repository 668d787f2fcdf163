"""Threads for index builds and searches, so that neither blocks other calls."""

import asyncio
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from mcp_tools_proxy.documents.search.search_index import NOTHING_SIMILAR, SearchIndex
from mcp_tools_proxy.domain.document import Document, Hit
from mcp_tools_proxy.domain.errors import ShuttingDown

BUILDER_MAX_CHARS = (200_000, 5_000_000, math.inf)
"""Largest document, in characters, of each builder thread: a small document does not wait for a
large one, possibly of another tenant."""

T = TypeVar("T")


class Builders:
    """Threads that build from documents, one build at a time each; for one event loop.

    One thread per entry of BUILDER_MAX_CHARS: more would only take the GIL from the loop.
    """

    def __init__(self) -> None:
        self._threads = tuple(
            ThreadPoolExecutor(max_workers=1, thread_name_prefix="build") for _ in BUILDER_MAX_CHARS
        )
        self._closed = False

    def start(self, document: Document, build: Callable[[Document], T]) -> asyncio.Future[T]:
        """Start a build from a document. Raises ShuttingDown once closed."""
        if self._closed:
            raise shutting_down()
        size = sum(map(len, document.pages))
        thread = self._threads[next(n for n, most in enumerate(BUILDER_MAX_CHARS) if size <= most)]
        return asyncio.get_running_loop().run_in_executor(thread, build, document)

    def close(self) -> None:
        """Refuse further builds and cancel queued ones; both raise ShuttingDown."""
        self._closed = True
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)


async def built(build: asyncio.Future[T]) -> T:
    """Wait for a shared build; a cancelled caller does not cancel it.

    Raises the build's exceptions, and ShuttingDown if it was cancelled.
    """
    try:
        return await asyncio.shield(build)
    except asyncio.CancelledError:
        if build.cancelled():
            raise shutting_down() from None
        raise


class Searcher:
    """Runs searches; for one event loop.

    Quick searches run on the loop, which saves 0.07 to 0.2 ms of CPU each, but only one per loop
    iteration: with several, other calls took 29 ms instead of 1.1 (p50, 16 callers). Slower
    searches share one thread; more threads would only take the GIL from the loop.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._turn = asyncio.Lock()
        self._searched = False
        """Whether a quick search has run in this iteration of the event loop."""
        self._closed = False

    async def search(
        self,
        index: SearchIndex,
        query: str,
        max_results: int,
        similar: Mapping[int, float] = NOTHING_SIMILAR,
    ) -> tuple[Hit, ...]:
        """Search (SearchIndex.search). Raises ShuttingDown once closed."""
        search = partial(index.search, query, max_results, similar)
        return await (self._search_here(search) if index.is_quick(query) else self.call(search))

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of slower searches. Raises ShuttingDown once closed."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        """Refuse further searches."""
        self._closed = True
        self._thread.shutdown(wait=False)

    async def _search_here(self, search: Callable[[], tuple[Hit, ...]]) -> tuple[Hit, ...]:
        async with self._turn:
            if self._searched:
                await asyncio.sleep(0)
            self._check_open()
            self._searched = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
            return search()

    def _begin_turn(self) -> None:
        self._searched = False

    def _check_open(self) -> None:
        if self._closed:
            raise shutting_down()


def shutting_down() -> ShuttingDown:
    """Return the error for a call while the process stops."""
    return ShuttingDown("this replica is stopping; send the call again")
