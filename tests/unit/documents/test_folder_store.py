"""Loading the documents folder, and reported errors (contract §5)."""

import os
from pathlib import Path

import anyio
import pytest

from mcp_tools_proxy.documents.document_file import document_path, dump_document
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.unit.documents.documents_folder import ServedTitles, document, place, rewrite


async def test_every_file_below_the_folder_is_loaded(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    rewrite(root, document("a"))
    place(root / "u" / "any" / "where.json", dump_document(document("b", tenant_id="u")))
    place(root / "at the root.json", dump_document(document("c", tenant_id="v")))
    await folder.load()
    assert await served.titles() == {("t", "a"): "one", ("u", "b"): "one", ("v", "c"): "one"}


async def test_a_missing_folder_contains_zero_documents(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    await anyio.Path(root).rmdir()
    await folder.load()
    assert await served.titles() == {}


async def test_a_broken_file_is_reported_and_the_others_are_loaded(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    rewrite(root, document())
    place(root / "t" / "bad.json", b"{")
    await folder.load()
    assert await served.titles() == {("t", "d"): "one"}
    assert list(folder.catalog.errors) == ["t/bad.json"]


@pytest.mark.parametrize("place_of_file", ["t/d.json", "t/x.json", "t/u/d.json", "u%2F/d.json"])
async def test_a_file_in_the_folder_of_another_tenant_is_ignored_and_reported(
    root: Path, folder: FolderStore, served: ServedTitles, metrics: Metrics, place_of_file: str
) -> None:
    rewrite(root, document(tenant_id="u", title="its own"))
    place(root / place_of_file, dump_document(document(tenant_id="u", title="smuggled")))
    with capture_logs() as lines:
        await folder.load()
    assert await served.titles() == {("u", "d"): "its own"}
    assert list(folder.catalog.errors) == [place_of_file]
    assert [line["file"] for line in lines if line["event"] == "documents.file_ignored"] == [
        place_of_file
    ]
    assert "mcp_proxy_document_errors 1.0" in metrics.exposition().decode()


async def test_a_file_changed_to_another_tenant_keeps_its_last_valid_version(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    rewrite(root, document())
    await folder.load()
    place(document_path(root, "t", "d"), dump_document(document(tenant_id="u")))
    await folder.load()
    assert (await served.titles(), list(folder.catalog.errors)) == (
        {("t", "d"): "one"},
        ["t/d.json"],
    )


@pytest.mark.parametrize(
    "tenant_id", ["a/b", ".", "..", "компания", "ж" * 100, "%41", "\N{SNOWMAN}"]
)
async def test_each_tenant_has_a_separate_folder(
    root: Path, folder: FolderStore, served: ServedTitles, tenant_id: str
) -> None:
    rewrite(root, document(tenant_id=tenant_id))
    await folder.load()
    assert (await served.titles(), dict(folder.catalog.errors)) == ({(tenant_id, "d"): "one"}, {})


async def test_a_folder_name_that_is_not_utf8_is_ignored(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(root / "%FF" / "d.json", dump_document(document(tenant_id="\ufffd")))
    await folder.load()
    assert (await served.titles(), list(folder.catalog.errors)) == ({}, ["%FF/d.json"])


async def test_a_broken_file_is_logged_once(root: Path, folder: FolderStore) -> None:
    place(root / "bad.json", b"{")
    with capture_logs() as lines:
        await folder.load()
        rewrite(root, document())
        await folder.load()
    ignored = [line["file"] for line in lines if line["event"] == "documents.file_ignored"]
    assert ignored == ["bad.json"]


async def test_a_metric_counts_unused_files(
    root: Path, folder: FolderStore, metrics: Metrics
) -> None:
    rewrite(root, document())
    place(root / "bad.json", b"{")
    await folder.load()
    exposed = metrics.exposition().decode()
    assert "mcp_proxy_document_errors 1.0" in exposed


@pytest.mark.parametrize("name", [".hidden.json", "notes.txt", ".git/a.json", "a.json.bak"])
async def test_other_files_are_ignored(
    root: Path, folder: FolderStore, served: ServedTitles, name: str
) -> None:
    place(root / name, dump_document(document()))
    await folder.load()
    assert (await served.titles(), dict(folder.catalog.errors)) == ({}, {})


async def test_a_pipe_with_a_documents_name_is_ignored(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    os.mkfifo(root / "pipe.json")
    with anyio.fail_after(BOUND_S):
        await folder.load()
    assert await served.titles() == {}


async def test_a_dangling_link_is_ignored_and_a_circular_link_is_reported(
    root: Path, folder: FolderStore
) -> None:
    (root / "dangling.json").symlink_to("none.json")
    (root / "circle.json").symlink_to("circle.json")
    await folder.load()
    assert list(folder.catalog.errors) == ["circle.json"]


async def test_ids_too_long_for_a_file_name_load_from_any_path(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(root / "x.json", dump_document(document("ж" * 256)))
    await folder.load()
    assert await served.titles() == {("t", "ж" * 256): "one"}


async def test_the_canonical_one_of_two_files_with_the_same_ids_is_used(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(root / "a.json", dump_document(document(title="other")))
    rewrite(root, document(title="canonical"))
    await folder.load()
    assert await served.titles() == {("t", "d"): "canonical"}
    assert list(folder.catalog.errors) == ["a.json"]


async def test_the_first_by_path_of_two_other_files_with_the_same_ids_is_used(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    place(root / "b.json", dump_document(document(title="b")))
    place(root / "a.json", dump_document(document(title="a")))
    await folder.load()
    assert await served.titles() == {("t", "d"): "a"}
    assert list(folder.catalog.errors) == ["b.json"]


async def test_an_unchanged_file_is_not_notified_again(
    root: Path, folder: FolderStore, served: ServedTitles
) -> None:
    rewrite(root, document("a"))
    await folder.load()
    served.changes.clear()
    rewrite(root, document("b"))
    await folder.load()
    assert set(served.changes) == {("t", "b")}


async def test_a_file_name_that_is_not_utf8_is_reported(root: Path, folder: FolderStore) -> None:
    place(Path(os.fsdecode(os.fsencode(root) + b"/bad\xff.json")), b"{")
    await folder.load()
    assert list(folder.catalog.errors) == ["bad\\xff.json"]


async def test_the_state_of_the_folder_is_reported(root: Path, folder: FolderStore) -> None:
    rewrite(root, document())
    await folder.load()
    assert repr(folder).endswith("documents=1 errors=0>")
