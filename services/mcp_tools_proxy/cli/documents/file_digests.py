"""The SHA-256 of files by their stamps, so that unchanged files are not read again."""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mcp_tools_proxy.cli.documents.document_stores import Unusable
from mcp_tools_proxy.cli.documents.source_folder import FileStamp
from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.documents.folder.folder_cache import CacheFile, digest_of
from mcp_tools_proxy.storage.cache_folder import make_private

_FORMAT = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS digests (
    path BLOB PRIMARY KEY, mtime INTEGER, ctime INTEGER, size INTEGER, digest TEXT
) WITHOUT ROWID;
"""

_SETTLED_NS = 2_000_000_000
"""Age of a file whose next change is sure to change its stamp: some file systems count in 2 s."""


class KnownDigest(NamedTuple):
    """The stamp of a file, and the SHA-256 of its content in hex, or why it is not a document."""

    stamp: FileStamp
    digest: str


class FileDigests:
    """The digests of the files of one folder, in the cache folder. Blocking: call in a thread.

    They only spare work. Whether a document is current is decided by the digest that is stored with
    it, so several machines can import to one store.
    """

    def __init__(self, cache: Path, folder: Path) -> None:
        self._cache = cache
        self._name = digest_of(folder.resolve())
        path = cache / f"digests-{_FORMAT}-{self._name}.sqlite"
        self._file = CacheFile(path, _TABLES, lambda _path, _reason: None)

    def load(self) -> Mapping[str, KnownDigest]:
        """Return the known files by path; none if they are unreadable."""
        with self._file.using() as database:
            if database is not None:
                rows = database.execute("SELECT path, mtime, ctime, size, digest FROM digests")
                return {
                    os.fsdecode(path): KnownDigest(FileStamp(*stamp), digest)
                    for path, *stamp, digest in rows
                }
        return {}

    def keep(self, found: Mapping[str, KnownDigest]) -> None:
        """Keep digests by path, except of files that could change without another stamp."""
        settled = time.time_ns() - _SETTLED_NS
        rows = [
            (os.fsencode(path), *known.stamp, known.digest)
            for path, known in found.items()
            if max(known.stamp.mtime_ns, known.stamp.ctime_ns) <= settled
        ]
        if rows:
            with self._file.using() as database:
                if database is not None:
                    statement = "INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?, ?)"
                    database.executemany(statement, rows)

    @contextmanager
    def locked(self, tenant_id: str, source: str) -> Iterator[None]:
        """Hold a lock, as a second run of a timer would import the same files.

        Raises Unusable if another process has it. Without a usable cache folder, a warning is
        printed, as a second run only takes time.
        """
        name = digest_of(Path("/", tenant_id.replace("/", "%2F"), source.replace("/", "%2F")))
        try:
            make_private(self._cache)
            path = self._cache / f"import-{self._name}-{name}.lock"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            echo(
                f"{self._cache} cannot be used ({error.strerror or error}), so a second run at "
                "the same time is not refused; set MCP_PROXY_CACHE_DIR",
                err=True,
            )
            yield
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unusable("another import of this folder is running") from None
            yield
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
