"""Keeps the vectors of a folder's documents in ``cache_dir``, by the names of their files.

Not in the folder, which may be read-only, and is copied and listed by others. A file of its own:
vectors cost more than what a start finds out, and stay when that is kept in another form.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.embeddings.vector_store import StoredVectors
from mcp_tools_proxy.documents.folder.cache_file import CacheFile, digest_of

_FORMAT = 1
"""Part of the file's name."""

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (
    name BLOB PRIMARY KEY, version TEXT, model TEXT, dimension INTEGER, data BLOB
);
"""

FileName = Callable[[Key], str | None]
"""Returns the name of the file that stands for a document, None where there is none."""


class VectorFile:
    """The vectors of one documents folder. Blocks: call it in a thread."""

    def __init__(self, folder: Path, documents: Path) -> None:
        path = folder / f"vectors-{_FORMAT}-{digest_of(documents)}.sqlite"
        self._file = CacheFile(path, _TABLES, lambda _path, _reason: None)

    def __repr__(self) -> str:
        return f"<VectorFile {self._file!r}>"

    def read(self, name: str, version: str, model: str) -> StoredVectors | None:
        """Return the vectors of a file's document; None where there are none."""
        with self._file.using() as database:
            if database is not None:
                wanted = (
                    "SELECT dimension, data FROM vectors WHERE (name, version, model) = (?, ?, ?)"
                )
                for dimension, data in database.execute(
                    wanted, (os.fsencode(name), version, model)
                ):
                    return StoredVectors(
                        version=version, model=model, dimension=dimension, data=data
                    )
        return None

    def write(self, name: str, vectors: StoredVectors) -> None:
        """Keep the vectors of a file's document in place of older ones."""
        with self._file.using() as database:
            if database is not None:
                database.execute(
                    "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)",
                    (
                        os.fsencode(name),
                        vectors.version,
                        vectors.model,
                        vectors.dimension,
                        vectors.data,
                    ),
                )

    def forget(self, names: Iterable[str]) -> None:
        """Remove the vectors of files that are gone."""
        if not self._file.is_there:
            return
        with self._file.using() as database:
            if database is not None:
                rows = [(os.fsencode(name),) for name in names]
                database.executemany("DELETE FROM vectors WHERE name = ?", rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FolderVectors:
    """A VectorStore over a file; ``file_name`` finds the file of a document."""

    def __init__(self, file: VectorFile, file_name: FileName) -> None:
        self._file = file
        self._file_name = file_name

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        """Read the vectors of one version by one model; None when there are none."""
        name = self._file_name(key)
        if name is None:
            return None
        return await asyncio.to_thread(self._file.read, name, version, model)

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Keep vectors in place of older ones; those of an older version are never read."""
        name = self._file_name(key)
        if name is not None:
            await asyncio.to_thread(self._file.write, name, vectors)
