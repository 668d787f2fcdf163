"""The files of one tenant's index: opened, written, and made anew when they are damaged.

Several processes may share a folder: the one that holds the lock writes, the others read. Half of a
commit is never seen; what a process had not committed is indexed again.
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
"""Allocated as needed, while something is written; about 10 MB of text become one segment."""

_FULL_BYTES = 1_000_000
"""A disk with less space is called full: the engine only says that its writer was killed."""

_COMMITTED = "meta.json"

_SYSTEM_ERROR = re.compile(r"\bOs \{ code: (\d+)")
"""How the engine spells an error of the system, such as too many open files or a folder that cannot
be written to. Files that are missing, too short or changed it calls otherwise."""


class IndexFailure(Exception):
    """The files cannot be written or read now: a full disk, a folder of another user."""


class IndexDamaged(IndexFailure):
    """The files are there and no index."""


class IndexFiles:
    """The index of a tenant below ``root``. Blocks: call it in one thread at a time.

    Raises IndexFailure, also for what the engine has no exception of its own for.
    """

    def __init__(self, root: Path, tenant_id: str, stop: threading.Event) -> None:
        """Once ``stop`` is set, what is being written is given up."""
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
        """Whether this process may write."""
        return self._lock is not None

    def own(self) -> bool:
        """Return whether this process may write, from now on until ``close``."""
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
        """Open what was committed last; None for nothing. Raises IndexDamaged."""
        mark = self._commit_mark()
        if mark is None:
            return None
        with _failures():
            make_private(self._root)
        snapshot = called(lambda: IndexSnapshot(tantivy.Index.open(str(self._folder))))
        self._opened = mark
        return snapshot

    def write(self, documents: Iterable[tuple[Document, DocumentHead]]) -> None:
        """Put documents into the index in place of what it has of them, and commit.

        Once for each of their languages: the engine analyses the texts of a commit alike, in a
        thread of its own, which takes half of the time.
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
        """Remove what the index has of documents, and commit."""

        def remove(writer: tantivy.IndexWriter) -> None:
            for doc_id in doc_ids:
                _remove(writer, doc_id)

        self._commit(remove, ENGLISH)

    def reset(self) -> None:
        """Remove the files, which are damaged or of no document. Only for the owner."""
        with _failures():
            if self.is_owned and self._folder.exists():
                shutil.rmtree(self._folder)

    def close(self) -> None:
        """Leave the index to other processes."""
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
        except IndexFailure as error:  # the engine's errors of a full disk are no OSError
            if self._stop.is_set():
                raise
            reason = str(error)
        else:
            return
        # not in the block above: there the error's traceback keeps the writer, which has a lock
        is_full = shutil.disk_usage(self._root).free < _FULL_BYTES
        self._check()
        raise IndexFailure("the disk is full" if is_full else reason)

    def _check(self) -> None:
        """Remove what was not committed. Raises IndexDamaged if what was cannot be read."""
        snapshot = self.open()
        if snapshot is not None:
            called(lambda: list(snapshot.states()))
            engine = tantivy.Index.open(str(self._folder))
            with suppress(ValueError, OSError):  # the next commit does it, too
                engine.writer(_WRITER_HEAP_BYTES, 1).garbage_collect_files()

    def _commit_mark(self) -> tuple[int, int] | None:
        """Return what is another one after each commit; None before the first."""
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
    """Call a function of the engine. Raises IndexDamaged, IndexFailure instead of its errors.

    An error of the system is no damage: a good index was removed for want of a file descriptor.
    """
    try:
        with _failures():
            return function()
    except (ValueError, TypeError, KeyError, IndexError) as error:
        if found := _SYSTEM_ERROR.search(str(error)):
            raise IndexFailure(os.strerror(int(found[1]))) from error
        raise IndexDamaged(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the engine's, for bytes that are none
            raise
        raise IndexDamaged("the engine found it unreadable") from error
