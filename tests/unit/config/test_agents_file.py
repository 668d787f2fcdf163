"""agents.json, and exclude in mcp.json (seed behaviours, part B)."""

from pathlib import Path

import pytest
from hypothesis import given

from mcp_tools_proxy.config.agents import MISSPELT, NO_AGENTS, load_agents
from mcp_tools_proxy.config.json_file import MAX_PROBLEMS
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents, InvalidConfig
from tests.support.configuration import Json
from tests.support.tables import each_row
from tests.unit.config.json_strategies import AGENTS
from tests.unit.config.load_files import by_path, load, load_as_agents, outcome_of, refused


def only_profile(folder: Path, **entry: object) -> AgentProfile:
    (profile,) = load_as_agents(folder, {"agents": [{"name": "reader", **entry}]}).profiles.values()
    return profile


def problems_of(folder: Path, content: object) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as caught:
        load_as_agents(folder, content)
    assert {problem.file for problem in caught.value.problems} == {"agents.json"}
    return by_path(caught.value.problems)


def test_a_missing_file_means_zero_agents(tmp_path: Path) -> None:
    assert load_agents(tmp_path / "nowhere") is NO_AGENTS


def test_a_dangling_link_is_not_treated_as_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "agents.json").symlink_to("..data/agents.json")
    with pytest.raises(InvalidConfig, match="is a broken symbolic link"):
        load_agents(tmp_path)


def test_agents_are_kept_by_name_in_file_order(tmp_path: Path) -> None:
    loaded = load_as_agents(tmp_path, {"agents": [{"name": "b"}, {"name": "a"}, {"name": "c"}]})
    assert [(name, it.name) for name, it in loaded.profiles.items()] == [(n, n) for n in "bac"]


@pytest.mark.requirement("A-07")
def test_a_complete_profile_is_loaded(tmp_path: Path) -> None:
    profile = only_profile(
        tmp_path,
        client_ids=["notes", "tickets"],
        exclude_components=["drop", "notes:search", "tool:x"],
        preset="work",
    )
    assert profile == AgentProfile(
        name="reader",
        server_ids=("notes", "tickets"),
        exclude_components=("drop", "notes:search", "tool:x"),
        preset_id="work",
    )


@pytest.mark.requirement("A-04")
@each_row(
    ("entry", "client_ids"),
    [({}, None), ({"client_ids": None}, None), ({"client_ids": []}, ())],
)
def test_a_missing_list_of_servers_means_all_and_an_empty_list_means_zero(
    tmp_path: Path, entry: Json, client_ids: tuple[str, ...] | None
) -> None:
    assert only_profile(tmp_path, **entry).server_ids == client_ids


@pytest.mark.requirement("A-15")
@each_row("entry", [{}, {"exclude_components": None}, {"exclude_components": []}])
def test_an_empty_list_excludes_nothing(tmp_path: Path, entry: Json) -> None:
    assert only_profile(tmp_path, **entry).exclude_components == ()


@pytest.mark.requirement("A-07")
def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    content = {
        "agents": [
            {"client_ids": "notes"},
            {"name": "ok"},
            {"name": "bad\tname", "exclude_components": ["fine", 5, ""]},
            {"name": "", "client_ids": [None], "preset": "a b"},
            "reader",
        ]
    }
    assert problems_of(tmp_path, content).keys() == {
        "$.agents[0].name",
        "$.agents[0].client_ids",
        "$.agents[2].name",
        "$.agents[2].exclude_components[1]",
        "$.agents[2].exclude_components[2]",
        "$.agents[3].name",
        "$.agents[3].client_ids[0]",
        "$.agents[3].preset",
        "$.agents[4]",
    }


@pytest.mark.requirement("A-07")
def test_two_agents_with_the_same_name_are_refused(tmp_path: Path) -> None:
    names = ["a", "b", "a", "A", "a"]
    problems = problems_of(tmp_path, {"agents": [{"name": name} for name in names]})
    message = "is also the name of $.agents[0]; give each agent its own"
    assert problems == {"$.agents[2].name": message, "$.agents[4].name": message}


def test_the_number_of_reported_problems_is_limited(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, {"agents": [{"name": "a"}] * (MAX_PROBLEMS + 3)})
    assert (len(problems), problems["$"]) == (MAX_PROBLEMS + 1, "has 2 more problems")


def test_unknown_keys_are_reported_and_ignored(tmp_path: Path) -> None:
    content = {
        "$schema": "./agents.schema.json",
        "clients": [],
        "agents": [{"name": "a"}, {"name": "b", "model": "large"}],
    }
    assert by_path(load_as_agents(tmp_path, content).warnings) == {
        "$.clients": '"clients" is not a known key, so it is ignored',
        "$.agents[1].model": "is for the LLM runtime and is ignored here",
    }


@pytest.mark.requirement("A-07")
@each_row(
    ("key", "meant"),
    [
        *MISSPELT.items(),
        ("client_id", "client_ids"),
        ("excluded_components", "exclude_components"),
        ("EXCLUDE_COMPONENT", "exclude_components"),
        ("presets", "preset"),
        ("Documents", "documents"),
        ("allowed_documents", "documents"),
    ],
)
def test_a_misspelt_key_is_refused_to_avoid_widening_access(
    tmp_path: Path, key: str, meant: str
) -> None:
    problems = problems_of(tmp_path, {"agents": [{"name": "a", key: []}]})
    assert problems == {"$.agents[0]": f'has the key "{key}", which should be {meant}'}


@each_row("key", ["guards", "sandbox", "guard", "guardrails", "Guards"])
def test_keys_of_servers_and_presets_are_refused_in_a_profile(tmp_path: Path, key: str) -> None:
    problems = problems_of(tmp_path, {"agents": [{"name": "a", key: {"secrets": "redact"}}]})
    assert "which a profile does not have" in problems["$.agents[0]"]


@given(content=AGENTS)
def test_any_json_is_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    folder = tmp_path_factory.mktemp("config")
    assert isinstance(outcome_of(lambda: load_as_agents(folder, content)), Agents | InvalidConfig)


@pytest.mark.requirement("A-01")
def test_exclusions_of_a_server_are_kept_by_server_id(tmp_path: Path) -> None:
    servers = {
        "a": {"command": "x", "exclude": ["search", "prompt:p"]},
        "b": {"command": "x", "exclude": []},
        "c": {"command": "x", "exclude": None},
        "d": {"command": "x"},
    }
    assert load(tmp_path, {"mcpServers": servers}).exclude == {"a": ("search", "prompt:p")}


@pytest.mark.requirement("A-01")
def test_exclusions_of_a_server_do_not_change_its_session(tmp_path: Path) -> None:
    plain = load(tmp_path, {"mcpServers": {"a": {"command": "x"}}})
    excluding = load(tmp_path, {"mcpServers": {"a": {"command": "x", "exclude": ["search"]}}})
    assert (excluding.servers == plain.servers, excluding == plain) == (True, False)


@pytest.mark.requirement("A-07")
def test_an_exclude_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    problems = refused(tmp_path, {"mcpServers": {"a": {"command": "x", "exclude": ["", 5]}}})
    assert list(problems) == ["$.mcpServers.a.exclude[0]", "$.mcpServers.a.exclude[1]"]
