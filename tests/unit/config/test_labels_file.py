"""labels.json: an invalid file never removes a label."""

import json
from pathlib import Path

import pytest

from mcp_tools_proxy.config.labels import NO_LABELS, ActiveLabels, load_active_labels, load_labels
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.run import UNLABELLED, Label, ToolLabels
from mcp_tools_proxy.policy.runs.tool_labels import label_suggestions, labels_of, suggested_labels
from tests.unit.config.load_files import by_path, write_json


def problems_of(folder: Path, content: object) -> dict[str, str]:
    write_json(folder, "labels.json", content)
    with pytest.raises(InvalidConfig) as caught:
        load_labels(folder)
    return by_path(caught.value.problems)


def test_a_missing_file_means_no_labels(tmp_path: Path) -> None:
    assert load_labels(tmp_path) is NO_LABELS


def test_an_entry_is_read_with_all_its_fields(tmp_path: Path) -> None:
    entry = {"labels": ["sends"], "targets": ["to"], "identifiers": ["a[].id"], "claimed": ["from"]}
    write_json(tmp_path, "labels.json", {"tools": {"mail:send": entry, "crm:x": {"labels": []}}})
    assert load_labels(tmp_path) == {
        "mail:send": ToolLabels(
            labels=frozenset({Label.SENDS}),
            targets=frozenset({"to"}),
            identifiers=("a[].id",),
            claimed=("from",),
        ),
        "crm:x": ToolLabels(labels=frozenset()),
    }


def test_each_unknown_name_is_a_problem_with_a_hint(tmp_path: Path) -> None:
    entry = {"labels": ["send"], "target": ["to"]}
    found = problems_of(tmp_path, {"tools": {"mail:send": entry}, "tool": {}})
    assert 'did you mean "targets"' in found['$.tools["mail:send"].target']
    assert '$.tools["mail:send"].labels[0]' in found
    assert 'did you mean "tools"' in found["$.tool"]


def test_rules_between_keys(tmp_path: Path) -> None:
    both = {"labels": [], "identifiers": ["id"], "claimed": ["id"]}
    found = problems_of(tmp_path, {"tools": {"a:b": both, "read_doc_page": {"labels": []}}})
    assert "keep one" in found['$.tools["a:b"]']
    assert '"read_doc_pages"' in found["$.tools.read_doc_page"]
    assert problems_of(tmp_path, {"tools": {"a:b": {"targets": ["to"]}}})
    assert problems_of(tmp_path, {"tools": {"a:b": {"labels": [], "identifiers": ["a..[b"]}}})


def test_the_last_valid_labels_stay(tmp_path: Path) -> None:
    write_json(tmp_path, "labels.json", {"tools": {"mail:send": {"labels": ["sends"]}}})
    active = load_active_labels(tmp_path, ActiveLabels(), None)
    write_json(tmp_path, "labels.json", json.dumps({"tools": 1}))
    broken = load_active_labels(tmp_path, active, None)
    assert broken.tools == active.tools
    assert broken.problems
    (tmp_path / "labels.json").unlink()
    removed = load_active_labels(tmp_path, broken, None)
    assert removed.tools == active.tools
    assert removed.problems


def test_a_tool_without_entry_has_all_labels() -> None:
    other = ToolSpec(name="a:b", alias="a", description="", input_schema={}, server_id="a")
    own = ToolSpec(name="read_doc_pages", alias="r", description="", input_schema={})
    assert labels_of(other, {}) is UNLABELLED
    assert labels_of(own, {}).labels == {Label.READS_PRIVATE}
    assert labels_of(other, {"a:b": ToolLabels(labels=frozenset())}).labels == frozenset()


def test_suggestions_use_the_defaults_of_mcp_for_missing_hints() -> None:
    assert suggested_labels({}) == frozenset(Label)
    assert suggested_labels({"readOnlyHint": True, "openWorldHint": False}) == {Label.READS_PRIVATE}
    assert Label.DESTRUCTIVE not in suggested_labels({"destructiveHint": False})


def test_unlabelled_tools_of_servers_are_named_with_a_suggestion() -> None:
    reads = {"readOnlyHint": True, "openWorldHint": False}
    tools = [
        ToolSpec(
            name=name, alias="a", description="", input_schema={}, annotations=reads, server_id=of
        )
        for name, of in (("a:c", "a"), ("a:b", "a"), ("read_doc_pages", None))
    ]
    expected = {"a:b": {"labels": ["reads_private"]}}
    assert label_suggestions(tools, {"a:c": UNLABELLED}) == expected
