import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from tests.support.builders import make_document

MAX_BYTES = 10_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "documents"
    write_document(root, make_document(tenant_id="globex", doc_id="small"), replace=False)
    return root


@pytest.fixture
def store(root: Path, tmp_path: Path) -> Iterator[FolderStore]:
    cache = ScanCache(tmp_path / "cache", root)
    store = FolderStore(root, cache, max_file_bytes=MAX_BYTES)
    yield store
    store.close()


async def scanned(store: FolderStore) -> dict[str, str]:
    await store.load()
    await store.scan_all()
    return dict(store.catalog.errors)


async def test_a_sparse_file_is_reported_and_others_are_served(
    store: FolderStore, root: Path
) -> None:
    large = root / "acme" / "large.json"
    large.parent.mkdir()
    large.touch()
    os.truncate(large, 2**40)
    errors = await scanned(store)
    assert str(2**40) in errors["acme/large.json"]
    assert str(MAX_BYTES) in errors["acme/large.json"]
    assert list(store.catalog.keys) == [("globex", "small")]


async def test_a_document_of_exactly_the_limit_is_served_and_a_larger_one_is_not(
    store: FolderStore, root: Path
) -> None:
    document = make_document(tenant_id="acme", doc_id="doc", pages=("",))
    written = write_document(root, document, replace=False)
    full = MAX_BYTES - written.status.st_size
    for more, served in ((0, True), (1, False)):
        pages = ("x" * (full + more),)
        larger = make_document(tenant_id="acme", doc_id="doc", pages=pages)
        write_document(root, larger, replace=True)
        errors = await scanned(store)
        assert ("acme/doc.json" in errors) is not served


async def test_a_file_is_served_again_after_it_shrinks(store: FolderStore, root: Path) -> None:
    document = make_document(tenant_id="acme", doc_id="doc", pages=("x" * MAX_BYTES,))
    write_document(root, document, replace=False)
    assert set(await scanned(store)) == {"acme/doc.json"}
    write_document(root, make_document(tenant_id="acme", doc_id="doc"), replace=True)
    assert await scanned(store) == {}
