"""Many changes of a folder at once: its lock is waited for by one of them, and given back."""

import asyncio
import fcntl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import LOCK_NAME, FolderWriter
from mcp_tools_proxy.documents.folder.scan_cache import ScanCache
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
