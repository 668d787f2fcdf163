from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.folder.folder_store import SCANNED_FIRST_BYTES
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from tests.support.document_stores import FilledFolder, FilledStore
from tests.support.searching import ANN, caller, document, progress, searching
from tests.support.service import eventually


async def test_a_restart_indexes_only_documents_changed_since(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    for number in range(4):
        await filled_store.put(document(f"d{number}", "a ladder"))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        assert sorted(made.documents.read) == ["d0", "d1", "d2", "d3"]
    await filled_store.put(document("d1", "a chair"))
    await filled_store.put(document("d2", "a ladder", readers=ANN))
    await filled_store.remove(("acme", "d3"))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        assert sorted(made.documents.read) == ["d1", "d2"]
        assert await made.ids("ladder") == ["d0"]
        assert await made.ids("chair") == ["d1"]
        assert await made.ids("ladder", caller("ann")) == ["d0", "d2"]


async def test_an_interrupted_index_resumes(folder: FilledFolder, tmp_path: Path) -> None:
    for number in range(4):
        await folder.put(document(f"d{number}", f"a ladder {number}"))
    async with searching(folder, tmp_path / "cache", batch_chars=1) as made:
        index = made.indexes.use("acme")
        for _ in range(3):  # the first one lists the documents
            await index.step()
        found = await made.find("ladder")
        assert (len(found.places), found.progress) == (2, progress(2, 4))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        assert sorted(made.documents.read) == ["d2", "d3"]
        assert await made.ids("ladder") == ["d0", "d1", "d2", "d3"]


async def test_before_the_first_step_progress_counts_the_readable_documents(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    async with searching(filled_store, tmp_path / "cache") as made:
        assert (await made.find("ladder")).progress is None
    for number in range(3):
        await filled_store.put(document(f"d{number}", "a ladder"))
    await filled_store.put(document("secret", "a ladder", readers=ANN))
    async with searching(filled_store, tmp_path / "cache") as made:
        assert (await made.find("ladder")).progress == progress(0, 3)
        assert (await made.find("ladder", caller("ann"))).progress == progress(0, 4)


async def test_progress_counts_only_documents_that_the_caller_may_read(
    folder: FilledFolder, tmp_path: Path
) -> None:
    await folder.put(document("a", "a ladder"))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        await folder.put(document("secret", "a ladder", readers=ANN))
        await folder.put(document("secret 2", "a ladder", readers=ANN))
        made.documents.gate.clear()
        async with made.following():
            index = made.indexes.use("acme")

            async def is_noted() -> bool:
                return await index.progress(caller("ann")) is not None

            await eventually(is_noted)
            assert await index.progress(caller("ann")) == progress(1, 3)
            assert (await made.find("ladder")).progress is None
            bound = caller("ann", documents=frozenset({"a", "secret"}))
            assert (await made.find("ladder", bound)).progress == progress(1, 2)
            made.documents.gate.set()


def garbled(path: Path) -> None:
    path.write_bytes(bytes(reversed(path.read_bytes())))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [garbled, cut, Path.unlink])
@pytest.mark.parametrize("suffix", ["meta.json", ".term", ".store", ".idx", ".fast"])
async def test_a_damaged_index_is_rebuilt(
    folder: FilledFolder, tmp_path: Path, damage: Callable[[Path], None], suffix: str
) -> None:
    await folder.put(document("d", "a ladder"))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
    paths = [path for path in (tmp_path / "cache").rglob("*") if path.name.endswith(suffix)]
    assert paths
    for path in paths:
        damage(path)
    async with searching(folder, tmp_path / "cache") as made:

        async def is_found() -> bool:
            return await made.ids("ladder") == ["d"]

        async with made.following():
            await eventually(is_found)


async def test_a_second_process_reads_the_firsts_index_and_takes_over(
    folder: FilledFolder, tmp_path: Path
) -> None:
    await folder.put(document("a", "a ladder"))
    async with searching(folder, tmp_path / "cache") as second:
        async with searching(folder, tmp_path / "cache") as first:
            await first.catch_up()
            await second.catch_up()
            assert await second.ids("ladder") == ["a"]
            await folder.put(document("c", "a ladder"))
            second.indexes.changed(("acme", "c"))
            await second.indexes.use("acme").step()
            found = await second.find("ladder")
            assert (len(found.places), found.progress) == (1, progress(1, 2))
            assert second.documents.read == []
            await folder.remove(("acme", "c"))
            second.indexes.changed(("acme", "c"))
        await folder.put(document("b", "a ladder"))
        second.indexes.changed(("acme", "b"))
        await second.catch_up()
        assert await second.ids("ladder") == ["a", "b"]
        assert second.documents.read == ["b"]


async def test_an_unwritable_index_is_an_error_with_a_remedy(
    folder: FilledFolder, tmp_path: Path
) -> None:
    await folder.put(document("a", "a ladder"))
    (tmp_path / "file").write_text("")
    async with searching(folder, tmp_path / "file") as made, made.following():
        with pytest.raises(DocumentsUnavailable, match="doc_local_search") as caught:
            await made.find("ladder")
        assert str(tmp_path) not in caught.value.message


async def test_a_folder_writable_by_others_is_not_used(
    folder: FilledFolder, tmp_path: Path
) -> None:
    await folder.put(document("a", "a ladder"))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
    (index_folder,) = (tmp_path / "cache").glob("tenant-search-*")
    index_folder.chmod(0o777)
    await folder.put(document("b", "a ladder"))
    async with searching(folder, tmp_path / "cache") as made, made.following():
        with pytest.raises(DocumentsUnavailable):
            await made.find("ladder")


async def test_a_tenant_without_documents_leaves_no_files(
    folder: FilledFolder, tmp_path: Path
) -> None:
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up("nobody")
        assert await made.ids("ladder", caller(tenant_id="nobody")) == []
        assert not [*(tmp_path / "cache").glob("tenant-search-*/*")]


async def test_removed_documents_leave_the_index_after_all_files_are_read(
    folder: FilledFolder, tmp_path: Path
) -> None:
    await folder.put(document("a", "a ladder"))
    await folder.put(document("b", "a ladder"))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
    await folder.remove(("acme", "a"))
    unread = tmp_path / "documents" / "acme" / "unread.json"
    unread.write_bytes(b"{" + b" " * SCANNED_FIRST_BYTES)
    await folder.store.load()
    async with searching(folder, tmp_path / "cache") as made, made.following():
        index = made.indexes.use("acme")

        async def progress_is(expected: object) -> bool:
            return await index.progress(caller()) == expected

        await eventually(lambda: progress_is(progress(2, 2)))
        assert await made.ids("ladder") == ["b"]
        await folder.store.scan_all()
        await eventually(lambda: progress_is(None))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        snapshot = made.indexes.use("acme").snapshot
        assert snapshot is not None
        assert [state.doc_id for state in snapshot.states()] == ["b"]


async def test_an_index_is_complete_if_all_files_are_read_before_its_last_document_is_indexed(
    folder: FilledFolder, tmp_path: Path
) -> None:
    """Searches in 10,000 documents said "indexing 10,000 of 10,000" until the next change."""
    await folder.put(document("a", "a ladder"))
    unread = tmp_path / "documents" / "acme" / "unread.json"
    unread.write_bytes(b"{" + b" " * SCANNED_FIRST_BYTES)
    await folder.store.load()
    async with searching(folder, tmp_path / "cache", batch_chars=1) as made:
        await made.indexes.use("acme").step()  # lists the documents
        await folder.store.scan_all()
        await made.catch_up()
        assert (await made.find("ladder")).progress is None
