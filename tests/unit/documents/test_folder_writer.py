"""Many changes of a folder at once: its lock is waited for by one of them, and given back."""

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
"""Of a loop's executor, at most."""


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[FolderWriter]:
    root = tmp_path / "documents"
    root.mkdir()
    store = FolderStore(root, ScanCache(tmp_path / "cache", root))
    yield FolderWriter(store)
    store.close()


async def put(writer: FolderWriter, doc_id: str) -> None:
    await writer.put(make_document(doc_id=doc_id), expected=Expected.NOTHING, keep_readers=True)


async def test_more_changes_at_once_than_there_are_threads_are_made(writer: FolderWriter) -> None:
    ids = [f"doc-{number:02}" for number in range(MOST_THREADS + 8)]
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        for doc_id in ids:
            group.create_task(put(writer, doc_id))
    assert [head.doc_id for head in await writer.list_heads(None, limit=100)] == ids


async def test_a_change_that_is_cancelled_while_it_waits_gives_the_lock_back(
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
    """Write a file by a process that is killed before the end; return what it leaves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = set(path.parent.iterdir())
    command = (sys.executable, "-c", KILLED_WHILE_WRITING, str(path))
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == -signal.SIGKILL
    return set(path.parent.iterdir()) - before


@pytest.mark.parametrize("name", ["acme/doc.json", ".versions/acme/doc.json", "doc.json"])
async def test_what_a_killed_writer_left_is_removed_by_the_next_change(
    writer: FolderWriter, tmp_path: Path, name: str
) -> None:
    left = await killed_while_writing(tmp_path / "documents" / name)
    assert len(left) == 1
    await put(writer, "one")
    assert not any(path.exists() for path in left)
    assert [head.doc_id for head in await writer.list_heads(None, limit=100)] == ["one"]


async def test_no_other_file_and_nothing_behind_a_link_is_removed(
    writer: FolderWriter, tmp_path: Path
) -> None:
    elsewhere = await killed_while_writing(tmp_path / "elsewhere" / "doc.json")
    own = tmp_path / "documents" / "acme" / ".notes.tmp"
    own.parent.mkdir()
    own.write_text("by hand")
    (tmp_path / "documents" / "linked").symlink_to(tmp_path / "elsewhere")
    await put(writer, "one")
    assert all(path.exists() for path in (own, *elsewhere))
