from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_store import DocumentStore
from mcp_tools_proxy.documents.document_writer import DocumentWriter, Expected, WriteFailed
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Document, Readers
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases, OpenStore

KEY = ("acme", "doc")
ONE = make_document(tenant_id="acme", pages=("one",))
TWO = make_document(tenant_id="acme", pages=("two",))
PDF = b"%PDF-1.7 \x00\xff of one"


class Kept:
    def __init__(self, store: DocumentStore, writer: DocumentWriter) -> None:
        self.store = store
        self.writer = writer

    async def put(self, document: Document, original: bytes | None = None) -> None:
        await self.writer.put(
            document, expected=Expected.ANYTHING, keep_readers=True, original=original
        )

    async def original(self, document: Document) -> bytes | None:
        """Return the stored PDF of a version."""
        version = version_of(document)
        found = await self.store.read_original(KEY, version)
        assert (await self.store.original_tag(KEY, version) is None) == (found is None)
        return found


@pytest.fixture(params=["folder", "postgres"])
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[Kept]:
    if request.param == "folder":
        root = tmp_path / "documents"
        store = FolderStore(root, ScanCache(tmp_path / "cache", root))
        yield Kept(store, FolderWriter(store))
        store.close()
    else:
        async with OpenStore(await databases.new()) as opened:
            await opened.until_current()
            yield Kept(opened.store, opened.writer)


async def test_the_original_is_read_unchanged(kept: Kept) -> None:
    await kept.put(ONE, PDF)
    assert await kept.original(ONE) == PDF


async def test_a_document_can_be_stored_without_an_original(kept: Kept) -> None:
    await kept.put(ONE)
    assert await kept.original(ONE) is None


async def test_a_new_version_does_not_inherit_the_original(kept: Kept) -> None:
    await kept.put(ONE, PDF)
    await kept.put(TWO)
    assert [await kept.original(ONE), await kept.original(TWO)] == [None, None]


async def test_the_original_of_a_new_version_replaces_the_old_one(kept: Kept) -> None:
    await kept.put(ONE, PDF)
    await kept.put(TWO, b"%PDF of two")
    assert [await kept.original(ONE), await kept.original(TWO)] == [None, b"%PDF of two"]


async def test_new_readers_or_equal_content_keep_the_original(kept: Kept) -> None:
    await kept.put(ONE, PDF)
    readers = Readers(users=frozenset({"ann"}))
    await kept.writer.set_readers(KEY, readers, expected=Expected.ANYTHING)
    await kept.put(ONE)
    assert await kept.original(ONE) == PDF


async def test_another_file_with_the_same_text_has_another_tag(kept: Kept) -> None:
    tags = []
    for original in (PDF, b"%PDF another file"):
        await kept.put(ONE, original)
        tags.append(await kept.store.original_tag(KEY, version_of(ONE)))
    assert None not in tags
    assert tags[0] != tags[1]


async def test_the_original_is_removed_with_the_document(kept: Kept) -> None:
    await kept.put(ONE, PDF)
    await kept.writer.remove(KEY, expected=Expected.ANYTHING)
    await kept.put(ONE)
    assert await kept.original(ONE) is None


async def test_another_tenant_cannot_read_the_original(kept: Kept) -> None:
    await kept.put(ONE, PDF)
    assert await kept.store.read_original(("globex", "doc"), version_of(ONE)) is None


async def test_a_failed_write_leaves_no_original(tmp_path: Path) -> None:
    root = tmp_path / "documents"
    store = FolderStore(root, ScanCache(tmp_path / "cache", root))
    writer = FolderWriter(store)
    root.mkdir()
    (root / "acme").write_text("in the way of the tenant's folder", encoding="utf-8")
    with pytest.raises(WriteFailed):
        await writer.put(ONE, expected=Expected.ANYTHING, keep_readers=True, original=PDF)
    store.close()
    assert list(root.rglob("*.pdf")) == []
