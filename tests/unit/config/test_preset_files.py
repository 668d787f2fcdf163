import os
from pathlib import Path

import pytest
from hypothesis import given

from mcp_tools_proxy.config.preset_files import PresetMissing, list_presets, load_preset
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    InvalidConfig,
    Preset,
    PresetSummary,
    Reference,
)
from tests.support.tables import each_row
from tests.unit.config.json_strategies import PRESETS
from tests.unit.config.load_files import by_path, load_as_preset, outcome_of, write_json


def write_preset(folder: Path, preset_id: str, **more: object) -> Path:
    content = {"id": preset_id, "name": preset_id.title(), **more}
    return write_json(folder, f"preset_{preset_id}.json", content)


def problems_of(folder: Path, content: object) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as caught:
        load_as_preset(folder, content)
    return by_path(caught.value.problems)


@pytest.mark.requirement("P-01")
@each_row("more", [{}, {"prompts": None, "resources": None}])
def test_omitted_prompts_and_resources_are_unrestricted(
    tmp_path: Path, more: dict[str, object]
) -> None:
    tools = [{"serverId": "notes", "toolName": "search"}]
    preset = load_as_preset(tmp_path, {"id": "work", "name": "Work", "tools": tools, **more})
    assert (preset.prompts, preset.resources) == (None, None)


@pytest.mark.requirement("P-01")
@each_row("more", [{}, {"description": "For work"}, {"description": None}])
def test_a_description_is_optional(tmp_path: Path, more: dict[str, object]) -> None:
    preset = load_as_preset(tmp_path, {"id": "work", "name": "Work", **more})
    assert preset == Preset(preset_id="work", name="Work")


@pytest.mark.requirement("P-02")
def test_references_are_enabled_by_default(tmp_path: Path) -> None:
    content = {
        "id": "work",
        "name": "Work",
        "tools": [
            {"serverId": "a", "toolName": "t1"},
            {"serverId": "a", "toolName": "t2", "enabled": False},
        ],
        "prompts": [{"serverId": "b", "promptName": "p", "enabled": True}],
        "resources": [{"serverId": "c", "resourceKey": "file:///x"}],
    }
    assert load_as_preset(tmp_path, content) == Preset(
        preset_id="work",
        name="Work",
        tools=(
            Reference(server_id="a", name="t1"),
            Reference(server_id="a", name="t2", enabled=False),
        ),
        prompts=(Reference(server_id="b", name="p"),),
        resources=(Reference(server_id="c", name="file:///x"),),
    )


def test_an_empty_list_differs_from_an_omitted_list(tmp_path: Path) -> None:
    content = {"id": "work", "name": "Work", "prompts": [], "resources": []}
    preset = load_as_preset(tmp_path, content)
    assert (preset.prompts, preset.resources) == ((), ())


def test_all_problems_of_a_preset_are_reported_together(tmp_path: Path) -> None:
    content = {
        "name": " ",
        "tools": [{"serverId": "a"}, {"serverId": "", "toolName": "t", "enabled": "yes"}, "t"],
        "prompts": {},
        "createdAtEpochMillis": "today",
    }
    assert problems_of(tmp_path, content).keys() == {
        "$.id",
        "$.name",
        "$.tools[0].toolName",
        "$.tools[1].serverId",
        "$.tools[1].enabled",
        "$.tools[2]",
        "$.prompts",
        "$.createdAtEpochMillis",
    }


def test_an_id_that_differs_from_the_file_name_is_refused(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, {"id": "other", "name": "x"})
    assert problems["$.id"].startswith('is "other", but')


def test_unknown_keys_of_a_preset_are_reported(tmp_path: Path) -> None:
    reference = {"serverId": "a", "toolName": "t", "enable": False}
    write_preset(tmp_path, "work", tools=[reference], icon="x", **{"$schema": "y"})
    loaded = load_preset(tmp_path, "work")
    assert by_path(loaded.warnings) == {
        "$.icon": '"icon" is not a known key, so it is ignored',
        "$.tools[0].enable": '"enable" is not a known key; did you mean "enabled"?',
    }


def test_a_preset_without_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(PresetMissing):
        load_preset(tmp_path / "no folder", "work")


@each_row("preset_id", ["", "a/b", "../work", "a" * 65, "a\0", "ä", "work\n"])
def test_an_invalid_id_is_missing_without_file_access(tmp_path: Path, preset_id: str) -> None:
    (tmp_path / "preset_..").mkdir()
    write_preset(tmp_path, "work")
    with pytest.raises(PresetMissing):
        load_preset(tmp_path, preset_id)


def test_the_empty_preset_does_not_need_a_file(tmp_path: Path) -> None:
    assert load_preset(tmp_path, "__empty__").preset is EMPTY_PRESET


def test_a_file_cannot_replace_the_empty_preset(tmp_path: Path) -> None:
    tools = [{"serverId": "a", "toolName": "t"}]
    write_preset(tmp_path, "__empty__", tools=tools)
    assert load_preset(tmp_path, "__empty__").preset is EMPTY_PRESET
    assert [problem.path for problem in list_presets(tmp_path).problems] == ["$.id"]


def test_presets_are_listed_by_creation_then_by_name(tmp_path: Path) -> None:
    write_preset(tmp_path, "late", createdAtEpochMillis=3000)
    write_preset(tmp_path, "early", createdAtEpochMillis=1000)
    for name in ("b", "a"):
        os.utime(write_preset(tmp_path, name), (2, 2))
    listed = list_presets(tmp_path).presets
    assert [preset.preset_id for preset in listed] == ["early", "a", "b", "late"]
    assert listed[0] == PresetSummary(preset_id="early", name="Early")


def test_invalid_presets_are_reported_and_the_others_listed(tmp_path: Path) -> None:
    write_preset(tmp_path, "good")
    write_json(tmp_path, "preset_broken.json", "{")
    write_json(tmp_path, "preset_other.json", {"id": "mine", "name": "x"})
    write_json(tmp_path, "preset_a b.json", {"id": "a b", "name": "x"})
    (tmp_path / "preset_gone.json").symlink_to("nowhere")
    (tmp_path / os.fsdecode(b"preset_\xff.json")).write_text("{}")
    write_json(tmp_path, "mcp.json", "{")
    listing = list_presets(tmp_path)
    assert [preset.preset_id for preset in listing.presets] == ["good"]
    assert {(problem.file, problem.path) for problem in listing.problems} == {
        ("preset_broken.json", "$"),
        ("preset_other.json", "$.id"),
        ("preset_a b.json", "$"),
        ("preset_gone.json", "$"),
        ("preset_\\xff.json", "$"),
    }


def test_a_missing_folder_contains_zero_presets(tmp_path: Path) -> None:
    assert list_presets(tmp_path / "nowhere").presets == ()


@given(content=PRESETS)
def test_any_json_is_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    folder = tmp_path_factory.mktemp("config")
    loaded = outcome_of(lambda: load_as_preset(folder, content))
    assert isinstance(loaded, Preset | InvalidConfig)
