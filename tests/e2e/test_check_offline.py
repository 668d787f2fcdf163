"""``check --offline``: files only, for pipelines without servers."""

import json
from pathlib import Path

import pytest

from tests.e2e.check_command import DEAD, check
from tests.support.configuration import Config, make_agent, make_preset

pytestmark = pytest.mark.e2e

ELSEWHERE = {
    "MCP_PROXY_DOCUMENTS_URL": "postgresql://gateway:secret@127.0.0.1:9/documents",
    "MCP_PROXY_RATE_LIMIT_STORAGE_URL": "redis://127.0.0.1:9/0",
}
"""A database and a Redis that do not exist."""


def test_nothing_is_started_and_unknown_facts_are_named(tmp_path: Path) -> None:
    started = tmp_path / "started"
    servers = {"a": {"command": "/bin/sh", "args": ["-c", f"touch {started}"]}, "b": DEAD}
    preset = make_preset("work", tools=[("a", "search"), ("b", "find")])
    Config(servers=servers, presets=[preset], agents=[make_agent("reader")]).write(
        tmp_path / "config"
    )
    code, out, err = check("--offline", environment=ELSEWHERE)
    assert (code, err, started.exists()) == (0, "", False)
    assert out.count("not tried") == 2
    assert "Not checked (offline)\n  whether servers can be reached" in out
    assert out.endswith("OK\n")


def test_counts_that_need_servers_are_null_in_json(tmp_path: Path) -> None:
    preset = make_preset("work", tools=[("b", "find")])
    Config(servers={"b": DEAD}, presets=[preset], agents=[make_agent("reader")]).write(
        tmp_path / "config"
    )
    code, out, _ = check("--offline", "--json")
    found = json.loads(out)
    (server,), (shown,), (agent,) = found["servers"], found["presets"], found["agents"]
    assert (code, found["offline"], found["offers"]) == (0, True, None)
    assert (server["state"], server["counts"], shown["counts"]) == ("not tried", None, None)
    assert (agent["name"], agent["sees"], agent["tokens"]) == ("reader", None, None)
    assert len(found["not_checked"]) == 3


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("mcp.json", "{", "mcp.json: $: is not valid JSON"),
        ("mcp.json", '{"mcpServers": {"a": {"comand": "x"}}}', "$.mcpServers.a.comand"),
        ("agents.json", '{"agents": [{"name": ""}]}', "agents.json: $.agents[0].name"),
        ("limits.json", '{"rules": [{"title": 1}]}', "limits.json: $.rules[0]"),
        ("preset_work.json", '{"id": "other", "name": "x"}', "preset_work.json: $.id"),
    ],
)
def test_a_mistake_in_a_file_exits_1(tmp_path: Path, name: str, text: str, words: str) -> None:
    Config(servers={"b": DEAD}).write(tmp_path / "config")
    (tmp_path / "config" / name).write_text(text)
    code, out, _ = check("--offline")
    assert (code, words in out) == (1, True)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("nowhere", 'server "nowhere" is not in mcp.json'),
        ("off", "it is disabled in mcp.json"),
        ("b", "mcp.json excludes it"),
    ],
)
def test_a_preset_that_no_server_can_satisfy_exits_1(
    tmp_path: Path, server: str, reason: str
) -> None:
    servers = {"b": {**DEAD, "exclude": ["find"]}, "off": {**DEAD, "enabled": False}}
    preset = make_preset("work", tools=[(server, "find")])
    Config(servers=servers, presets=[preset]).write(tmp_path / "config")
    code, out, _ = check("--offline")
    assert (code, reason in out, "1 missing item." in out) == (1, True, True)


def test_an_invalid_line_of_the_tokens_file_exits_1(tmp_path: Path) -> None:
    (tmp_path / "tokens.jsonl").write_text("{}")
    tokens = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    code, out, _ = check("--offline", environment=tokens)
    assert (code, "tokens.jsonl: line 1: is not a valid token" in out) == (1, True)


@pytest.mark.parametrize("options", [["--offers"], ["--agent", "reader"]])
def test_options_that_need_servers_are_invalid_usage(options: list[str]) -> None:
    code, out, err = check("--offline", *options)
    assert (code, out, "leave out --offline" in err) == (2, "", True)
