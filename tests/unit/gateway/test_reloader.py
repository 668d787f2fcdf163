"""The registry follows the files and the servers (P-16, P-21)."""

import asyncio
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.view import View
from mcp_tools_proxy.registry.component_table import drop_name_conflicts
from tests.support.bounds import BOUND_S
from tests.support.builders import make_snapshot
from tests.support.fakes import FakeComponents, FakeTool, fake_components
from tests.unit.gateway.reloader_fixture import Reloading, write, write_preset, write_servers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two servers, and the presets work (alpha, the default) and play (beta)."""
    write_servers(tmp_path, "alpha", "beta", default="work")
    write_preset(tmp_path, "work", "alpha/search")
    write_preset(tmp_path, "play", "beta/translate")
    return tmp_path


@pytest.mark.requirement("P-16")
async def test_tools_prompts_and_resources_change_together(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    before = it.holder.current
    await it.reloader.switch("play", persist=False)
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
async def test_a_registry_once_taken_stays_as_it_was(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    taken = it.holder.current
    await it.reloader.switch("play", persist=False)
    assert ([tool.spec.name for tool in taken.tools.items], taken is it.holder.current) == (
        ["local", "alpha:search"],
        False,
    )


async def test_what_a_server_offers_later_is_there_after_a_rebuild(folder: Path) -> None:
    it = Reloading(folder)
    late = it.pool.offers.pop("alpha")
    await it.reloader.load()
    assert (it.tools, len(it.reloader.missing)) == ([], 1)
    it.pool.offers["alpha"] = late
    await it.rebuild()
    assert (it.tools, it.reloader.missing) == (["alpha:search"], ())


async def test_what_servers_offer_does_not_wait_for_a_slow_disk(folder: Path) -> None:
    disk_is_free = threading.Event()

    def write_slowly(_folder: Path, _preset_id: str) -> None:
        assert disk_is_free.wait(BOUND_S)

    it = Reloading(folder, write_default=write_slowly)
    await it.reloader.load()
    async with asyncio.TaskGroup() as group:
        switch = group.create_task(it.reloader.switch("play", persist=True))
        it.pool.offers["alpha"] = make_snapshot(tools=["drop"])
        await it.rebuild()
        assert (it.tools, switch.done()) == ([], False)
        disk_is_free.set()
    assert it.tools == ["beta:translate"]


async def test_a_tool_that_its_server_drops_is_gone_after_a_rebuild(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    it.pool.offers["alpha"] = make_snapshot(tools=["drop"])
    await it.rebuild()
    assert (it.tools, it.code("alpha:search")) == ([], "TOOL_NOT_ALLOWED")


@pytest.mark.parametrize("how", ["removed", "disabled"])
async def test_a_server_that_leaves_takes_its_items_along(folder: Path, how: str) -> None:
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
async def test_an_edit_is_in_force_by_itself_without_touching_the_servers(
    folder: Path,
) -> None:
    it = Reloading(folder)
    async with it.running():
        write_preset(folder, "work", "alpha/drop")
        async with asyncio.timeout(BOUND_S):
            await it.until(lambda: it.tools == ["alpha:drop"])
    assert all(wanted == it.pool.applied[0] for wanted in it.pool.applied)


async def test_a_changed_configuration_is_applied_to_the_pool(folder: Path) -> None:
    it = Reloading(folder)
    async with it.running():
        write_servers(folder, "alpha", default="work")
        await it.until(lambda: list(it.pool.applied[-1]) == ["alpha"])


async def test_a_look_that_finds_nothing_new_changes_nothing(folder: Path) -> None:
    it = Reloading(folder)
    await it.reloader.load()
    await it.reloader.load()
    assert (it.reloader.version, len(it.pool.applied)) == (1, 1)


async def test_a_rebuild_that_crashes_keeps_the_last_registry_and_is_told(folder: Path) -> None:
    failing = False

    def build(view: View) -> FakeComponents:
        if failing:
            raise RuntimeError("a defect")
        return fake_components(view)

    it = Reloading(folder, build=build)
    await it.reloader.load()
    failing = True
    with capture_logs() as lines:
        await it.rebuild()
    last = it.reloader.last_reload
    assert (it.tools, last and last.ok, [line["event"] for line in lines]) == (
        ["alpha:search"],
        False,
        ["registry.rebuild_crashed"],
    )


async def test_a_switch_that_crashes_changes_nothing(folder: Path) -> None:
    def build(view: View) -> FakeComponents:
        if "beta:translate" in view.tools:
            raise RuntimeError("a defect")
        return fake_components(view)

    it = Reloading(folder, build=build)
    await it.reloader.load()
    with pytest.raises(RuntimeError):
        await it.reloader.switch("play", persist=False)
    assert (it.active, it.tools, it.reloader.missing) == ("work", ["alpha:search"], ())


async def test_before_the_first_look_there_is_no_last_reload(folder: Path) -> None:
    assert Reloading(folder).reloader.last_reload is None


async def test_a_reload_that_crashes_does_not_end_the_watch(folder: Path) -> None:
    failing = True

    def build(view: View) -> FakeComponents:
        if failing and view.tools:
            raise RuntimeError("a defect")
        return fake_components(view)

    write_preset(folder, "work")
    it = Reloading(folder, build=build)
    async with it.running():
        write_preset(folder, "work", "alpha/search")
        await it.until(lambda: bool((last := it.reloader.last_reload) and not last.ok))
        failing = False
        write_preset(folder, "work", "alpha/drop")
        await it.until(lambda: it.tools == ["alpha:drop"])


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
        ("warning", "alpha", ["no", "nor"], "the server does not offer it"),
        ("warning", "typo", ["x"], "mcp.json has no enabled server of this id"),
        ("info", "beta", ["y"], "the server was not discovered yet"),
    ]


@pytest.mark.requirement("P-13")
async def test_shadowed_items_are_logged(folder: Path) -> None:
    write_preset(folder, "work", "beta/translate", "alpha/search")
    it = Reloading(folder)
    it.pool.offers["alpha"] = make_snapshot(tools=["search"], prompts=["p2"])
    with capture_logs() as lines:
        await it.reloader.load()
    (line,) = (line for line in lines if line["event"] == "preset.shadowed")
    assert (line["server_id"], line["names"], it.reloader.shadowed[0].winner) == (
        "alpha",
        ["p2"],
        "beta",
    )


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


@pytest.mark.requirement("A-15")
async def test_an_excluded_name_that_names_nothing_is_warned_of_once_all_servers_are_known(
    folder: Path,
) -> None:
    agent = {"name": "reader", "exclude_components": ["seerch", "alpha:drop", "local"]}
    write(folder / "agents.json", {"agents": [agent]})
    it = Reloading(folder)
    beta = it.pool.offers.pop("beta")
    with capture_logs() as lines:
        await it.reloader.load()
        before = len(it.reloader.warnings)
        it.pool.offers["beta"] = beta
        await it.rebuild()
        await it.rebuild()
    logged = [(line["path"], line["reason"]) for line in lines if line["event"] == "config.warning"]
    offered = 'nothing offered by the servers that were discovered: "alpha"; "beta"'
    reason = f'"seerch" matches {offered}'
    assert (before, logged) == (0, [("$.agents[0].exclude_components[0]", reason)])


async def test_the_preset_is_logged_when_another_is_active(folder: Path) -> None:
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


async def test_a_tool_whose_name_is_taken_is_left_out_and_logged(folder: Path) -> None:
    twin = FakeTool(name="alpha:twin", alias="local", server_id="alpha")

    def build(view: View) -> FakeComponents:
        made = fake_components(view)
        return FakeComponents((twin, *made.tools), made.prompts, made.resources, made.templates)

    it = Reloading(folder, build=build)
    with capture_logs() as lines:
        await it.reloader.load()
    clashes = [line["names"] for line in lines if line["event"] == "preset.clash"]
    assert (it.tools, it.code("local"), clashes) == (["alpha:search"], "OK", [["alpha:twin"]])


@pytest.mark.parametrize(
    ("name", "alias"),
    [("local", "x"), ("x", "local"), ("a:one", "x"), ("x", "a__one"), ("a__one", "x")],
)
def test_a_remote_tool_never_takes_a_name_or_an_alias_that_is_taken(name: str, alias: str) -> None:
    local = FakeTool(name="local")
    one = FakeTool(name="a:one", alias="a__one", server_id="a")
    twin = FakeTool(name=name, alias=alias, server_id="a")
    assert drop_name_conflicts([local], [one, twin]) == ((one,), (twin,))
