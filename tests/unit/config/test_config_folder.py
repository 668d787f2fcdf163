import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcp_tools_proxy.config.config_folder import folder_changes
from mcp_tools_proxy.storage.file_watch import MAX_POLLS, POLL_S, QUIET_POLLS, SETTLE_S
from tests.support.bounds import BOUND_S
from tests.unit.config.load_files import write_json


class Watch:
    """Counts reported changes."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = anyio.Event()

    async def follow(self, folder: Path) -> None:
        async with aclosing(folder_changes(folder)) as watch:
            async for _ in watch:
                self.count += 1
                self._changed.set()

    async def next_change(self) -> None:
        with anyio.fail_after(BOUND_S):
            await self._changed.wait()
        self._changed = anyio.Event()


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[Watch]:
    """Yield a watch after its first report."""
    watch = Watch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.follow, folder)
        await watch.next_change()
        yield watch
        tasks.cancel_scope.cancel()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.mkdir()
    write_json(path, "mcp.json", '{"a": 1}')
    write_json(path, "preset_a.json", "{}")
    return path


def mount(folder: Path) -> None:
    """Lay out the files as in a ConfigMap mounted by Kubernetes."""
    shutil.rmtree(folder)
    for version in ("1", "2"):
        (folder / f"..{version}").mkdir(parents=True)
        write_json(folder / f"..{version}", "mcp.json", '{"a": 1}')
    (folder / "..data").symlink_to("..1")
    (folder / "mcp.json").symlink_to("..data/mcp.json")


def _swap_mount(folder: Path) -> None:
    (folder / "..new").symlink_to("..2")
    (folder / "..new").rename(folder / "..data")


def _change(folder: Path) -> None:
    write_json(folder, "mcp.json", '{"a": 2}')


def _create(folder: Path) -> None:
    write_json(folder, "preset_b.json", "{}")


def _create_agents(folder: Path) -> None:
    write_json(folder, "agents.json", "{}")


def _delete(folder: Path) -> None:
    (folder / "preset_a.json").unlink()


def _replace(folder: Path) -> None:
    write_json(folder, ".mcp.json.swp", '{"a": 3}').rename(folder / "mcp.json")


def _replace_with_an_older_one(folder: Path) -> None:
    os.utime(write_json(folder, "old", '{"a": 0}'), (1, 1))
    (folder / "old").rename(folder / "mcp.json")


def _delete_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def _recreate(folder: Path) -> None:
    folder.mkdir()
    write_json(folder, "mcp.json", "{}")


def _exchange_the_folder(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("other"))
    folder.rename(folder.with_name("deleted"))
    folder.with_name("other").rename(folder)


@pytest.mark.parametrize(
    "happens",
    [
        _change,
        _create,
        _create_agents,
        _delete,
        _replace,
        _replace_with_an_older_one,
        _delete_the_folder,
        _exchange_the_folder,
    ],
)
async def test_a_change_is_reported(folder: Path, happens: Callable[[Path], None]) -> None:
    async with watching(folder) as watch:
        happens(folder)
        await watch.next_change()


async def test_a_changed_policy_is_reported(folder: Path) -> None:
    (folder / "policies").mkdir()
    async with watching(folder) as watch:
        (folder / "policies" / "a.cedar").write_text("")
        await watch.next_change()
        (folder / "policies" / "a.cedar").write_text("forbid")
        await watch.next_change()


async def test_a_change_behind_links_is_reported(folder: Path) -> None:
    mount(folder)
    async with watching(folder) as watch:
        _swap_mount(folder)
        await watch.next_change()


async def test_a_folder_created_later_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    async with watching(folder) as watch:
        _recreate(folder)
        await watch.next_change()
        _change(folder)
        await watch.next_change()


async def test_a_removed_and_restored_folder_is_followed(folder: Path) -> None:
    async with watching(folder) as watch:
        shutil.rmtree(folder)
        await watch.next_change()
        _recreate(folder)
        await watch.next_change()


async def test_a_folder_that_cannot_be_read_does_not_end_the_watch(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.symlink_to("x" * 300)
    async with watching(folder) as watch:
        folder.unlink()
        _recreate(folder)
        await watch.next_change()


async def test_a_file_that_cannot_be_read_does_not_end_the_watch(folder: Path) -> None:
    (folder / "mcp.json").unlink()
    (folder / "mcp.json").symlink_to("mcp.json")
    async with watching(folder) as watch:
        (folder / "mcp.json").unlink()
        _change(folder)
        await watch.next_change()


class Polls:
    """A sleep that takes no time and changes the folder before selected polls."""

    def __init__(self, folder: Path, *, change_before: range) -> None:
        self._folder = folder
        self._change_before = change_before
        self.slept = 0
        self.slept_s = 0.0

    async def sleep(self, delay_s: float) -> None:
        self.slept += 1
        self.slept_s += delay_s
        if self.slept in self._change_before:
            write_json(self._folder, "mcp.json", "x" * self.slept)
        await anyio.lowlevel.checkpoint()


async def until_reported(folder: Path, *, change_before: range) -> Polls:
    polls = Polls(folder, change_before=change_before)
    with anyio.fail_after(BOUND_S):
        async with aclosing(folder_changes(folder, sleep=polls.sleep)) as watch:
            await anext(watch)
            await anext(watch)
    return polls


async def test_a_change_is_reported_after_the_files_stop_changing(folder: Path) -> None:
    polls = await until_reported(folder, change_before=range(4, 5))
    assert polls.slept == 4 + QUIET_POLLS


async def test_changes_in_quick_succession_are_reported_together(folder: Path) -> None:
    polls = await until_reported(folder, change_before=range(1, 4))
    assert polls.slept == 3 + QUIET_POLLS


async def test_continuous_changes_are_reported_within_700_ms(folder: Path) -> None:
    polls = await until_reported(folder, change_before=range(1, 100))
    assert polls.slept_s == pytest.approx(0.7)


async def test_other_files_are_ignored(folder: Path) -> None:
    async with watching(folder) as watch:
        write_json(folder, "notes.txt", "x")
        write_json(folder, "preset_a.json.swp", "x")
        write_json(folder, "mcp.json~", "x")
        write_json(folder, ".agents.json.new", "x")
        with anyio.move_on_after(2 * POLL_S + MAX_POLLS * SETTLE_S):
            await watch.next_change()
        assert watch.count == 1
