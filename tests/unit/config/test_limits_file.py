"""limits.json: an invalid file never admits a call that it should stop."""

from pathlib import Path

import pytest

from mcp_tools_proxy.config.limits import NO_LIMITS, load_limits
from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.budget import CallField, LimitRule
from mcp_tools_proxy.domain.configuration import InvalidConfig
from tests.support.configuration import Json, make_agent, make_rule, write_json
from tests.support.tables import each_row
from tests.unit.config.config_folder import LoadedFolder, places
from tests.unit.config.load_files import by_path, load_as_limits
from tests.unit.config.load_files import write_json as write_text


def problems_of(folder: Path, content: object) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as caught:
        load_as_limits(folder, content)
    return by_path(caught.value.problems)


def names(it: LoadedFolder) -> list[str] | None:
    rules = it.now.limits.rules
    return None if rules is None else [rule.name for rule in rules.rules]


def write_limits(it: LoadedFolder, *rules: Json) -> None:
    write_json(it.folder / "limits.json", {"rules": list(rules)})
    it.load()


def test_a_missing_file_means_zero_rules(tmp_path: Path) -> None:
    assert load_limits(tmp_path) is NO_LIMITS


def test_a_rule_is_read_with_all_its_fields(tmp_path: Path) -> None:
    match = {"tenant": "acme", "tool": ["tickets:find", "search"]}
    loaded = load_as_limits(
        tmp_path,
        {
            "$schema": "x",
            "rules": [
                make_rule("first", calls=1),
                make_rule("second", match, each=["user"], calls=3, tokens=50.0, window_s=5),
            ],
        },
    )
    assert loaded.rules[1] == LimitRule(
        name="second",
        match={
            CallField.TENANT: frozenset({"acme"}),
            CallField.TOOL: frozenset({"tickets:find", "search"}),
        },
        each=frozenset({CallField.USER}),
        calls=3,
        tokens=50,
        window_s=5,
        source=RuleSource("limits.json", "$.rules[1]"),
    )


def test_each_unknown_key_is_a_problem_with_a_hint(tmp_path: Path) -> None:
    rule = make_rule(match={"tenat": "a"}, calls=1, eech=["user"], qqq=1)
    assert problems_of(tmp_path, {"rules": [rule], "rulez": []}) == {
        "$.rules[0].match.tenat": '"tenat" is not a known key; did you mean "tenant"?',
        "$.rules[0].eech": '"eech" is not a known key; did you mean "each"?',
        "$.rules[0].qqq": '"qqq" is not a known key; correct or remove it',
        "$.rulez": '"rulez" is not a known key; did you mean "rules"?',
    }


def test_two_rules_with_the_same_name_are_a_problem(tmp_path: Path) -> None:
    rules = [make_rule("a", calls=1), make_rule("b", calls=1), make_rule("a", tokens=1)]
    assert problems_of(tmp_path, {"rules": rules}) == {
        "$.rules[2].name": "is also the name of $.rules[0]; give each rule its own"
    }


def test_a_rule_without_limits_is_a_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path, {"rules": [make_rule()]}) == {
        "$.rules[0]": "limits nothing; set calls, tokens, or both"
    }


def test_a_rule_named_like_a_budget_of_the_settings_is_a_problem(tmp_path: Path) -> None:
    rule = make_rule("document_tokens", calls=1)
    assert problems_of(tmp_path, {"rules": [rule]}) == {
        "$.rules[0].name": "is the name of a built-in budget; choose another"
    }


def test_changes_of_the_file_are_loaded(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path)
    before = names(it)
    write_limits(it, make_rule("a", calls=1))
    assert (before, names(it)) == ([], ["a"])


@each_row("deleted", [False, True])
def test_an_invalid_or_deleted_file_keeps_the_last_valid_rules(
    tmp_path: Path, deleted: bool
) -> None:
    it = LoadedFolder(tmp_path)
    write_limits(it, make_rule("a", calls=1))
    it.break_file("limits.json", deleted=deleted)
    assert (names(it), places(it.now.problems)) == (["a"], [("limits.json", "$")])


def test_with_an_invalid_file_at_startup_the_rules_are_unknown(tmp_path: Path) -> None:
    write_text(tmp_path, "limits.json", "{")
    it = LoadedFolder(tmp_path)
    last = it.now.problems[-1]
    assert (names(it), str(last)) == (
        None,
        "limits.json: $: until it is fixed, all calls are refused",
    )


def test_a_dangling_link_is_an_invalid_file(tmp_path: Path) -> None:
    (tmp_path / "limits.json").symlink_to(tmp_path / "nowhere")
    assert names(LoadedFolder(tmp_path)) is None


def test_after_a_fix_the_rules_are_known(tmp_path: Path) -> None:
    write_text(tmp_path, "limits.json", "{")
    it = LoadedFolder(tmp_path)
    write_limits(it, make_rule("a", calls=1))
    assert (names(it), it.now.problems) == (["a"], ())


def test_unknown_servers_and_agents_are_warnings(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("reader"))
    write_limits(
        it,
        make_rule("good", {"server": "alpha", "agent": "reader"}, calls=1),
        make_rule("server", {"server": ["alpha", "alphs"]}, calls=1),
        make_rule("agent", {"agent": "q"}, calls=1),
    )
    assert [str(warning) for warning in it.now.warnings] == [
        'limits.json: $.rules[1].match.server: "alphs" is not a server in mcp.json; did you mean '
        '"alpha"?',
        'limits.json: $.rules[2].match.agent: "q" is not an agent in agents.json, so it matches '
        "no call",
    ]
