"""Published registries, their log lines, and crashes during a rebuild (P-16)."""

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.components import RemoteComponents
from mcp_tools_proxy.domain.offers import View
from tests.support.builders import make_snapshot
from tests.support.captured_logs import capture_logs
from tests.support.fakes import FakeTool, fake_components
from tests.unit.gateway.reloader_fixture import Reloading, write, write_preset, write_servers


@pytest.mark.requirement("P-16")
async def test_tools_prompts_and_resources_change_together(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    before = it.holder.current
    await it.preset_switch.switch_to("play", persist=False)
    names = [
        [
            [tool.spec.alias for tool in registry.tools.items],
            [prompt.spec.name for prompt in registry.prompts.items],
            [resource.spec.name for resource in registry.resources.items],
        ]
        for registry in (before, it.holder.current)
    ]
    assert names == [
        [["local", "alpha__search"], ["p1"], ["u1"]],
        [["local", "beta__translate"], ["p2"], ["u2"]],
    ]


@pytest.mark.requirement("P-18")
async def test_a_registry_in_use_does_not_change(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    taken = it.holder.current
    await it.preset_switch.switch_to("play", persist=False)
    assert ([tool.spec.name for tool in taken.tools.items], taken is it.holder.current) == (
        ["local", "alpha:search"],
        False,
    )


async def test_a_crashed_rebuild_keeps_the_last_registry_and_is_reported(folder: Path) -> None:
    failing = False

    def build(view: View, _bindings: object = None) -> RemoteComponents:
        if failing:
            raise RuntimeError("a defect")
        return fake_components(view)

    it = Reloading(folder, build=build)
    await it.reloader.load()
    failing = True
    with capture_logs() as lines:
        await it.rebuild()
    last = it.publisher.last_reload
    assert (it.tools, last and last.ok, [line["event"] for line in lines]) == (
        ["alpha:search"],
        False,
        ["registry.rebuild_crashed"],
    )


async def test_before_the_first_load_the_last_reload_is_empty(folder: Path) -> None:
    assert Reloading(folder).publisher.last_reload is None


@pytest.mark.requirement("P-07", "P-16")
async def test_missing_items_are_logged_once_with_the_reason(folder: Path) -> None:
    write_preset(folder, "work", "alpha/search", "alpha/no", "alpha/nor", "typo/x", "beta/y")
    it = Reloading(folder)
    del it.pool.offers["beta"]
    with capture_logs() as lines:
        await it.reloader.load()
        await it.rebuild()
    logged = [line for line in lines if line["event"] == "preset.missing"]
    assert [
        (line["log_level"], line["server_id"], line["names"], line["reason"]) for line in logged
    ] == [
        ("warning", "alpha", ["no", "nor"], 'server "alpha" does not offer this tool'),
        ("warning", "typo", ["x"], 'server "typo" is not in mcp.json'),
        ("warning", "beta", ["y"], "server beta is unavailable: connection refused"),
    ]


@pytest.mark.requirement("P-13")
async def test_shadowed_items_are_logged(folder: Path) -> None:
    write_preset(folder, "work", "beta/translate", "alpha/search")
    it = Reloading(folder)
    it.pool.offers["alpha"] = make_snapshot(tools=["search"], prompts=["p2"])
    with capture_logs() as lines:
        await it.reloader.load()
    (line,) = (line for line in lines if line["event"] == "preset.shadowed")
    assert (line["server_id"], line["names"], it.publisher.preset_state.shadowed[0].winner) == (
        "alpha",
        ["p2"],
        "beta",
    )


@pytest.mark.requirement("A-15")
async def test_unmatched_exclusions_are_warned_about_after_all_servers_are_known(
    folder: Path,
) -> None:
    agent = {"name": "reader", "exclude_components": ["seerch", "alpha:drop", "local"]}
    write(folder / "agents.json", {"agents": [agent]})
    it = Reloading(folder)
    beta = it.pool.offers.pop("beta")
    with capture_logs() as lines:
        await it.reloader.load()
        before = len(it.publisher.warnings)
        it.pool.offers["beta"] = beta
        await it.rebuild()
        await it.rebuild()
    logged = [(line["path"], line["reason"]) for line in lines if line["event"] == "config.warning"]
    offered = 'nothing offered by the servers that were discovered: "alpha"; "beta"'
    reason = f'"seerch" matches {offered}'
    assert (before, logged) == (0, [("$.agents[0].exclude_components[0]", reason)])


async def test_a_changed_active_preset_is_logged(folder: Path) -> None:
    it = Reloading(folder)
    with capture_logs() as lines:
        for default in ("work", "work", "play", "work"):
            write_servers(folder, "alpha", "beta", default=default)
            await it.reloader.load()
    logged = [line["preset"] for line in lines if line["event"] == "preset.active"]
    assert logged == ["work", "play", "work"]


async def test_a_change_of_agents_is_logged_once(folder: Path) -> None:
    it = Reloading(folder)
    with capture_logs() as lines:
        await it.reloader.load()
        write(folder / "agents.json", {"agents": [{"name": "reader"}]})
        await it.reloader.load()
        await it.rebuild()
        write(folder / "agents.json", {"agents": []})
        await it.reloader.load()
    logged = [line for line in lines if line["event"] == "agents.active"]
    assert [(line["agents"], line["agent_required"]) for line in logged] == [(1, True), (0, False)]


async def test_a_tool_with_a_duplicate_name_is_omitted_and_logged(folder: Path) -> None:
    duplicate = FakeTool(name="alpha:duplicate", alias="local", server_id="alpha")

    def build(view: View, _bindings: object = None) -> RemoteComponents:
        made = fake_components(view)
        return replace(made, tools=(duplicate, *made.tools))

    it = Reloading(folder, build=build)
    with capture_logs() as lines:
        await it.reloader.load()
    clashes = [line["names"] for line in lines if line["event"] == "preset.clash"]
    assert (it.tools, it.code("local"), clashes) == (["alpha:search"], "OK", [["alpha:duplicate"]])


async def test_a_changed_set_of_policies_is_logged(folder: Path) -> None:
    (folder / "policies").mkdir()
    file = folder / "policies" / "a.cedar"
    first = '@id("a") forbid(principal, action == Action::"alpha:search", resource);'
    it = Reloading(folder)
    with capture_logs() as lines:
        for text in ("", first, first, '@id("b") ' + first[9:], ""):
            file.write_text(text)
            await it.reloader.load()
    found = [line for line in lines if line["event"] == "policies.active"]
    assert [line["count"] for line in found] == [0, 1, 1]
    assert len({line["digest"] for line in found}) == 3
    assert [line["waiting"] for line in found] == [[], [], []]
