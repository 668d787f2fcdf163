"""Changes of the documents folder are served while the service runs (contract §5)."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcp_tools_proxy.documents.document_file import document_path, dump_document
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_watch import FolderWatch
from tests.support.bounds import until
from tests.support.captured_logs import capture_logs
from tests.support.file_descriptors import none_left
from tests.unit.documents.documents_folder import ServedTitles, document, place, rewrite


@asynccontextmanager
async def watched(folder: FolderStore) -> AsyncIterator[None]:
    await folder.load()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(FolderWatch(folder).run)
        yield
        tasks.cancel_scope.cancel()


@pytest.fixture
async def watching(root: Path, folder: FolderStore, served: ServedTitles) -> AsyncIterator[None]:
    """A watched folder with one document that has already reported a change."""
    rewrite(root, document())
    async with watched(folder):
        rewrite(root, document("probe"))
        await served.until({("t", "d"): "one", ("t", "probe"): "one"})
        document_path(root, "t", "probe").unlink()
        await served.until({("t", "d"): "one"})
        yield


async def error_named(folder: FolderStore, name: str, *, there: bool = True) -> None:
    """Wait until the file is listed as an error, or no longer listed."""
    await until(lambda: (name in folder.catalog.errors) is there)


def _add(root: Path) -> None:
    rewrite(root, document("new"))


def _change(root: Path) -> None:
    rewrite(root, document(title="two"))


def _remove(root: Path) -> None:
    document_path(root, "t", "d").unlink()


def _move_folder_out(root: Path) -> None:
    (root / "t").rename(root.parent / "elsewhere")


def _swap_links(root: Path) -> None:
    """Swap a symbolic link, as Kubernetes does."""
    document_path(root, "t", "d").unlink()
    place(root / "..data" / "x.json", dump_document(document(title="linked")))
    (root / "x.json").symlink_to(root / "..data" / "x.json")


def _add_tenant(root: Path) -> None:
    place(document_path(root, "u", "d"), dump_document(document(tenant_id="u")))


def _exchange(root: Path, other: Path) -> None:
    root.rename(root.with_name("old"))
    other.rename(root)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (_add, {("t", "d"): "one", ("t", "new"): "one"}),
        (_change, {("t", "d"): "two"}),
        (_remove, {}),
        (_move_folder_out, {}),
        (_swap_links, {("t", "d"): "linked"}),
        (_add_tenant, {("t", "d"): "one", ("u", "d"): "one"}),
    ],
)
@pytest.mark.usefixtures("watching")
async def test_a_change_is_served_while_watching(
    root: Path,
    served: ServedTitles,
    change: Callable[[Path], None],
    wanted: dict[tuple[str, str], str],
) -> None:
    change(root)
    await served.until(wanted)


@pytest.fixture
def one_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """List once per change: later listings would find changes that an event did not report."""
    monkeypatch.setattr("mcp_tools_proxy.documents.folder.folder_watch.SCANS_AFTER_CHANGE", 1)
    monkeypatch.setattr("mcp_tools_proxy.documents.folder.folder_watch.CHECK_MS", 20)


QUIET_AFTER_S = 0.3
"""Longer than the test: with ``one_listing`` only an event triggers a listing."""


@pytest.mark.usefixtures("one_listing", "watching")
async def test_folders_created_while_watching_are_watched(root: Path, served: ServedTitles) -> None:
    inner = root / "u" / "made" / "later"
    for title in ("first", "second"):
        place(inner / "x.json", dump_document(document("x", title, "u")))
        await served.until({("t", "d"): "one", ("u", "x"): title})
        await anyio.sleep(QUIET_AFTER_S)
    shutil.rmtree(root / "u")
    await served.until({("t", "d"): "one"})


@pytest.mark.usefixtures("one_listing", "watching")
async def test_a_change_behind_a_link_into_a_hidden_folder_is_served(
    root: Path, served: ServedTitles
) -> None:
    _swap_links(root)
    await served.until({("t", "d"): "linked"})
    await anyio.sleep(QUIET_AFTER_S)
    place(root / "..data" / "x.json", dump_document(document(title="changed")))
    await served.until({("t", "d"): "changed"})


@pytest.mark.usefixtures("one_listing", "watching")
async def test_a_change_behind_a_link_to_another_folder_is_served(
    root: Path, served: ServedTitles
) -> None:
    stored = root / ".store" / "t" / "d.json"
    place(stored, dump_document(document(title="stored")))
    document_path(root, "t", "d").unlink()
    document_path(root, "t", "d").symlink_to(stored)
    await served.until({("t", "d"): "stored"})
    await anyio.sleep(QUIET_AFTER_S)
    place(stored, dump_document(document(title="changed")))
    await served.until({("t", "d"): "changed"})


@pytest.mark.usefixtures("one_listing", "watching")
async def test_a_replaced_tenant_folder_is_followed(root: Path, served: ServedTitles) -> None:
    other = root.with_name("other")
    place(other / "d.json", dump_document(document(title="other")))
    (root / "t").rename(root.with_name("old"))
    other.rename(root / "t")
    await served.until({("t", "d"): "other"})
    await anyio.sleep(QUIET_AFTER_S)
    _change(root)
    await served.until({("t", "d"): "two"})


async def test_a_folder_name_that_is_not_utf8_does_not_end_the_watch(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    rewrite(root, document())
    async with watched(folder):
        await anyio.sleep(QUIET_AFTER_S)
        os.mkdir(os.fsencode(root) + b"/\xff")
        await anyio.sleep(QUIET_AFTER_S)
        _change(root)
        await served.until({("t", "d"): "two"})


async def test_changes_are_found_even_if_the_folder_cannot_be_watched(
    root: Path, folder: FolderStore, served: ServedTitles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def awatch(*_paths: Path, **_options: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("mcp_tools_proxy.documents.folder.folder_watch.awatch", awatch)
    rewrite(root, document())
    with capture_logs() as lines:
        async with watched(folder):
            await until(lambda: "documents.watch_failed" in [line["event"] for line in lines])
            _change(root)
            await served.until({("t", "d"): "two"})
    assert [line["event"] for line in lines].count("documents.watch_failed") == 1


@pytest.mark.usefixtures("watching")
async def test_an_invalid_new_version_keeps_the_last_valid_one(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(document_path(root, "t", "d"), b"{")
    await error_named(folder, "t/d.json")
    assert await served.titles() == {("t", "d"): "one"}


@pytest.mark.usefixtures("watching")
async def test_a_repaired_file_is_no_longer_reported(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(document_path(root, "t", "d"), b"{")
    await error_named(folder, "t/d.json")
    rewrite(root, document(title="repaired"))
    await served.until({("t", "d"): "repaired"})
    await error_named(folder, "t/d.json", there=False)


@pytest.mark.usefixtures("watching")
async def test_a_duplicate_file_is_served_after_the_first_was_removed(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(root / "spare.json", dump_document(document(title="spare")))
    await error_named(folder, "spare.json")
    document_path(root, "t", "d").unlink()
    await served.until({("t", "d"): "spare"})


@pytest.mark.usefixtures("watching")
async def test_a_file_with_a_changed_id_replaces_its_first_document(
    root: Path, served: ServedTitles
) -> None:
    place(document_path(root, "t", "d"), dump_document(document("b")))
    await served.until({("t", "b"): "one"})


async def test_a_folder_created_later_is_loaded(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    await anyio.Path(root).rmdir()
    with capture_logs() as lines:
        async with watched(folder):
            await until(lambda: "documents.loaded" in [line["event"] for line in lines])
            rewrite(root, document())
            await served.until({("t", "d"): "one"})


@pytest.mark.usefixtures("watching")
async def test_a_missing_folder_keeps_its_documents_and_is_followed_when_restored(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    shutil.rmtree(root)
    await until(lambda: folder.vanished)
    await folder.load()
    assert await served.titles() == {("t", "d"): "one"}
    rewrite(root, document(title="back"))
    await served.until({("t", "d"): "back"})
    rewrite(root, document(title="again"))
    await served.until({("t", "d"): "again"})
    assert (folder.present, folder.vanished) == (True, False)


@pytest.mark.usefixtures("watching")
async def test_a_replaced_folder_is_followed(root: Path, served: ServedTitles) -> None:
    other = root.with_name("other")
    rewrite(other, document(title="other"))
    _exchange(root, other)
    await served.until({("t", "d"): "other"})
    rewrite(root, document(title="changed"))
    await served.until({("t", "d"): "changed"})


@pytest.mark.usefixtures("watching")
async def test_a_folder_deleted_and_immediately_recreated_is_followed(
    root: Path, served: ServedTitles
) -> None:
    shutil.rmtree(root)
    rewrite(root, document(title="anew"))
    await served.until({("t", "d"): "anew"})
    rewrite(root, document(title="changed"))
    await served.until({("t", "d"): "changed"})


async def test_a_folder_whose_status_cannot_be_read_does_not_end_the_watch(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    await anyio.Path(root).rmdir()
    await anyio.Path(root).symlink_to("x" * 300)
    async with watched(folder):
        await anyio.sleep(0.7)
        await anyio.Path(root).unlink()
        rewrite(root, document())
        await served.until({("t", "d"): "one"})


@pytest.mark.usefixtures("watching")
async def test_reading_is_retried_after_a_temporary_error(
    root: Path, folder: FolderStore, served: ServedTitles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mcp_tools_proxy.documents.folder.folder_watch.SCANS_AFTER_CHANGE", 1
    )  # the failing one
    with none_left():
        os.utime(document_path(root, "t", "d"))
        await error_named(folder, "")
    await error_named(folder, "", there=False)
    assert not folder.catalog.errors
    await served.until({("t", "d"): "one"})
