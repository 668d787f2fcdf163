"""Searches across the documents of a tenant that the caller can read."""

import asyncio
import hashlib
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp_tools_proxy.documents.builders import shutting_down
from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.document_store import (
    CatalogQuery,
    DocumentFilter,
    DocumentStore,
    Key,
    Wanted,
    folded_names,
)
from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.documents.search.analysis import analysis_of, language_named
from mcp_tools_proxy.documents.search.searched_text import blanked
from mcp_tools_proxy.documents.search.snippets import MatchFinder
from mcp_tools_proxy.documents.search.tenant_index import (
    BATCH_CHARS,
    NOT_COUNTED,
    Progress,
    TenantDocuments,
    TenantIndex,
)
from mcp_tools_proxy.documents.search.tenant_index_entries import (
    FORMAT,
    IndexedPlace,
    document_term,
    reader_terms,
    tag_term,
)
from mcp_tools_proxy.documents.search.tenant_index_files import IndexDamaged, IndexFiles, called
from mcp_tools_proxy.documents.search.tenant_index_snapshot import (
    Candidate,
    Candidates,
    Filters,
    IndexSnapshot,
)
from mcp_tools_proxy.documents.visible_text import visible_page, visible_text
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import DocumentHead, Hit, PageSpan
from mcp_tools_proxy.domain.errors import DocumentRefused, DocumentsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage import cache_folder

ATTEMPTS = 5
"""Search attempts to replace hits that fail the access check."""

SEARCH_THREADS = 2

STEPS_AT_ONCE = 2
"""Indexes that are updated at once; a tenant's document of 60 MB blocked those of all others."""

MAX_OPEN = 32
"""Maximum open indexes; a reopened one is compared with the documents again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQuery:
    """A query across the documents that ``caller`` can read and is bound to.

    If not None, ``doc_ids`` and ``filter`` limit the documents, and each has one of ``tags``.
    """

    caller: Caller
    text: str
    max_results: int
    tags: Sequence[str] | None = None
    doc_ids: Sequence[str] | None = None
    filter: DocumentFilter | None = None

    def admits(self, head: DocumentHead) -> bool:
        """Return whether the filter admits a document, which may have changed since a list."""
        return self.filter is None or self.filter.admits(head, folded_names(head)[2:])


MAX_COPIES = 10
"""Maximum copies named for a document."""


class FoundHit(NamedTuple):
    """A hit in a document; ``copies`` are other documents with the same pages."""

    document: CachedDocument
    hit: Hit
    copies: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlaces:
    """Hits, best first; ``progress`` if the index lacks documents of the caller."""

    places: Sequence[FoundHit]
    progress: Progress | None


class TenantIndexes:
    """Opens the indexes of tenants on first use and updates them in turn.

    The most recently used MAX_OPEN stay open. ``run`` updates them until cancelled. ``changed`` and
    ``all_changed`` implement ChangeListener.
    """

    def __init__(
        self,
        folder: Path,
        origin: str,
        documents: TenantDocuments,
        *,
        batch_chars: int = BATCH_CHARS,
    ) -> None:
        """``origin`` identifies the store, so that two stores can share a folder."""
        name = hashlib.sha256(origin.encode(errors="surrogatepass")).hexdigest()[:24]
        self._root = folder / f"tenant-search-{FORMAT}-{name}"
        self._documents = documents
        self._batch_chars = batch_chars
        self._executor = ThreadPoolExecutor(STEPS_AT_ONCE, thread_name_prefix="tenant-index")
        self._indexes: OrderedDict[str, TenantIndex] = OrderedDict()
        self._busy: set[TenantIndex] = set()
        self._has_work = asyncio.Event()
        self._stop = threading.Event()

    def __repr__(self) -> str:
        return f"<TenantIndexes {str(self._root)!r}: {len(self._indexes)} open>"

    def use(self, tenant_id: str) -> TenantIndex:
        """Return the index of a tenant, which opens in the background."""
        index = self._indexes.get(tenant_id)
        if index is None:
            files = IndexFiles(self._root, tenant_id, self._stop)
            index = TenantIndex(
                tenant_id, files, self._documents, self._executor, batch_chars=self._batch_chars
            )
            self._indexes[tenant_id] = index
            self._has_work.set()
            self._close_unused()
        self._indexes.move_to_end(tenant_id)
        return index

    async def repair(self, index: TenantIndex, damage: IndexDamaged) -> None:
        """Replace an index that a search found damaged."""
        await index.repair(damage)
        self._has_work.set()

    def changed(self, key: Key) -> None:
        """Note that a document may have changed."""
        index = self._indexes.get(key[0])
        if index is not None:
            index.note(key[1])
            self._has_work.set()

    def all_changed(self) -> None:
        """Note that any document may have changed."""
        for index in self._indexes.values():
            index.note_all()
        self._has_work.set()

    async def run(self) -> None:
        """Update the open indexes in turn, a few at a time, until cancelled."""
        async with asyncio.TaskGroup() as steps:
            while True:
                self._has_work.clear()
                now = asyncio.get_running_loop().time()
                idle = [it for it in self._indexes.values() if it not in self._busy]
                times = {it: at for it in idle if (at := it.next_step_at) is not None}
                due = [it for it, at in times.items() if at <= now]
                for index in sorted(due, key=lambda it: it.last_step_at):
                    if self._has_turn(index):
                        self._busy.add(index)
                        steps.create_task(self._step(index))
                await self._wait(min((at for at in times.values() if at > now), default=None))

    async def close(self) -> None:
        """Stop, and release the indexes for other processes."""
        self._stop.set()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)
        for index in self._indexes.values():
            index.close()
        self._indexes.clear()

    def _has_turn(self, index: TenantIndex) -> bool:
        """Return whether a step of the index can begin; long ones leave a place for others."""
        if len(self._busy) == STEPS_AT_ONCE:
            return False
        return not (index.is_long and any(it.is_long for it in self._busy))

    async def _step(self, index: TenantIndex) -> None:
        try:
            await index.step()
        finally:
            self._busy.discard(index)
            self._close_unused()
            self._has_work.set()

    async def _wait(self, until: float | None) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._has_work.wait()
        except TimeoutError:
            return

    def _close_unused(self) -> None:
        while len(self._indexes) > MAX_OPEN:
            unused = next(it for it in self._indexes.values() if it not in self._busy)
            del self._indexes[unused.tenant_id]
            unused.close()


class TenantSearch:
    """Finds places in an index and checks each with the repository before it is shown.

    The repository decides by the current content of the store. Refused documents, and those whose
    version is not the indexed one, are excluded, and the search is repeated to fill the result
    (ATTEMPTS times in all).
    """

    def __init__(self, repository: DocumentRepository, indexes: TenantIndexes) -> None:
        self._repository = repository
        self._indexes = indexes
        self._threads = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="tenant-search")
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<TenantSearch {self._indexes!r}>"

    async def search(self, query: TenantQuery) -> FoundPlaces:
        """Return the best places. Raises DocumentsUnavailable, and ShuttingDown after ``close``."""
        if self._is_closed:
            raise shutting_down()
        index = self._indexes.use(query.caller.tenant_id)
        await index.settle()
        places: Sequence[FoundHit] = ()
        try:
            if (snapshot := index.snapshot) is not None:
                places = await self._places(snapshot, query, index.expired(datetime.now(UTC)))
            progress = await index.progress(query.caller)
        except IndexDamaged as error:
            await self._indexes.repair(index, error)
            progress = NOT_COUNTED
        _check_failure(index, progress, places)
        if progress is not None and not index.is_known:
            progress = await self._counted(progress, query.caller)
        return FoundPlaces(places=places, progress=progress)

    async def has_untrusted(self, caller: Caller, doc_ids: Iterable[str]) -> bool:
        """Return whether one of the documents is marked untrusted. Raises DocumentsUnavailable."""
        for doc_id in doc_ids:
            with suppress(DocumentRefused):
                if (await self._repository.find(caller, doc_id)).head.is_untrusted:
                    return True
        return False

    async def _counted(self, progress: Progress, caller: Caller) -> Progress | None:
        """Count the documents of a caller while the index has not compared them yet."""
        try:
            readable = await self._repository.readable_ids(CatalogQuery(caller=caller, limit=0))
        except DocumentsUnavailable:
            return progress
        if not readable and not self._repository.is_pending(caller.tenant_id):
            return None
        return Progress(done=progress.done, total=max(progress.total, len(readable)))

    def close(self) -> None:
        """Refuse further searches."""
        self._is_closed = True
        self._threads.shutdown(wait=False)

    async def _places(
        self, snapshot: IndexSnapshot, query: TenantQuery, refused: set[str]
    ) -> Sequence[FoundHit]:
        loop = asyncio.get_running_loop()
        admitted = None
        if query.filter is not None:
            listed = CatalogQuery(caller=query.caller, filter=query.filter, limit=0)
            admitted = await self._repository.readable_ids(listed)
        checks = _Checks(self._repository, query)
        for _ in range(ATTEMPTS):
            found = await loop.run_in_executor(
                self._threads, partial(_find, snapshot, query, admitted, refused)
            )
            checked = await checks.first(found.places, query.max_results)
            refused |= checks.refused
            if len(checked) == query.max_results or not checks.refused:
                break
            checks.refused.clear()
        if not checked and checks.unavailable is not None:
            raise checks.unavailable
        cut = partial(_hits, checked, found.candidates.weights, checks.copies)
        return await loop.run_in_executor(self._threads, cut)


@dataclass(frozen=True, slots=True)
class _Ranked:
    candidates: Candidates
    places: Sequence[tuple[Candidate, IndexedPlace]]


@dataclass(frozen=True, slots=True)
class _Checked:
    """A hit in a document that the caller can read, of its current version."""

    score: float
    place: IndexedPlace
    document: CachedDocument


class _Checks:
    """Reads the documents of hits for a caller; inaccessible ones and copies are ``refused``."""

    def __init__(self, repository: DocumentRepository, query: TenantQuery) -> None:
        self.refused: set[str] = set()
        self.unavailable: DocumentsUnavailable | None = None
        self.copies: defaultdict[str, list[str]] = defaultdict(list)
        """Copies of the documents that are shown, by content."""
        self._shown: dict[str, str] = {}
        self._repository = repository
        self._query = query

    async def first(
        self, places: Sequence[tuple[Candidate, IndexedPlace]], count: int
    ) -> Sequence[_Checked]:
        """Return the first accessible hits."""
        checked: list[_Checked] = []
        while places and len(checked) < count:
            wanted = count - len(checked)
            read = await asyncio.gather(*(self._read(*place) for place in places[:wanted]))
            checked += (it for it in read if it is not None and not self._is_copy(it.place))
            places = [it for it in places[wanted:] if self._is_wanted(it[1])]
        return checked

    def _is_copy(self, place: IndexedPlace) -> bool:
        """Return whether a document with the same pages is shown; note the copy."""
        if self._shown.setdefault(place.content, place.doc_id) == place.doc_id:
            return False
        copies = self.copies[place.content]
        if place.doc_id not in copies and len(copies) < MAX_COPIES:
            copies.append(place.doc_id)
        self.refused.add(place.doc_id)
        return True

    def _is_wanted(self, place: IndexedPlace) -> bool:
        """Return whether a place has to be read: not of a refused document or known copy."""
        if place.doc_id in self.refused:
            return False
        is_shown = self._shown.get(place.content, place.doc_id) == place.doc_id
        return is_shown or len(self.copies[place.content]) < MAX_COPIES or not self._is_copy(place)

    async def _read(self, candidate: Candidate, place: IndexedPlace) -> _Checked | None:
        wanted = WHOLE if place.start is None else Wanted(pages=(place.page, place.page))
        try:
            document = await self._repository.find(self._query.caller, place.doc_id, wanted)
        except DocumentRefused:
            document = None
        except DocumentsUnavailable as error:
            document, self.unavailable = None, error
        if (
            document is None
            or document.head.version != place.version
            or not self._query.admits(document.head)
        ):
            self.refused.add(place.doc_id)
            return None
        return _Checked(candidate.score, place, document)


def _find(
    snapshot: IndexSnapshot,
    query: TenantQuery,
    admitted: frozenset[str] | None,
    refused: set[str],
) -> _Ranked:
    named = [query.doc_ids, query.caller.documents, admitted]
    filters = Filters(
        readers=reader_terms(query.caller),
        documents=[
            [document_term(doc_id) for doc_id in doc_ids]
            for doc_ids in named
            if doc_ids is not None
        ],
        tags=None if query.tags is None else [tag_term(tag) for tag in query.tags],
        excluded=[document_term(doc_id) for doc_id in refused],
    )
    candidates = called(lambda: snapshot.search(query.text, filters))
    places = called(lambda: [(it, snapshot.place(it)) for it in candidates.ranked])
    return _Ranked(candidates, places)


def _hits(
    checked: Sequence[_Checked], weights: Mapping[str, int], copies: Mapping[str, Sequence[str]]
) -> Sequence[FoundHit]:
    return [
        FoundHit(it.document, _hit(it, weights), copies.get(it.place.content, ())) for it in checked
    ]


def _hit(checked: _Checked, weights: Mapping[str, int]) -> Hit:
    place = checked.place
    finder = MatchFinder(weights, analysis_of(language_named(place.language)))
    span = None
    if place.start is None or place.end is None:
        chunk = visible_text(_chunk_text(checked), text_format=place.text_format)
        found = finder.quote(chunk, 0, len(chunk.text))
    else:
        (text,) = checked.document.pages(place.page, place.page)
        page = visible_page(blanked(text, place.repeated), text_format=place.text_format)
        found = finder.quote(page, page.level_of(place.start), page.level_of(place.end))
        span = PageSpan(place.page, found.start, found.end)
    return Hit(
        snippet=found.snippet,
        page=place.page,
        score=checked.score,
        section_id=place.section_at(found.match if span else 0),
        chunk_id=place.chunk_id,
        span=span,
    )


def _chunk_text(checked: _Checked) -> str:
    """Return the text of a chunk from the file that is not on its page."""
    document = checked.document.document
    return "" if document is None else chunks_of(document)[checked.place.chunk_index].text


def _check_failure(index: TenantIndex, progress: Progress | None, places: Sequence[object]) -> None:
    """Raise DocumentsUnavailable if nothing is found because the index cannot be written."""
    if index.failure is not None and progress is not None and not (progress.done or places):
        raise DocumentsUnavailable(
            "the documents cannot be searched together now, because their index cannot be "
            "written; search in single documents with doc_local_search, or tell the user"
        )


def build_search_indexes(
    store: DocumentStore,
    repository: DocumentRepository,
    *,
    cache_dir: Path | None,
    folder: Path,
    url: str | None,
) -> TenantIndexes:
    """Build the indexes for a folder, or for the database of ``url``."""
    origin = str(folder.absolute()) if url is None else _database_of(url)
    documents = TenantDocuments(store, repository.held)
    indexes = TenantIndexes(cache_dir or cache_folder.default_folder(), origin, documents)
    repository.listen(indexes)
    return indexes


def _database_of(url: str) -> str:
    """Return the part of a URL that identifies the database, without user and password."""
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
