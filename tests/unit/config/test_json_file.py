import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.config.json_file import MAX_FILE_BYTES, MAX_PROBLEMS, json_path, steps_of
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.configuration import InvalidConfig
from tests.support.tables import each_row
from tests.unit.config.load_files import load, refused


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"{", "line 1, column 2"),
        (b'{"mcpServers": {},,}', "comma"),
        (b'{"mcpServers": {}, "x": [1,,\n]}', "comma"),
        (b'{"mcpServers": {}} x', "is not valid JSON"),
        (b'{"a": "\xff"}', "is not UTF-8: byte 7"),
        ('{"mcpServers": {}}'.encode("utf-16"), "is not UTF-8"),
        (b"[]", "should be a JSON object"),
        (b"null", "should be a JSON object"),
        (b'"mcpServers"', "should be a JSON object"),
        (b'{"mcpServers": {}, "x": NaN}', "NaN is not a JSON number"),
        (b'{"mcpServers": {}, "x": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"mcpServers": {}, "x": ' + b"1" * 5000 + b"}", "is not valid JSON"),
        (b"[" * 100_000, "nested more than 64 levels"),
        (b'{"x": "' + b"x" * MAX_FILE_BYTES + b'"}', f"over {MAX_FILE_BYTES} bytes"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_an_unusable_file_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    assert problem in refused(tmp_path, content)["$"]


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert load(tmp_path, b'\xef\xbb\xbf{"mcpServers": {}}').servers == {}


def test_too_many_levels_are_refused_with_their_path(tmp_path: Path) -> None:
    deep = '{"mcpServers": {}, "x": ' + "[" * 64 + "]" * 64 + "}"
    assert refused(tmp_path, deep) == {
        "$.x" + "[0]" * 63: "is nested more than 64 levels deep",
    }


def test_the_maximum_number_of_levels_is_read(tmp_path: Path) -> None:
    deep = '{"mcpServers": {}, "x": ' + "[" * 63 + "]" * 63 + "}"
    assert load(tmp_path, deep).servers == {}


def test_a_duplicate_key_is_refused_by_name(tmp_path: Path) -> None:
    twice = '{"mcpServers": {"a": {"command": "x"}, "b": {"url": 1, "url": 2}, "a": {}}}'
    assert refused(tmp_path, twice) == {
        "$.mcpServers": 'names "a" twice; keep one of them',
        "$.mcpServers.b": 'names "url" twice; keep one of them',
    }


@each_row("content", ['{"a": "\\ud800"}', '{"a": {"\\udfff": 1}}'])
def test_a_lone_surrogate_is_refused(tmp_path: Path, content: str) -> None:
    assert "surrogate" in refused(tmp_path, content)["$.a"]


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@each_row("make", [_folder, _loop, _pipe])
def test_folders_loops_and_pipes_are_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "mcp.json")
    with pytest.raises(InvalidConfig) as caught:
        load_configuration(tmp_path, {}, call_timeout_s=60, max_result_bytes=1000)
    assert str(tmp_path) not in str(caught.value)


def test_the_number_of_problems_is_limited(tmp_path: Path) -> None:
    server = {"command": "x", "args": [5] * (MAX_PROBLEMS + 20)}
    problems = refused(tmp_path, {"mcpServers": {"s": server}})
    assert (len(problems), problems["$"]) == (MAX_PROBLEMS + 1, "has 20 more problems")


@each_row(
    ("location", "path"),
    [
        ((), "$"),
        (("mcpServers", "notes", "url"), "$.mcpServers.notes.url"),
        (("mcpServers", "a b", "args", 2), '$.mcpServers["a b"].args[2]'),
        (("a.b",), '$["a.b"]'),
        (('a"b\n',), '$["a\\"b\\n"]'),
        (("my-notes", "$schema"), "$.my-notes.$schema"),
        (("",), '$[""]'),
    ],
)
def test_locations_are_shown_as_json_paths(location: tuple[int | str, ...], path: str) -> None:
    assert json_path(location) == path


@each_row(
    ("path", "steps"),
    [
        ("$", []),
        ("$.defaultPresetId", ["defaultPresetId"]),
        ('$.mcpServers["a.b [bind]"].exclude[3]', ["mcpServers", "a.b [bind]", "exclude", "3"]),
        ('$.agents[?@.name=="a].bind"].client_ids', ["agents", '?@.name=="a].bind', "client_ids"]),
    ],
)
def test_a_path_with_any_names_is_read_step_by_step(path: str, steps: list[str]) -> None:
    assert steps_of(path) == steps
