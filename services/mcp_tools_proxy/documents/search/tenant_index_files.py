"""Files of one tenant's index: opened, written, and rebuilt if damaged.

Several processes can share a folder: the one that holds the lock writes, the others read. Commits
are atomic; uncommitted documents are indexed again.
"""

import fcntl
import hashlib
import os
import re
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import tantivy

from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.documents.search.analysis import ENGLISH, Language, analysis_of, language_of
from mcp_tools_proxy.documents.search.search_index import CHUNKS_BETWEEN_PAUSES
from mcp_tools_proxy.documents.search.tenant_index_entries import (
    DOCUMENT,
    HEAD,
    TOKENIZER,
    document_term,
    entries_of,
    new_schema,
)
from mcp_tools_proxy.documents.search.tenant_index_snapshot import IndexSnapshot
from mcp_tools_proxy.domain.document import Document, DocumentHead
from mcp_tools_proxy.storage.cache_folder import make_private

T = TypeVar("T")

_WRITER_HEAP_BYTES = 32_000_000
"""Allocated as needed while writing; about 10 MB of text become one segment."""

_FULL_BYTES = 1_000_000
"""Free space below which a failure is reported as a full disk; the engine reports a killed
writer."""

_COMMITTED = "meta.json"

_SYSTEM_ERROR = re.compile(r"\bOs \{ code: (\d+)")
"""System errors in the engine's messages, such as too many open files or a read-only folder.
Missing, short or changed files have other messages."""


class IndexFailure(Exception):
    """The files cannot be read or written now: a full disk, a folder of another user."""


class IndexDamaged(IndexFailure):
    """The files exist but are not a valid index."""


class IndexFiles:
    """The index of a tenant below ``root``. Blocking: call in one thread at a time.

    Raises IndexFailure, also for errors without an exception in the engine.
    """

    def __init__(self, root: Path, tenant_id: str, stop: threading.Event) -> None:
        """Setting ``stop`` aborts a running write."""
        name = hashlib.sha256(tenant_id.encode(errors="surrogatepass")).hexdigest()[:32]
        self._root = root
        self._stop = stop
        self._folder = root / name
        self._lock_path = root / f"{name}.lock"
        self._lock: int | None = None
        self._opened: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<IndexFiles {str(self._folder)!r}>"

    @property
    def exist(self) -> bool:
        """Whether anything was committed."""
        return (self._folder / _COMMITTED).exists()

    @property
    def are_newer(self) -> bool:
        """Whether another process has committed since ``open``."""
        return self._commit_mark() != self._opened

    @property
    def is_owned(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock is not None

    def own(self) -> bool:
        """Try to acquire the lock, held until ``close``; return whether this process holds it."""
        if self._lock is None:
            with _failures():
                make_private(self._root)
                lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                except OSError:
                    os.close(lock)
                    raise
                else:
                    self._lock = lock
        return self.is_owned

    def open(self) -> IndexSnapshot | None:
        """Open the last commit; None without one. Raises IndexDamaged."""
        mark = self._commit_mark()
        if mark is None:
            return None
        with _failures():
            make_private(self._root)
        snapshot = called(lambda: IndexSnapshot(tantivy.Index.open(str(self._folder))))
        self._opened = mark
        return snapshot

    def write(self, documents: Iterable[tuple[Document, DocumentHead]]) -> None:
        """Add or replace documents, and commit, once per language.

        The engine analyses all texts of a commit alike, in its own thread, which halves the time.
        """
        groups: defaultdict[Language, list[tuple[Document, DocumentHead]]] = defaultdict(list)
        for document, head in documents:
            groups[language_of(document)].append((document, head))
        for language, group in groups.items():
            self._commit(partial(self._put, group, language), language)

    def _put(
        self,
        documents: Iterable[tuple[Document, DocumentHead]],
        language: Language,
        writer: tantivy.IndexWriter,
    ) -> None:
        for document, head in documents:
            _remove(writer, document.doc_id)
            entries = entries_of(document, head, language)
            for entry in paced(entries, every=CHUNKS_BETWEEN_PAUSES):
                if self._stop.is_set():
                    raise IndexFailure("the gateway is stopping")
                writer.add_document(entry)

    def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove documents from the index, and commit."""

        def remove(writer: tantivy.IndexWriter) -> None:
            for doc_id in doc_ids:
                _remove(writer, doc_id)

        self._commit(remove, ENGLISH)

    def reset(self) -> None:
        """Remove the files of a damaged index, if this process holds the lock."""
        with _failures():
            if self.is_owned and self._folder.exists():
                shutil.rmtree(self._folder)

    def close(self) -> None:
        """Release the lock for other processes."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _commit(self, change: Callable[[tantivy.IndexWriter], None], language: Language) -> None:
        with _failures():
            self._folder.mkdir(mode=0o700, exist_ok=True)

        def commit() -> None:
            engine = tantivy.Index(new_schema(), path=str(self._folder))
            engine.register_tokenizer(TOKENIZER, analysis_of(language).analyzer)
            writer = engine.writer(_WRITER_HEAP_BYTES, 1)
            change(writer)
            writer.commit()
            writer.wait_merging_threads()

        try:
            called(commit)
        except IndexFailure as error:  # the engine's disk-full errors are not OSErrors
            if self._stop.is_set():
                raise
            reason = str(error)
        else:
            return
        # outside the block above: there, the traceback keeps the writer and its lock alive
        is_full = shutil.disk_usage(self._root).free < _FULL_BYTES
        self._check()
        raise IndexFailure("the disk is full" if is_full else reason)

    def _check(self) -> None:
        """Remove uncommitted files. Raises IndexDamaged if the committed ones are unreadable."""
        snapshot = self.open()
        if snapshot is not None:
            called(lambda: list(snapshot.states()))
            engine = tantivy.Index.open(str(self._folder))
            with suppress(ValueError, OSError):  # the next commit retries
                engine.writer(_WRITER_HEAP_BYTES, 1).garbage_collect_files()

    def _commit_mark(self) -> tuple[int, int] | None:
        """Return a mark that changes with each commit; None before the first."""
        try:
            status = (self._folder / _COMMITTED).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns


def _remove(writer: tantivy.IndexWriter, doc_id: str) -> None:
    term = document_term(doc_id)
    for field in (DOCUMENT, HEAD):
        writer.delete_documents_by_term(field, term)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IndexFailure(error.strerror or "the folder cannot be used") from error


def called(function: Callable[[], T]) -> T:
    """Call the engine; raise IndexDamaged or IndexFailure instead of its errors.

    A system error is not damage: a valid index was once removed for lack of a file descriptor.
    """
    try:
        with _failures():
            return function()
    except (ValueError, TypeError, KeyError, IndexError) as error:
        if found := _SYSTEM_ERROR.search(str(error)):
            raise IndexFailure(os.strerror(int(found[1]))) from error
        raise IndexDamaged(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the engine's, for unreadable bytes
            raise
        raise IndexDamaged("the engine found it unreadable") from error
