"""policies/*.cedar: hostile and broken files are problems, and never fewer policies."""

import os
from pathlib import Path

import pytest

from mcp_tools_proxy.config import policies
from mcp_tools_proxy.config.policies import (
    MAX_FILES,
    PolicyFiles,
    load_policy_files,
    load_written_policies,
)
from mcp_tools_proxy.domain.configuration import InvalidConfig
from tests.support.configuration import Config
from tests.unit.config.config_folder import LoadedFolder

POLICY = '@id("a") forbid(principal, action, resource);'


def problems_of(folder: Path) -> str:
    with pytest.raises(InvalidConfig) as caught:
        load_written_policies(folder)
    return str(caught.value)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    return tmp_path / "policies"


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    assert load_written_policies(tmp_path) is None
    (tmp_path / "policies").mkdir()
    assert load_written_policies(tmp_path) == ()


def test_files_are_read_also_through_links(place: Path) -> None:
    (place / "..data").write_text(POLICY)
    (place / "a.cedar").symlink_to("..data")
    (place / "notes.txt").write_text("x")
    assert [it.policy_id for it in load_written_policies(place.parent) or ()] == ["a"]


def test_the_same_id_in_two_files(place: Path) -> None:
    (place / "a.cedar").write_text(POLICY)
    (place / "b.cedar").write_text(POLICY)
    assert "policies/a.cedar" in problems_of(place.parent)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff", "not UTF-8"),
        (b" " * 300_000, "the limit"),
        (b"forbid(", "cannot be parsed"),
        (b"(" * 100_000, "brackets deep"),
        (b"forbid(principal, action, resource);", "$: policy 1 of the file has no @id"),
        (b'@id("a") permit(principal, action, resource);', '$: policy "a": is a permit'),
    ],
)
def test_a_file_that_cannot_be_read(place: Path, content: bytes, problem: str) -> None:
    (place / "a.cedar").write_bytes(content)
    assert problem in problems_of(place.parent)


def test_broken_links_pipes_and_too_many_files(place: Path) -> None:
    (place / "a.cedar").symlink_to("missing")
    assert "broken symbolic link" in problems_of(place.parent)
    (place / "a.cedar").unlink()
    os.mkfifo(place / "b.cedar")
    assert "is not a file" in problems_of(place.parent)
    (place / "b.cedar").unlink()
    for it in range(MAX_FILES + 1):
        (place / f"{it}.cedar").touch()
    assert "more than 100 files" in problems_of(place.parent)


def test_without_the_extra_the_command_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "find_spec", lambda _: None)
    assert "pip install 'mcp-tools-proxy[policies]'" in problems_of(place.parent)


def test_the_last_readable_policies_stay(place: Path) -> None:
    (place / "a.cedar").write_text(POLICY)
    first = load_policy_files(place.parent, PolicyFiles())
    (place / "a.cedar").write_text("forbid(")
    broken = load_policy_files(place.parent, first)
    assert broken.written == first.written
    assert broken.problems
    (place / "a.cedar").unlink()
    place.rmdir()
    removed = load_policy_files(place.parent, broken)
    assert removed.written == first.written
    assert removed.problems


@pytest.mark.parametrize("content", [None, "", " \n", "// nothing"])
def test_policies_stay_if_the_only_file_is_emptied_or_removed(
    place: Path, content: str | None
) -> None:
    file = place / "a.cedar"
    file.write_text(POLICY)
    first = load_policy_files(place.parent, PolicyFiles())
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    found = first
    for _ in range(2):
        found = load_policy_files(place.parent, found)
        assert found.written == first.written
        assert "stay active until a restart" in found.problems[0].message
    file.write_text(POLICY.replace('"a"', '"b"'))
    renewed = load_policy_files(place.parent, found)
    assert [it.policy_id for it in renewed.written or ()] == ["b"]
    assert not renewed.problems


def test_an_invalid_file_that_is_emptied_keeps_calls_refused(place: Path) -> None:
    (place / "a.cedar").write_text("forbid(")
    broken = load_policy_files(place.parent, PolicyFiles())
    (place / "a.cedar").write_text("")
    found = load_policy_files(place.parent, broken)
    assert (found.written, found.configured) == (None, True)
    assert found.problems


def test_one_of_two_files_can_be_removed_but_not_emptied(place: Path) -> None:
    (place / "a.cedar").write_text(POLICY)
    (place / "b.cedar").write_text(POLICY.replace('"a"', '"b"'))
    first = load_policy_files(place.parent, PolicyFiles())
    (place / "b.cedar").write_text("")
    emptied = load_policy_files(place.parent, first)
    assert emptied.written == first.written
    assert [it.file for it in emptied.problems] == ["policies/b.cedar"]
    (place / "b.cedar").unlink()
    removed = load_policy_files(place.parent, emptied)
    assert [it.policy_id for it in removed.written or ()] == ["a"]
    assert not removed.problems


def test_names_that_are_not_read_are_warnings(place: Path) -> None:
    (place / ".a.cedar.swp").touch()
    assert [it.file for it in load_policy_files(place.parent, PolicyFiles()).warnings] == [
        "policies"
    ]
    (place / "a.cedar").write_text(POLICY)
    (place / "b.cedar").touch()
    (place / "c.ceder").touch()
    (place / "d").mkdir()
    found = load_policy_files(place.parent, PolicyFiles())
    assert [(it.file, it.message.partition(":")[0]) for it in found.warnings] == [
        ("policies/b.cedar", "has no policies"),
        ("policies/c.ceder", "is not read"),
        ("policies/d", "is not read"),
    ]


def test_server_ids_that_make_names_of_policies_ambiguous(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path)
    ids = ["gateway", "label", "mail", "server"]
    Config(servers={key: {"command": "x"} for key in ids}).write(tmp_path)
    assert it.load().problems == ()
    (tmp_path / "policies").mkdir()
    problems = it.load().problems
    assert [(it.file, it.path) for it in problems] == [
        ("mcp.json", f"$.mcpServers.{name}") for name in ("gateway", "label", "server")
    ]
    assert all("rename the server" in it.message for it in problems)
