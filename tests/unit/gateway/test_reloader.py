"""The registry follows files and servers (P-16, P-21)."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import RemoteComponents
from mcp_tools_proxy.domain.offers import View
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_snapshot
from tests.support.captured_logs import capture_logs
from tests.support.fakes import fake_components
from tests.unit.gateway.reloader_fixture import Reloading, write_preset, write_servers


async def test_items_that_a_server_adds_are_listed_after_a_rebuild(folder: Path) -> None:
    it = Reloading(folder)
    late = it.pool.offers.pop("alpha")
    await it.reloader.load()
    assert (it.tools, len(it.publisher.preset_state.missing)) == ([], 1)
    it.pool.offers["alpha"] = late
    await it.rebuild()
    assert (it.tools, it.publisher.preset_state.missing) == (["alpha:search"], ())


async def test_a_slow_disk_does_not_delay_items_of_servers(folder: Path) -> None:
    disk_is_free = threading.Event()

    def write_slowly(_folder: Path, _preset_id: str) -> None:
        assert disk_is_free.wait(BOUND_S)

    it = Reloading(folder, write_default=write_slowly)
    await it.reloader.load()
    async with asyncio.TaskGroup() as group:
        switch = group.create_task(it.preset_switch.switch_to("play", persist=True))
        it.pool.offers["alpha"] = make_snapshot(tools=["drop"])
        await it.rebuild()
        assert (it.tools, switch.done()) == ([], False)
        disk_is_free.set()
    assert it.tools == ["beta:translate"]


async def test_a_tool_that_its_server_drops_is_removed_by_a_rebuild(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    it.pool.offers["alpha"] = make_snapshot(tools=["drop"])
    await it.rebuild()
    assert (it.tools, it.code("alpha:search")) == ([], "TOOL_NOT_ALLOWED")


@pytest.mark.parametrize("how", ["removed", "disabled"])
async def test_items_of_a_removed_server_are_removed(folder: Path, how: str) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    write_servers(
        folder,
        *(["beta"] if how == "removed" else ["alpha", "beta"]),
        default="work",
        disabled=["alpha"],
    )
    await it.reloader.load()
    assert (it.tools, it.code("p1", Kind.PROMPT)) == ([], "PROMPT_NOT_FOUND")


@pytest.mark.requirement("P-21")
async def test_an_edit_is_applied_automatically_without_reconnecting_servers(
    folder: Path,
) -> None:
    it = Reloading(folder)
    async with it.running():
        write_preset(folder, "work", "alpha/drop")
        async with asyncio.timeout(BOUND_S):
            await until(lambda: it.tools == ["alpha:drop"])
    assert all(wanted == it.pool.applied[0] for wanted in it.pool.applied)


async def test_a_changed_configuration_is_applied_to_the_pool(folder: Path) -> None:
    it = Reloading(folder)
    async with it.running():
        write_servers(folder, "alpha", default="work")
        await until(lambda: list(it.pool.applied[-1]) == ["alpha"])


async def test_a_reload_without_changes_does_nothing(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.reloader.load()
    assert (it.publisher.version, len(it.pool.applied)) == (1, 1)


async def test_a_crashed_reload_does_not_end_the_watch(folder: Path) -> None:
    failing = True

    def build(view: View, _bindings: object = None) -> RemoteComponents:
        if failing and view.tools:
            raise RuntimeError("a defect")
        return fake_components(view)

    write_preset(folder, "work")
    it = Reloading(folder, build=build)
    async with it.running():
        write_preset(folder, "work", "alpha/search")
        await until(lambda: bool((last := it.publisher.last_reload) and not last.ok))
        failing = False
        write_preset(folder, "work", "alpha/drop")
        await until(lambda: it.tools == ["alpha:drop"])


async def test_a_problem_is_logged_once_and_counted(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    (folder / "mcp.json").write_text("{", encoding="utf-8")
    with capture_logs() as lines:
        await it.reloader.load()
        await it.reloader.load()
    exposition = it.metrics.exposition().decode()
    assert (
        [line["file"] for line in lines if line["event"] == "config.problem"],
        'mcp_proxy_config_reloads_total{result="failed"} 2.0' in exposition,
        "mcp_proxy_config_problems 1.0" in exposition,
    ) == (["mcp.json"], True, True)


def problem_files(lines: Sequence[Mapping[str, object]]) -> list[object]:
    return [line["file"] for line in lines if line["event"] == "config.problem"]


@pytest.mark.parametrize(
    "text", ["{", '{"id": "other", "name": "x"}', '{"id": "play", "name": "x", "tools": 1}']
)
async def test_an_invalid_inactive_preset_is_logged_when_read(folder: Path, text: str) -> None:
    (folder / "preset_play.json").write_text(text, encoding="utf-8")
    it = Reloading(folder)
    with capture_logs() as lines:
        await it.reloader.load()
        await it.reloader.load()
    assert problem_files(lines) == ["preset_play.json"]
    assert (it.active, "mcp_proxy_config_problems 0.0" in it.metrics.exposition().decode()) == (
        "work",
        True,
    )


async def test_an_edit_that_breaks_an_inactive_preset_is_logged(folder: Path) -> None:
    it = Reloading(folder)
    async with it.running():
        with capture_logs() as lines:
            (folder / "preset_play.json").write_text("{", encoding="utf-8")
            await until(lambda: problem_files(lines) == ["preset_play.json"])
            write_preset(folder, "play")
            write_preset(folder, "work", "alpha/drop")
            await until(lambda: it.tools == ["alpha:drop"])
            write_preset(folder, "work", "alpha/search")  # that load may have read the file already
            await until(lambda: it.tools == ["alpha:search"])
            (folder / "preset_play.json").write_text("{", encoding="utf-8")
            await until(lambda: problem_files(lines) == ["preset_play.json"] * 2)


async def test_problems_of_the_active_preset_are_not_logged_twice(
    folder: Path,
) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    (folder / "preset_work.json").write_text("{", encoding="utf-8")
    with capture_logs() as lines:
        await it.reloader.load()
    assert problem_files(lines).count("preset_work.json") == 2
