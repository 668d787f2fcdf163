"""An SQLite file in ``cache_dir`` that can be removed at any time: a failure costs time only."""

import hashlib
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_tools_proxy.documents.cache_folder import make_private

BUSY_TIMEOUT_S = 2.0
"""Seconds to wait for another process that writes to the same file."""

RETRY_S = 30.0
"""Seconds until a file that failed is tried again; each cold read parses a whole document then."""

_FAILURES = (OSError, sqlite3.Error, ValueError, TypeError, KeyError, OverflowError)
"""What a full disk, a damaged file, one of another program, or an inode over 63 bits may raise."""


def digest_of(documents: Path) -> str:
    """Return what the names of a folder's files begin or end with."""
    return hashlib.sha256(os.fsencode(documents.absolute())).hexdigest()[:24]


class CacheFile:
    """One file of ``tables``; ``on_failure`` is called once. Blocks: use it in a thread."""

    def __init__(self, path: Path, tables: str, on_failure: Callable[[Path, str], None]) -> None:
        self._path = path
        self._tables = tables
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._retry_at = 0.0
        """When the file is tried again after a failure, by the monotonic clock."""

    def __repr__(self) -> str:
        return repr(str(self._path))

    @property
    def is_there(self) -> bool:
        """Whether there is such a file."""
        return self._path.exists()

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection | None]:
        """Return the open database, and commit; None for a while once anything about it failed."""
        with self._lock:
            self._open()
            try:
                yield self._database
                if self._database is not None:
                    self._database.commit()
            except _FAILURES as error:
                self._give_up(str(error))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._retry_at = math.inf
            self._release()

    def _open(self) -> None:
        if self._database is not None or time.monotonic() < self._retry_at:
            return
        try:
            self._database = _open(self._path, self._tables)
        except _FAILURES as error:
            self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        if self._retry_at == 0:
            self._on_failure(self._path, reason)
        self._retry_at = time.monotonic() + RETRY_S
        self._release()

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _open(path: Path, tables: str) -> sqlite3.Connection:
    """Open the file, a new one in place of one that is damaged. Raises OSError, sqlite3.Error."""
    make_private(path.parent)
    try:
        return _connect(path, tables)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        return _connect(path, tables)


def _connect(path: Path, tables: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(tables)
    except sqlite3.Error:
        database.close()
        raise
    return database
