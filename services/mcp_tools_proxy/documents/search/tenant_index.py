"""Keeps the search index of one tenant up to date, and reports its progress."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_store import HEAD_ONLY, DocumentStore, Key, Wanted, in_time
from mcp_tools_proxy.documents.search.tenant_index_entries import (
    document_term,
    reader_terms,
    stamp_of,
)
from mcp_tools_proxy.documents.search.tenant_index_files import (
    IndexDamaged,
    IndexFailure,
    IndexFiles,
    called,
)
from mcp_tools_proxy.documents.search.tenant_index_snapshot import IndexSnapshot
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass

T = TypeVar("T")

BATCH_CHARS = 8_000_000
"""Characters of documents per commit: about two seconds of work, the most that a stop loses."""

BATCH_DOCUMENTS = 500

RETRY_S = 30.0
"""Seconds before a failed read or write is retried."""

OTHER_PROCESS_S = 1.0
"""Seconds between checks for commits of another process."""

FIRST_WAIT_S = 2.0
WAIT_S = 0.2
"""Seconds that a search waits for unindexed documents: the first search, and later ones."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _MissingDocument:
    """A document missing from the index; ``is_outdated`` if an earlier version is indexed."""

    readers: Readers | None
    chars: int
    is_outdated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Number of up-to-date documents in the index that a caller can read."""

    done: int
    total: int


NOT_COUNTED = Progress(done=0, total=0)

_LISTED_AT_ONCE = 1_000

_WHOLE = Wanted(whole=True)


class TenantDocuments:
    """Reads documents from a store, or those ``held`` in memory that the store lacks.

    For indexing only: results are neither cached nor shown. Raises DocumentsUnavailable.
    """

    def __init__(
        self, store: DocumentStore, held: Callable[[str], Mapping[str, CachedDocument]]
    ) -> None:
        self._store = store
        self._held = held

    async def heads(self, tenant_id: str) -> Sequence[DocumentHead]:
        """Return the heads of all documents of a tenant."""
        found: dict[str, DocumentHead] = {}
        after = ""
        while True:
            async with in_time(self._store):
                heads = await self._store.list_heads(tenant_id, after=after, limit=_LISTED_AT_ONCE)
            found |= {head.doc_id: head for head in heads}
            if len(heads) < _LISTED_AT_ONCE:
                break
            after = heads[-1].doc_id
        held = {doc_id: document.head for doc_id, document in self._held(tenant_id).items()}
        return list((held | found).values())

    def is_pending(self, tenant_id: str) -> bool:
        """Return whether some of the tenant's documents may be unknown yet."""
        return self._store.is_pending(tenant_id)

    async def head(self, key: Key) -> DocumentHead | None:
        """Return the current head of a document, or None."""
        async with in_time(self._store):
            reading = await self._store.read(key, HEAD_ONLY)
        if reading is not None:
            return reading.head
        held = self._held(key[0]).get(key[1])
        return None if held is None else held.head

    async def whole(self, key: Key) -> tuple[Document, DocumentHead] | None:
        """Return a document with its head, or None."""
        async with in_time(self._store):
            reading = await self._store.read(key, _WHOLE)
        if reading is not None and reading.document is not None:
            return reading.document, reading.head
        held = self._held(key[0]).get(key[1])
        if held is None or held.document is None:
            return None
        return held.document, held.head


class TenantIndex:
    """The index of a tenant, updated step by step; for one event loop.

    The index has a stamp (version and readers) of each document. ``step`` compares these stamps
    with the heads of all documents or, later, of those noted as changed: documents with another
    stamp wait to be indexed, and entries of missing documents are removed. It then commits one
    batch and opens a new snapshot for searches. Only the process that holds the lock writes; others
    open its commits and compare again. Blocking calls run in a thread, one at a time per index.
    """

    def __init__(
        self,
        tenant_id: str,
        files: IndexFiles,
        documents: TenantDocuments,
        executor: Executor,
        *,
        batch_chars: int,
    ) -> None:
        self.tenant_id = tenant_id
        self.snapshot: IndexSnapshot | None = None
        self.failure: str | None = None
        self.last_step_at = 0.0
        """Loop time at which the last step began."""
        self._files = files
        self._documents = documents
        self._executor = executor
        self._batch_chars = batch_chars
        self._is_listed = False
        """Whether all documents were listed since the last ``note_all``."""
        self._was_listed = False
        """Whether they were ever listed."""
        self._is_busy = False
        self._is_pending = False
        """Whether the store did not know all documents when they were listed."""
        self._rebuilt_at = -RETRY_S
        self._noted: set[str] = set()
        self._waiting: dict[str, _MissingDocument] = {}
        self._removed: set[str] = set()
        self._stamps: dict[str, str] = {}
        self._expiries: dict[str, datetime] = {}
        self._retry_at = 0.0
        self._settled = asyncio.Event()

    def __repr__(self) -> str:
        return f"<TenantIndex {self._files!r}: {len(self._waiting)} documents to index>"

    @property
    def next_step_at(self) -> float | None:
        """Loop time at which ``step`` has work to do, or None."""
        is_current = self._is_listed and not self._is_pending
        has_work = self._noted or self._waiting or self._removed or not is_current
        return self._retry_at if has_work or self._is_busy else None

    @property
    def is_long(self) -> bool:
        """Whether a step can take much longer than two seconds: all waiting documents are large."""
        return bool(self._waiting) and self._batch_chars < min(
            it.chars for it in self._waiting.values()
        )

    def expired(self, now: datetime) -> set[str]:
        """Return the documents that have expired and may still be in the index."""
        return {doc_id for doc_id, expires_at in self._expiries.items() if expires_at <= now}

    @property
    def is_known(self) -> bool:
        """Whether all documents have been compared with the index."""
        return self._was_listed and not self._is_pending

    def note(self, doc_id: str) -> None:
        """Note that a document may have changed."""
        self._noted.add(doc_id)
        self._settled.clear()

    def note_all(self) -> None:
        """Note that any document may have changed."""
        self._is_listed = False
        self._settled.clear()

    async def settle(self) -> None:
        """Wait briefly for an index that may soon be up to date."""
        if self._settled.is_set() or self._retry_at > _now():
            return
        try:
            async with asyncio.timeout(FIRST_WAIT_S if self.snapshot is None else WAIT_S):
                await self._settled.wait()
        except TimeoutError:
            return

    async def progress(self, caller: Caller) -> Progress | None:
        """Return the progress of the index for a caller; None if complete for that caller."""
        waiting = dict(self._waiting)
        if not waiting and self._was_listed and not self._is_pending:
            return None
        count = partial(_progress, self.snapshot, waiting, caller, is_pending=self._is_pending)
        return await asyncio.to_thread(called, count)

    async def step(self) -> None:
        """Do a part of the work, at most about two seconds."""
        self._is_busy = True
        self.last_step_at = _now()
        try:
            await self._step()
        except IndexDamaged as error:
            log.warning("documents.search_index_damaged", reason=str(error))
            await self._rebuild()
        except (IndexFailure, DocumentsUnavailable) as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - one tenant's index must not stop the gateway
            self._fail(f"{type(error).__name__}: {error}")
        else:
            if self.failure is not None:
                log.info("documents.search_index_back")
            self.failure = None
        finally:
            self._is_busy = False
        if self.next_step_at is None or self.failure is not None:
            self._settled.set()

    async def repair(self, damage: IndexDamaged) -> None:
        """Replace an index that a search found damaged."""
        log.warning("documents.search_index_damaged", reason=str(damage))
        await self._rebuild()

    def close(self) -> None:
        """Release the index for other processes."""
        self._files.close()

    async def _step(self) -> None:
        if not self._is_listed:
            await self._list()
            if self.is_long:
                return
        await self._check_noted()
        if not (self._waiting or self._removed):
            if self._is_pending:  # removals are known only once all files are read
                self._is_listed = False
                self._retry_at = _now() + OTHER_PROCESS_S
            return
        if await self._call(self._files.own):
            await self._write()
        else:
            await self._follow()

    async def _write(self) -> None:
        if self._removed:
            removed = list(self._removed)
            await self._call(partial(self._files.remove, removed))
            self._removed.difference_update(removed)
            for doc_id in removed:
                self._stamps.pop(doc_id, None)
        if batch := await self._read_batch():
            await self._call(partial(self._files.write, batch))
            for _, head in batch:
                self._waiting.pop(head.doc_id, None)
                self._stamps[head.doc_id] = stamp_of(head)
        await self._reopen()

    async def _list(self) -> None:
        """Compare the index with all documents."""
        self._is_listed = True  # before reading, so that later changes are noted
        try:
            self._is_pending = self._documents.is_pending(self.tenant_id)
            heads = await self._documents.heads(self.tenant_id)
            if heads or self._files.exist:
                await self._reopen()
            self._stamps = await self._call(partial(_stamps_in, self.snapshot))
        except BaseException:
            self._is_listed = False
            raise
        self._waiting.clear()
        self._expiries.clear()
        for head in heads:
            self._compare(head)
        listed = {head.doc_id for head in heads}
        self._removed = set() if self._is_pending else self._stamps.keys() - listed
        self._was_listed = True

    async def _check_noted(self) -> None:
        """Compare the index with the documents that may have changed."""
        for doc_id in list(self._noted):
            self._noted.discard(doc_id)
            try:
                head = await self._documents.head((self.tenant_id, doc_id))
            except BaseException:
                self._noted.add(doc_id)
                raise
            self._waiting.pop(doc_id, None)
            self._expiries.pop(doc_id, None)
            self._removed.discard(doc_id)
            if head is not None:
                self._compare(head)
            elif doc_id in self._stamps:
                self._removed.add(doc_id)

    def _compare(self, head: DocumentHead) -> None:
        if head.expires_at is not None:
            self._expiries[head.doc_id] = head.expires_at
        stamp = self._stamps.get(head.doc_id)
        if stamp != stamp_of(head):
            self._waiting[head.doc_id] = _MissingDocument(
                head.readers, head.text_chars, stamp is not None
            )

    async def _read_batch(self) -> Sequence[tuple[Document, DocumentHead]]:
        batch: list[tuple[Document, DocumentHead]] = []
        chars = 0
        # a large document, which takes 18 s at 60 MB, does not delay smaller ones
        for doc_id in sorted(self._waiting, key=lambda it: self._waiting[it].chars):
            if batch and chars + self._waiting[doc_id].chars > self._batch_chars:
                break
            found = await self._whole(doc_id)
            if found is None:
                self._waiting.pop(doc_id, None)
                continue
            batch.append(found)
            chars += found[1].text_chars
            if len(batch) == BATCH_DOCUMENTS:
                break
        return batch

    async def _whole(self, doc_id: str) -> tuple[Document, DocumentHead] | None:
        """Return a document; None if it is gone or unreadable while others are readable."""
        key = (self.tenant_id, doc_id)
        try:
            return await self._documents.whole(key)
        except DocumentsUnavailable:
            await self._documents.head(key)  # raises if no document can be read
            return None

    async def _follow(self) -> None:
        if self._files.are_newer:
            await self._reopen()
            self._is_listed = False
        self._retry_at = _now() + OTHER_PROCESS_S

    async def _reopen(self) -> None:
        self.snapshot = await self._call(self._files.open)

    async def _rebuild(self) -> None:
        """Start over, if this process holds the lock."""
        self.snapshot = None
        self._is_listed = self._was_listed = False
        self._settled.clear()
        try:
            if await self._call(self._files.own):
                await self._call(self._files.reset)
        except IndexFailure as error:
            self._fail(str(error))
        else:
            is_first = self._files.is_owned and _now() - self._rebuilt_at > RETRY_S
            self._retry_at = _now() + (0 if is_first else OTHER_PROCESS_S)
            self._rebuilt_at = _now()

    def _fail(self, reason: str) -> None:
        """Retry later; committed documents stay in use."""
        if self.failure is None:
            log.warning("documents.search_index_failed", reason=reason)
        self.failure = reason
        self._retry_at = _now() + RETRY_S

    def _call(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._executor, function)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _progress(
    snapshot: IndexSnapshot | None,
    waiting: Mapping[str, _MissingDocument],
    caller: Caller,
    *,
    is_pending: bool,
) -> Progress | None:
    """Count the documents that a caller can read; others affect neither number."""
    bound = caller.documents
    missing = outdated = 0
    for doc_id, document in waiting.items():
        if bound is not None and doc_id not in bound:
            continue
        if document.readers is None or document.readers.admit(caller):
            missing += 1
            outdated += document.is_outdated
    if waiting and not missing and not is_pending:
        return None
    done = 0
    if snapshot is not None:
        terms = _terms(bound)
        done = snapshot.count_documents(reader_terms(caller), terms)
    done = max(0, done - outdated)
    return Progress(done=done, total=done + missing)


def _stamps_in(snapshot: IndexSnapshot | None) -> dict[str, str]:
    if snapshot is None:
        return {}
    return called(lambda: {state.doc_id: state.stamp for state in snapshot.states()})


def _terms(doc_ids: Iterable[str] | None) -> Sequence[str] | None:
    return None if doc_ids is None else [document_term(doc_id) for doc_id in doc_ids]
