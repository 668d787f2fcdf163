"""mcp.json with comments, trailing commas, and values in the spelling of other clients."""

import json
from pathlib import Path

import pytest

from mcp_tools_proxy.config.config_folder import set_default_preset
from mcp_tools_proxy.config.json_file import parse_json, strict_json
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.server import Transport
from tests.support.tables import each_row
from tests.unit.config.load_files import load, load_server

TEXT = """// the servers { of the team
{
  /* "a": 1, */
  "mcpServers": {
    "notes": {"url": "https://a.example/mcp", /* , */ },  // keep, me
  },
}
"""


def test_comments_and_trailing_commas_are_read_and_kept_by_a_preset_switch(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(TEXT)
    for preset in ("work", "home"):
        set_default_preset(tmp_path, preset)
        text = path.read_text()
        assert parse_json("mcp.json", text, comments=True)["defaultPresetId"] == preset
        for comment in ("// the servers { of the team", '/* "a": 1, */', "/* , */", "// keep, me"):
            assert text.count(comment) == 1


@each_row(
    ("text", "parsed"),
    [
        (
            '{"a": "// no", "b": "/* no */", "c": "x,}"}',
            {"a": "// no", "b": "/* no */", "c": "x,}"},
        ),
        ('{"a": "\\\\",} // "', {"a": "\\"}),
        ('{"a": [1, 2, /* x */ ], }', {"a": [1, 2]}),
        ('\ufeff/**/{"a": "\\","}', {"a": '",'}),
        ('{"a": 1}//', {"a": 1}),
    ],
)
def test_comment_markers_in_strings_are_kept(text: str, parsed: object) -> None:
    assert parse_json("mcp.json", text, comments=True) == parsed
    assert len(strict_json(text)) == len(text)


@each_row(
    "text", ['{"a": [,]}', "{,}", '{"a": 1,,}', '{"a": 1 /* }', '{"a": 1 / }', '{"a":,}', '{"a']
)
def test_other_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_json("mcp.json", text, comments=True)


@each_row("text", ['{"a": 1,}', '{"a": 1} // x'])
def test_other_files_are_parsed_as_strict_json(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_json("agents.json", text)


@each_row(
    "word", ["streamableHttp", "STREAMABLE-HTTP", "StreamableHTTP", "streamable_http", "httpStream"]
)
def test_streamable_http_is_accepted_in_any_spelling(tmp_path: Path, word: str) -> None:
    entry = {"type": word, "url": "https://a.example/mcp"}
    assert load_server(tmp_path, entry).transport is Transport.STREAMABLE_HTTP


def test_numbers_and_booleans_in_env_become_texts(tmp_path: Path) -> None:
    entry = {"command": "x", "env": {"A": 8080, "B": True, "C": 1.5, "D": False, "E": "${V}"}}
    env = load_server(tmp_path, entry, {"V": "v"}).env
    assert env == {"A": "8080", "B": "true", "C": "1.5", "D": "false", "E": "v"}


@each_row("value", [None, [], {}])
def test_other_values_in_env_are_refused(tmp_path: Path, value: object) -> None:
    loaded = load(tmp_path, {"mcpServers": {"s": {"command": "x", "env": {"A": value}}}})
    assert "s" in loaded.invalid


@each_row(
    ("text", "is_warned"),
    [
        *(("$TOKEN", True), ("a $HOME_X b", True), ("$own", True), ("$5", False)),
        *(("a$b", False), ("${TOKEN:-x}", False), ("$${TOKEN}", False), ("$$TOKEN", False)),
    ],
)
def test_a_variable_without_braces_causes_a_warning(
    tmp_path: Path, text: str, is_warned: bool
) -> None:
    written = {"mcpServers": {"s": {"command": "x", "args": [text]}}}
    warnings = [it.message for it in load(tmp_path, written, {"own": "1"}).warnings]
    assert any("for the variable" in it for it in warnings) is is_warned, json.dumps(warnings)
