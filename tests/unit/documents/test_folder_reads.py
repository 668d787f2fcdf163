import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from mcp_tools_proxy.documents.document_file import document_path, dump_document
from mcp_tools_proxy.documents.document_store import HEAD_ONLY, Wanted
from mcp_tools_proxy.documents.folder import folder_store
from mcp_tools_proxy.documents.folder.file_scan import Listing, list_files, scan_file
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_watch import FolderWatch
from mcp_tools_proxy.domain.document import Readers
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from tests.support.bounds import BOUND_S, until
from tests.support.captured_logs import capture_logs
from tests.unit.documents.documents_folder import ServedTitles, document, place, rewrite

D = ("t", "d")
FIRST_PAGE = Wanted(pages=(1, 1))


class Scans:
    """Records the files that are read completely."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        monkeypatch.setattr(folder_store, "scan_file", self._scan_file)

    def _scan_file(self, root: Path, name: str, max_bytes: int) -> object:
        self.names.append(name)
        return scan_file(root, name, max_bytes)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    return Scans(monkeypatch)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan files only after the start, as in a large folder."""
    monkeypatch.setattr(folder_store, "SCANNED_FIRST_BYTES", -1)


@pytest.fixture
def second(root: Path, cache_dir: Path) -> Iterator[FolderStore]:
    store = FolderStore(root, ScanCache(cache_dir, root))
    yield store
    store.close()


def damage_cache(cache_dir: Path) -> None:
    for file in cache_dir.iterdir():
        file.write_bytes(b"no database, " * 1_000)


def open_to_all(cache_dir: Path) -> None:
    """Remove the readers from the cache, as another user with write access to its folder could."""
    (path,) = cache_dir.glob("*.sqlite")
    database = sqlite3.connect(path)
    database.execute("UPDATE scans SET readers = NULL")
    database.commit()
    database.close()
    cache_dir.chmod(0o777)


async def page(store: FolderStore) -> str:
    reading = await store.read(D, FIRST_PAGE)
    assert reading is not None
    return reading.pages[1] if reading.document is None else reading.document.pages[0]


async def test_a_second_start_does_not_read_any_file(
    root: Path, folder: FolderStore, second: FolderStore, scans: Scans
) -> None:
    kept = document(title="один", readers=Readers(users=frozenset({"ann"})))
    rewrite(root, replace(kept, ocr=(93,)))
    place(root / "t" / "bad.json", b"{")
    place(Path(os.fsdecode(os.fsencode(root) + b"/bad\xff.json")), b"{")
    await folder.load()
    first = await folder.read(D, HEAD_ONLY)
    assert len(scans.names) == 3
    await second.load()
    assert await second.read(D, HEAD_ONLY) == first
    assert (second.catalog.errors, await second.has_readers("t")) == (folder.catalog.errors, True)
    assert await page(second) == "text"
    assert len(scans.names) == 3


async def test_a_start_reads_the_files_changed_since_the_last_run(
    root: Path, folder: FolderStore, second: FolderStore, scans: Scans
) -> None:
    for doc_id in ("a", "b", "c"):
        rewrite(root, document(doc_id))
    await folder.load()
    rewrite(root, document("b", title="two"))
    document_path(root, "t", "c").unlink()
    scans.names.clear()
    await second.load()
    assert scans.names == ["t/b.json"]
    assert await ServedTitles(second).titles() == {("t", "a"): "one", ("t", "b"): "two"}


@pytest.mark.usefixtures("lazy")
async def test_a_call_for_an_unscanned_file_reads_only_that_file(
    root: Path, folder: FolderStore, scans: Scans
) -> None:
    rewrite(root, document())
    rewrite(root, document("other"))
    await folder.load()
    assert (scans.names, len(folder)) == ([], 2)
    assert await page(folder) == "text"
    assert scans.names == ["t/d.json"]


@pytest.mark.usefixtures("lazy")
async def test_the_readers_of_an_unscanned_file_are_read_before_it_is_served(
    root: Path, folder: FolderStore
) -> None:
    rewrite(root, document(readers=Readers()))
    await folder.load()
    assert await folder.has_readers("t")  # it may have readers
    assert not await folder.has_readers("other")
    reading = await folder.read(D, HEAD_ONLY)
    assert reading is not None
    assert reading.head.readers == Readers()


@pytest.mark.usefixtures("lazy")
async def test_remaining_files_are_scanned_in_the_background(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    for number in range(100):
        rewrite(root, document(f"d{number}"))
    place(root / "t" / "other name.json", dump_document(document("misnamed")))
    await folder.load()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(FolderWatch(folder).run)
        await until(lambda: not folder.catalog.not_scanned)
        tasks.cancel_scope.cancel()
    assert len(await served.titles()) == 101
    assert not await folder.has_readers("t")


async def test_a_page_is_read_without_the_rest_of_the_file(
    root: Path, folder: FolderStore, scans: Scans
) -> None:
    rewrite(root, document(pages=("one", "two", "three")))
    await folder.load()
    scans.names.clear()
    reading = await folder.read(D, Wanted(pages=(2, 9)))
    assert reading is not None
    assert (reading.document, dict(reading.pages)) == (None, {2: "two", 3: "three"})
    assert scans.names == []


async def test_an_unnoticed_change_is_never_mixed_with_cached_data(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    rewrite(root, document(title="old", pages=("old one", "old two")))
    await folder.load()
    rewrite(root, document(title="new", pages=("new one", "new two")))  # at the same positions
    reading = await folder.read(D, Wanted(pages=(1, 2)))
    assert reading is not None
    assert reading.head.title == "new"
    assert reading.document is not None
    assert reading.document.pages == ("new one", "new two")
    assert D in served.changes


async def test_a_removed_file_is_not_served_even_before_the_next_listing(
    root: Path, folder: FolderStore
) -> None:
    rewrite(root, document())
    await folder.load()
    document_path(root, "t", "d").unlink()
    assert await folder.read(D, FIRST_PAGE) is None


async def test_a_broken_file_keeps_only_its_last_valid_head(
    root: Path, folder: FolderStore
) -> None:
    rewrite(root, document(readers=Readers()))
    await folder.load()
    place(document_path(root, "t", "d"), b'{"doc_id": "d", "tena')
    await folder.load()
    reading = await folder.read(D, HEAD_ONLY)
    assert reading is not None
    assert reading.head.readers == Readers()
    with pytest.raises(DocumentsUnavailable, match="its file is broken"):
        await folder.read(D, FIRST_PAGE)
    rewrite(root, document(title="mended"))
    await folder.load()
    assert await page(folder) == "text"


async def test_a_file_with_an_id_unlike_its_name_is_served_with_a_warning(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(root / "t" / "wrong.json", dump_document(document()))
    with capture_logs() as lines:
        await folder.load()
        await folder.load()
    assert await served.titles() == {D: "one"}
    assert await folder.read(("t", "wrong"), HEAD_ONLY) is None
    assert (dict(folder.catalog.errors), dict(folder.catalog.misnamed)) == (
        {},
        {"t/wrong.json": "t/d.json"},
    )
    warnings = [line for line in lines if line["event"] == "documents.file_misnamed"]
    assert len(warnings) == 1
    assert "rename it to t/d.json" in warnings[0]["problem"]


async def test_a_change_by_this_process_is_visible_immediately(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    await folder.load()
    rewrite(root, document())
    await folder.refresh(D)
    assert await served.titles() == {D: "one"}
    document_path(root, "t", "d").unlink()
    await folder.refresh(D)
    assert await served.titles() == {}


async def test_a_damaged_cache_is_rebuilt(
    root: Path, cache_dir: Path, folder: FolderStore, second: FolderStore, scans: Scans
) -> None:
    rewrite(root, document())
    await folder.load()
    folder.close()
    damage_cache(cache_dir)
    scans.names.clear()
    await second.load()
    assert (scans.names, await page(second)) == (["t/d.json"], "text")


def _is_no_folder(path: Path) -> None:
    path.write_bytes(b"")


def _others_may_write(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def _is_full(path: Path) -> None:
    path.mkdir(mode=0o700)
    cache = ScanCache(path, path.parent / "documents")
    cache.load()
    cache.close()
    for file in path.iterdir():
        file.unlink()
        file.symlink_to("/dev/full")


@pytest.mark.parametrize("problem", [_is_no_folder, _others_may_write, _is_full])
async def test_without_a_cache_documents_are_served_and_the_reason_is_logged(
    root: Path, cache_dir: Path, folder: FolderStore, problem: Callable[[Path], None]
) -> None:
    problem(cache_dir)
    rewrite(root, document(pages=("one", "two")))
    with capture_logs() as lines:
        await folder.load()
        assert await page(folder) == "one"
    assert [line["event"] for line in lines].count("documents.cache_failed") == 1


async def test_cache_entries_written_by_another_user_are_not_trusted(
    root: Path, cache_dir: Path, folder: FolderStore
) -> None:
    rewrite(root, document(readers=Readers()))
    await folder.load()
    folder.close()
    open_to_all(cache_dir)
    store = FolderStore(root, ScanCache(cache_dir, root))
    await store.load()
    assert await store.has_readers("t")
    store.close()


def failing(*_arguments: object) -> None:
    """Fail like a cache on disk that is locked by another process."""


async def test_pages_are_found_in_a_file_with_changed_whitespace(
    root: Path, folder: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = document(pages=("one", "two", "three"))
    rewrite(root, new)
    await folder.load()
    monkeypatch.setattr(ScanCache, "keep", failing)
    place(document_path(root, *D), b"\n" * 7 + dump_document(new))
    await folder.load()
    reading = await folder.read(D, Wanted(pages=(2, 2)))
    assert reading is not None
    pages = reading.document.pages if reading.document else reading.pages
    assert pages[1 if reading.document else 2] == "two"


async def test_a_document_put_during_a_listing_is_kept(
    root: Path, folder: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(root, document("other"))
    await folder.load()
    is_listed, may_go_on = threading.Event(), threading.Event()

    def slow_listing(folder_root: Path) -> Listing:
        found = list_files(folder_root)
        is_listed.set()
        may_go_on.wait(BOUND_S)
        return found

    monkeypatch.setattr(folder_store, "list_files", slow_listing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(folder.load)
        await until(is_listed.is_set)
        rewrite(root, document())
        tasks.start_soon(folder.apply_written, "t/d.json", scan_file(root, "t/d.json"))
        await anyio.sleep(0.05)
        may_go_on.set()
    assert D in folder.catalog.keys
