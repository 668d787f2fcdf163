from pathlib import Path

import pytest

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.json_file import MAX_PROBLEMS
from tests.support.bounds import until
from tests.support.builders import make_caller
from tests.support.configuration import Config, make_agent, make_preset, write_json
from tests.support.tables import each_row
from tests.unit.config.config_folder import BROKEN, SERVERS, TOOLS, WORK, LoadedFolder, places
from tests.unit.gateway.reloader_fixture import Reloading


def test_a_missing_file_means_zero_profiles_without_a_problem(tmp_path: Path) -> None:
    now = LoadedFolder(tmp_path).now
    assert (now.has_profiles, now.visibilities, now.problems, now.warnings) == (False, {}, (), ())


def test_a_file_without_agents_gives_zero_profiles(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path)
    it.write_agents()
    assert it.now.has_profiles is False


@pytest.mark.requirement("A-03", "A-05", "A-14")
def test_a_profile_narrows_by_each_of_its_fields(tmp_path: Path) -> None:
    it = LoadedFolder(
        tmp_path,
        make_agent("all"),
        make_agent("ids", client_ids=["alpha"]),
        make_agent("exclude", exclude=["drop"]),
        make_agent("preset", preset="play"),
        make_agent("both", client_ids=["alpha"], preset="play"),
    )
    assert {name: it.usable_tools(name) for name in it.now.visibilities} == {
        "all": [*TOOLS],
        "ids": ["alpha/search", "alpha/drop"],
        "exclude": ["alpha/search", "beta/translate"],
        "preset": ["beta/translate"],
        "both": [],
    }
    assert (it.now.has_profiles, it.now.problems) == (True, ())


def test_an_edit_of_the_file_is_applied(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a"), make_agent("b"))
    it.write_agents(make_agent("a", client_ids=[]), make_agent("c"))
    assert (list(it.now.visibilities), it.usable_tools("a")) == (["a", "c"], [])


def test_a_file_created_later_is_applied(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path)
    it.write_agents(make_agent("a"))
    assert (it.now.has_profiles, list(it.now.visibilities)) == (True, ["a"])


@pytest.mark.requirement("A-07")
@each_row(
    "content",
    ["", '{"agents": [{"name": "a"', '{"agents": [{"name": "a", "exclude_components": 5}]}'],
    ids=["empty", "half-written", "wrong type"],
)
def test_an_invalid_file_keeps_the_last_valid_version_and_is_a_problem(
    tmp_path: Path, content: str
) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", client_ids=["alpha"]))
    (tmp_path / "agents.json").write_text(content, encoding="utf-8")
    it.load()
    assert it.usable_tools("a") == ["alpha/search", "alpha/drop"]
    assert [problem.file for problem in it.now.problems] == ["agents.json"]


def test_a_deleted_file_keeps_the_last_valid_version_and_is_a_problem(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a"))
    it.break_file("agents.json", deleted=True)
    it.load()
    assert (list(it.now.visibilities), places(it.now.problems)) == (["a"], [("agents.json", "$")])


def test_a_problem_ends_when_the_file_is_valid(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a"))
    it.break_file("agents.json")
    it.write_agents(make_agent("b"))
    assert (list(it.now.visibilities), it.now.problems) == (["b"], ())


def test_a_file_that_was_never_readable_counts_as_having_profiles(tmp_path: Path) -> None:
    (tmp_path / "agents.json").write_text(BROKEN, encoding="utf-8")
    it = LoadedFolder(tmp_path)
    it.load()
    assert (it.now.agents, it.now.has_profiles, it.now.visibilities) == (None, True, {})
    assert places(it.now.problems) == [("agents.json", "$")] * 2
    assert "agents are unknown" in it.now.problems[1].message


def test_an_invalid_file_deleted_before_it_was_ever_valid_means_zero_profiles(
    tmp_path: Path,
) -> None:
    (tmp_path / "agents.json").write_text(BROKEN, encoding="utf-8")
    it = LoadedFolder(tmp_path)
    it.break_file("agents.json", deleted=True)
    assert (it.now.has_profiles, it.now.problems) == (False, ())


def test_an_invalid_configuration_does_not_block_changes_of_agents(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path)
    it.break_file("mcp.json")
    it.write_agents(make_agent("a", client_ids=["alpha"]))
    assert (it.usable_tools("a"), places(it.now.problems)) == (
        ["alpha/search", "alpha/drop"],
        [("mcp.json", "$")],
    )


def test_an_edit_of_an_agents_preset_is_applied(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"))
    it.write_preset(make_preset("work", tools=[("alpha", "drop")]))
    assert it.usable_tools("a") == ["alpha/drop"]


@each_row("deleted", [True, False], ids=["deleted", "broken"])
def test_an_invalid_preset_keeps_its_last_valid_version_and_is_a_problem(
    tmp_path: Path, *, deleted: bool
) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"), active="play")
    it.break_file("preset_work.json", deleted=deleted)
    it.load()
    assert it.usable_tools("a") == ["alpha/search"]
    assert {problem.file for problem in it.now.problems} == {"preset_work.json"}


@each_row("deleted", [True, False], ids=["missing", "broken"])
def test_a_preset_that_was_never_loaded_allows_nothing(tmp_path: Path, *, deleted: bool) -> None:
    it = LoadedFolder(tmp_path)
    it.break_file("preset_work.json", deleted=deleted)
    it.write_agents(make_agent("a"), make_agent("b", preset="work"), make_agent("c", preset="work"))
    of_the_file = [] if deleted else [("preset_work.json", "$")]
    assert (it.usable_tools("b"), it.usable_tools("c")) == ([], [])
    assert places(it.now.problems) == [
        ("agents.json", "$.agents[1].preset"),
        ("agents.json", "$.agents[2].preset"),
        *of_the_file,
    ]


def test_a_preset_created_later_is_applied(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="late"))
    before = it.now
    it.write_preset(make_preset("late", tools=[("beta", "translate")]))
    assert (it.usable_tools("a"), it.now.problems) == (["beta/translate"], ())
    assert it.now != before


def test_an_agent_can_use_the_empty_preset(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="__empty__"))
    assert (it.usable_tools("a"), it.now.problems) == ([], ())


def test_a_problem_of_a_preset_used_twice_is_reported_once(
    tmp_path: Path,
) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"), active="work")
    it.write_preset({**WORK, "colour": "red"})
    warned = places(it.now.warnings)
    it.break_file("preset_work.json")
    assert (warned, len(it.now.problems), len(set(it.now.problems))) == (
        [("preset_work.json", "$.colour")],
        2,
        2,
    )


@pytest.mark.requirement("A-15")
def test_an_unknown_server_causes_a_warning_with_a_suggestion(tmp_path: Path) -> None:
    it = LoadedFolder(
        tmp_path, make_agent("a"), make_agent("b", client_ids=["alpha", "betta", "x"])
    )
    assert {warning.path: warning.message for warning in it.now.warnings} == {
        "$.agents[1].client_ids[1]": '"betta" is not a server in mcp.json; did you mean "beta"?',
        "$.agents[1].client_ids[2]": '"x" is not a server in mcp.json, so it is ignored',
    }


def test_the_warning_about_an_unknown_server_ends_when_mcp_json_has_it(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", client_ids=["gamma"]))
    warned = len(it.now.warnings)
    write_json(tmp_path / "mcp.json", {"mcpServers": {**SERVERS, "gamma": {"command": "x"}}})
    assert (warned, it.load().warnings) == (1, ())


def test_servers_are_not_reported_as_unknown_before_mcp_json_was_read(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", client_ids=["gamma"]))
    it.break_file("mcp.json")
    it.now = ActiveConfig()
    assert it.load().warnings == ()


def test_the_number_of_reported_unknown_servers_is_limited(tmp_path: Path) -> None:
    ids = [f"beta{index}" for index in range(MAX_PROBLEMS + 5)]
    now = LoadedFolder(tmp_path, make_agent("a", client_ids=ids)).now
    assert (len(now.warnings), now.warnings[-1].message) == (
        MAX_PROBLEMS + 1,
        "has 5 more problems",
    )


@pytest.mark.requirement("A-07")
@pytest.mark.parametrize("edited", ["agents.json", "preset_own.json"])
async def test_an_edit_is_applied_automatically(tmp_path: Path, edited: str) -> None:
    own = make_preset("own", tools=[("alpha", "search")])
    Config(servers=SERVERS, presets=[WORK, own], agents=[make_agent("a", preset="own")]).write(
        tmp_path
    )
    now = {
        "agents.json": {"agents": [make_agent("a", client_ids=["beta"])]},
        "preset_own.json": make_preset("own"),
    }
    it = Reloading(tmp_path, pinned="work")
    caller = make_caller(agent="a")
    async with it.running():
        listed = len(it.holder.current.visible_to(caller))
        write_json(tmp_path / edited, now[edited])
        await until(lambda: len(it.holder.current.visible_to(caller)) == listed - 1)
