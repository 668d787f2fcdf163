"""Switching presets at runtime (P-17, P-20)."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from mcp_tools_proxy.config.config_folder import set_default_preset
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import RemoteComponents
from mcp_tools_proxy.domain.errors import ConfigReadOnly, PresetNotFound, PresetPinned
from mcp_tools_proxy.domain.offers import View
from tests.support.fakes import fake_components
from tests.unit.gateway.reloader_fixture import Reloading, write_servers


def default_of(folder: Path) -> str:
    content: dict[str, str] = json.loads((folder / "mcp.json").read_text(encoding="utf-8"))
    return content["defaultPresetId"]


def refuse(_path: Path, _content: bytes) -> None:
    raise PermissionError(30, "Read-only file system")


@pytest.mark.requirement("P-17", "P-20")
async def test_a_switch_is_applied_and_saved_when_it_returns(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("play", persist=True)
    assert (it.active, it.tools, default_of(folder)) == ("play", ["beta:translate"], "play")


@pytest.mark.requirement("P-18")
async def test_tools_of_the_old_preset_are_refused_after_a_switch(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("play", persist=False)
    assert [
        it.code("alpha:search"),
        it.code("alpha__search"),
        it.code("p1", Kind.PROMPT),
        it.code("u1", Kind.RESOURCE),
    ] == ["TOOL_NOT_ALLOWED", "TOOL_NOT_FOUND", "PROMPT_NOT_FOUND", "RESOURCE_NOT_FOUND"]


async def test_an_unsaved_switch_does_not_change_the_file(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("play", persist=False)
    assert (it.active, default_of(folder)) == ("play", "work")


@pytest.mark.parametrize("persist", [True, False])
async def test_a_switch_survives_later_reloads(folder: Path, *, persist: bool) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("play", persist=persist)
    version = it.publisher.version
    await it.reloader.load()
    assert (it.active, it.publisher.version) == ("play", version)


async def test_a_switch_survives_unrelated_edits_of_the_configuration(
    folder: Path,
) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("play", persist=False)
    write_servers(folder, "beta", default="work")
    await it.reloader.load()
    assert (it.active, it.tools) == ("play", ["beta:translate"])


async def test_a_switch_replaces_a_preset_that_could_not_be_loaded(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="nope")
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("work", persist=False)
    assert (it.active, it.publisher.config.problems) == ("work", ())


async def test_the_empty_preset_can_be_selected(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.preset_switch.switch_to("__empty__", persist=True)
    assert (it.tools, default_of(folder)) == ([], "__empty__")


async def test_a_pinned_preset_cannot_be_switched(folder: Path) -> None:
    it = Reloading(folder, pinned="work")
    await it.reloader.load()
    with pytest.raises(PresetPinned):
        await it.preset_switch.switch_to("play", persist=False)
    assert it.active == "work"


@pytest.mark.parametrize("preset_id", ["nope", "", "../preset_play", "a/b", "x" * 500])
async def test_a_missing_preset_cannot_be_selected(folder: Path, preset_id: str) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    with pytest.raises(PresetNotFound):
        await it.preset_switch.switch_to(preset_id, persist=True)
    assert (it.active, default_of(folder)) == ("work", "work")


async def test_an_invalid_preset_is_refused_with_the_reason(folder: Path) -> None:
    (folder / "preset_bad.json").write_text('{"id": "other"}', encoding="utf-8")
    it = Reloading(folder)
    await it.reloader.load()
    with pytest.raises(PresetNotFound) as caught:
        await it.preset_switch.switch_to("bad", persist=True)
    problems = (caught.value.details or {})["problems"]
    assert isinstance(problems, list)
    assert (it.active, [problem.partition(":")[0] for problem in problems]) == (
        "work",
        ["preset_bad.json"] * len(problems),
    )


async def test_a_switch_that_cannot_be_saved_changes_nothing(folder: Path) -> None:
    it = Reloading(folder, write_default=partial(set_default_preset, write=refuse))
    await it.reloader.load()
    with pytest.raises(ConfigReadOnly):
        await it.preset_switch.switch_to("play", persist=True)
    assert (it.active, it.tools, default_of(folder)) == ("work", ["alpha:search"], "work")


async def test_a_read_only_folder_allows_a_switch_until_the_next_start(folder: Path) -> None:
    it = Reloading(folder, write_default=partial(set_default_preset, write=refuse))
    await it.reloader.load()
    await it.preset_switch.switch_to("play", persist=False)
    assert it.active == "play"


async def test_an_invalid_configuration_is_not_modified(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    (folder / "mcp.json").write_text("{ broken", encoding="utf-8")
    with pytest.raises(ConfigReadOnly) as caught:
        await it.preset_switch.switch_to("play", persist=True)
    assert (list(caught.value.details or {}), it.active) == (["problems"], "work")


async def test_after_parallel_switches_the_active_and_the_saved_preset_are_equal(
    folder: Path,
) -> None:
    it = Reloading(folder)
    async with it.running():
        async with asyncio.TaskGroup() as group:
            for count in range(20):
                preset_id = "play" if count % 3 else "work"
                group.create_task(it.preset_switch.switch_to(preset_id, persist=True))
        await it.reloader.load()
    tools = {"work": ["alpha:search"], "play": ["beta:translate"]}
    assert (it.active, it.tools) == (default_of(folder), tools[default_of(folder)])


async def test_available_presets_are_listed(folder: Path) -> None:
    (folder / "preset_bad.json").write_text("{", encoding="utf-8")
    presets = await Reloading(folder).preset_switch.list_presets()
    assert {preset.preset_id for preset in presets} == {"work", "play"}


async def test_a_switch_that_crashes_changes_nothing(folder: Path) -> None:
    def build(view: View, _bindings: object = None) -> RemoteComponents:
        if "beta:translate" in view.tools:
            raise RuntimeError("a defect")
        return fake_components(view)

    it = Reloading(folder, build=build)
    await it.reloader.load()
    with pytest.raises(RuntimeError):
        await it.preset_switch.switch_to("play", persist=False)
    assert (it.active, it.tools, it.publisher.preset_state.missing) == (
        "work",
        ["alpha:search"],
        (),
    )
