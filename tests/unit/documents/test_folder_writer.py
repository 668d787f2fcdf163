import asyncio
import fcntl
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import LOCK_NAME, FolderWriter
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document

MOST_THREADS = 32
"""The maximum of the event loop's executor."""


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[FolderWriter]:
    root = tmp_path / "documents"
    root.mkdir()
    store = FolderStore(root, ScanCache(tmp_path / "cache", root))
    yield FolderWriter(store)
    store.close()


async def put(writer: FolderWriter, doc_id: str) -> None:
    await writer.put(make_document(doc_id=doc_id), expected=Expected.NOTHING, keep_readers=True)


async def test_more_concurrent_changes_than_threads_succeed(writer: FolderWriter) -> None:
    ids = [f"doc-{number:02}" for number in range(MOST_THREADS + 8)]
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        for doc_id in ids:
            group.create_task(put(writer, doc_id))
    assert [head.doc_id for head in await writer.list_heads(None, limit=100)] == ids


async def test_a_change_cancelled_while_waiting_releases_the_lock(
    writer: FolderWriter, tmp_path: Path
) -> None:
    with (tmp_path / "documents" / LOCK_NAME).open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(put(writer, "one"))
            await asyncio.sleep(0)
            task.cancel()
    async with asyncio.timeout(BOUND_S):
        await put(writer, "two")
    assert [head.doc_id for head in await writer.list_heads(None, limit=100)] == ["two"]


KILLED_WHILE_WRITING = """
import os, pathlib, signal, sys
from mcp_tools_proxy.storage.files import write_atomically

def pieces():
    yield b"a text that is in no list"
    os.kill(os.getpid(), signal.SIGKILL)

write_atomically(pathlib.Path(sys.argv[1]), pieces())
"""


async def killed_while_writing(path: Path) -> set[Path]:
    """Start writing a file in a process that is killed; return the unfinished file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = set(path.parent.iterdir())
    command = (sys.executable, "-c", KILLED_WHILE_WRITING, str(path))
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == -signal.SIGKILL
    return set(path.parent.iterdir()) - before


@pytest.mark.parametrize("name", ["acme/doc.json", ".versions/acme/doc.json", "doc.json"])
async def test_the_next_change_removes_files_of_a_killed_writer(
    writer: FolderWriter, tmp_path: Path, name: str
) -> None:
    left = await killed_while_writing(tmp_path / "documents" / name)
    assert len(left) == 1
    await put(writer, "one")
    assert not any(path.exists() for path in left)
    assert [head.doc_id for head in await writer.list_heads(None, limit=100)] == ["one"]


async def test_other_files_and_linked_files_are_not_removed(
    writer: FolderWriter, tmp_path: Path
) -> None:
    elsewhere = await killed_while_writing(tmp_path / "elsewhere" / "doc.json")
    own = tmp_path / "documents" / "acme" / ".notes.tmp"
    own.parent.mkdir()
    own.write_text("by hand")
    (tmp_path / "documents" / "linked").symlink_to(tmp_path / "elsewhere")
    await put(writer, "one")
    assert all(path.exists() for path in (own, *elsewhere))
