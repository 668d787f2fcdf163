"""Where MCP lists show bare names, a preset whose bare names are not unique is an invalid one."""

from pathlib import Path

import pytest

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.errors import PresetNotFound
from tests.support.builders import make_caller
from tests.support.configuration import make_agent
from tests.unit.config.config_folder import places
from tests.unit.gateway.reloader_fixture import Reloading, write, write_preset, write_servers

CLASH = ("preset_twice.json", "$.tools[1].toolName")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two servers; the preset ``work`` (the default) has unique names, ``twice`` has not."""
    write_servers(tmp_path, "alpha", "beta", default="work")
    write_preset(tmp_path, "work", "alpha/search", "beta/translate")
    write_preset(tmp_path, "twice", "alpha/search", "beta/search")
    return tmp_path


def bare(folder: Path) -> Reloading:
    return Reloading(folder, tool_names=ToolNameStyle.BARE)


async def listed(it: Reloading, agent: str | None = None) -> list[object]:
    found = await it.holder.current.mcp_tools(make_caller(agent=agent))
    return [definition["name"] for definition in found.definitions]


async def test_a_preset_of_unique_names_is_listed_bare(folder: Path) -> None:
    it = bare(folder)
    await it.reloader.load()
    assert await listed(it) == ["local", "search", "translate"]


async def test_at_the_start_the_empty_preset_is_in_force_instead(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="twice")
    it = bare(folder)
    await it.reloader.load()
    assert (it.active, await listed(it)) == ("__empty__", ["local"])
    assert CLASH in places(it.publisher.problems)


async def test_while_running_the_last_good_version_stays_in_force(folder: Path) -> None:
    it = bare(folder)
    await it.reloader.load()
    write_preset(folder, "work", "alpha/search", "alpha/drop", "beta/drop")
    await it.reloader.load()
    assert await listed(it) == ["local", "search", "translate"]
    assert ("preset_work.json", "$.tools[2].toolName") in places(it.publisher.problems)


async def test_a_name_of_a_tool_of_ours_is_refused(folder: Path) -> None:
    write_preset(folder, "work", "alpha/local")
    it = bare(folder)
    await it.reloader.load()
    assert ("preset_work.json", "$.tools[0].toolName") in places(it.publisher.problems)


async def test_switching_to_it_fails_with_its_problems(folder: Path) -> None:
    it = bare(folder)
    await it.reloader.load()
    with pytest.raises(PresetNotFound) as refused:
        await it.preset_switch.switch_to("twice", persist=False)
    details = refused.value.details or {}
    assert 'preset_twice.json: $.tools[1].toolName: "search" is also' in str(details["problems"])
    assert it.active == "work"


async def test_it_is_not_among_the_presets_that_can_be_chosen(folder: Path) -> None:
    presets = await bare(folder).preset_switch.list_presets()
    assert [preset.preset_id for preset in presets] == ["work"]


async def test_an_agent_whose_preset_it_is_sees_nothing_of_any_server(folder: Path) -> None:
    agents = [make_agent("of_twice", preset="twice"), make_agent("of_work", preset="work")]
    write(folder / "agents.json", {"agents": agents})
    it = bare(folder)
    await it.reloader.load()
    assert await listed(it, "of_twice") == ["local"]
    assert await listed(it, "of_work") == ["local", "search", "translate"]
    assert CLASH in places(it.publisher.problems)


@pytest.mark.parametrize("style", [ToolNameStyle.SERVER, ToolNameStyle.ALIAS])
async def test_in_other_styles_it_is_as_good_as_any(folder: Path, style: ToolNameStyle) -> None:
    it = Reloading(folder, tool_names=style)
    await it.reloader.load()
    await it.preset_switch.switch_to("twice", persist=False)
    assert (it.active, it.publisher.problems) == ("twice", ())
